"""A column of CREATE TABLE or ALTER TABLE: its type and what is said of it."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from model.schema.types import Field
from sql.parsing.types import TypeParser

NO_KEYS = (
    "PRIMARY KEY is not available: Sluice holds append tables, which have none. "
    "To keep rows of one key in order, give the key as 'bucket-key'."
)


class ColumnParser(TypeParser):
    """Columns of a table."""

    _metadata: dict[str, str] | None = None
    """Keys of the METADATA columns read so far, in a statement whose table may have them."""
    _first_metadata: Token | None = None
    """Where the first of them is declared."""
    _virtual: frozenset[str] = frozenset()

    def column_rest(self, name: str) -> Field:
        """What stands behind a column's name: its type, whether it may be NULL, its default and comment."""
        type_ = self.column_type()
        comment: str | None = None
        default: str | None = None
        while True:
            if self.eat("NOT", "NULL"):
                type_ = type_.with_nullable(False)
            elif self.eat("COMMENT"):
                comment = self.text("the comment")
            elif self.word() == "PRIMARY":
                self.refuse(NO_KEYS)
            elif self.word() == "METADATA":
                self._metadata_column(name)
            elif self.word() == "DEFAULT":
                default = self.default()
            else:
                return Field(id=-1, name=name, type=type_, description=comment, default_value=default)

    def default(self) -> str:
        """A literal as Paimon stores it, which its writers cast to the column's type: texts, dates and times quoted, all else bare.

        Java takes the outer quotes away and nothing else, so a text that would need more is refused.
        """
        start = self.here
        self.need("DEFAULT")
        sign = "-" if self.eat("-") else ""
        token = self.here
        if token is not None and token.token_type == TokenType.NUMBER:
            self._advance()
            return sign + token.text
        if not sign and self.word() in ("TRUE", "FALSE"):
            self._advance()
            return token.text.lower() if token is not None else ""
        if sign or token is None or token.token_type != TokenType.STRING:
            self.refuse("DEFAULT takes a literal: a number, TRUE, FALSE, or a text (dates and times as texts, too).", start)
        if "'" in token.text or "\\" in token.text:
            self.refuse("A DEFAULT with a quote or a backslash in it is read differently by each of Paimon's clients.", token)
        self._advance()
        return f"'{token.text}'"

    def _metadata_column(self, name: str) -> None:
        if self._metadata is None:
            self.refuse(f"METADATA columns are declared when a table is created: column {name}.")
        self._first_metadata = self._first_metadata or self.here
        self.need("METADATA")
        self._metadata[name] = self.text("the metadata's key") if self.eat("FROM") else name
        if self.eat("VIRTUAL"):
            self._virtual |= {name}
