"""Column types as a Flink user types them."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.tokenizer_core import Token, TokenType

from model.errors import UnsupportedType
from model.schema.types import ArrayType, DataType, Field, MapType, MultisetType, RowType, VectorType, parse_type
from model.text.whole_number import whole_number
from sql.parsing.base import BaseParser

NO_ZONE = "TIMESTAMP WITH TIME ZONE is not a type of these tables; use TIMESTAMP_LTZ (an instant) or TIMESTAMP (without zone)."


class TypeParser(BaseParser):
    """Reads types straight into `model.schema.types`."""

    _SPARK_NAMES: ClassVar[dict[str, str]] = {
        "BYTE": "TINYINT", "SHORT": "SMALLINT", "LONG": "BIGINT", "REAL": "FLOAT", "TIMESTAMP_NTZ": "TIMESTAMP", "BOOL": "BOOLEAN",
        "CHARACTER": "CHAR", "CHARACTER VARYING": "VARCHAR", "CHAR VARYING": "VARCHAR",
    }  # fmt: skip

    def column_type(self) -> DataType:
        """A type with its nullability."""
        type_ = self._bare_type()
        while self.word() in ("ARRAY", "MULTISET"):  # the standard's spelling: INT ARRAY
            type_ = ArrayType(element=type_) if self.eat("ARRAY") else self._multiset(type_)
        if self.eat("NOT", "NULL"):
            return type_.with_nullable(False)
        self.eat("NULL")
        return type_

    def _multiset(self, element: DataType) -> DataType:
        self.need("MULTISET")
        return MultisetType(element=element)

    def _bare_type(self) -> DataType:
        at = self.here
        word = self.word()
        if word in ("ARRAY", "MULTISET", "VECTOR", "MAP", "ROW", "STRUCT"):
            self._advance()
            return self._nested(word)
        name = self.name("a type").upper()
        spelled = self._SPARK_NAMES.get(name, name)
        if name == "BINARY" and self.word() != "(":
            spelled = "BYTES"
        if name == "DOUBLE" and self.eat("PRECISION"):
            spelled = "DOUBLE"
        spelled += self._numbers()
        if name in ("TIMESTAMP", "TIME"):
            spelled += self._zone()
        try:
            return parse_type(spelled)
        except UnsupportedType as unknown:
            self.refuse(unknown.message, at)

    def _numbers(self) -> str:
        if not self.eat("("):
            return ""
        numbers = []
        while True:
            token = self.here
            if token is None or token.token_type != TokenType.NUMBER:
                self.fail("a number")
            numbers.append(token.text)
            self._advance()
            if not self.eat(","):
                break
        self.need(")")
        return f"({', '.join(numbers)})"

    def _zone(self) -> str:
        if self.eat("WITH", "LOCAL", "TIME", "ZONE"):
            return " WITH LOCAL TIME ZONE"
        if self.word() == "WITH" and self.word(1) == "TIME":
            self.refuse(NO_ZONE)
        self.eat("WITHOUT", "TIME", "ZONE")
        return ""

    def _open(self) -> str:
        """Type arguments stand in angle brackets; ROW's also in parentheses."""
        if self.eat("<"):
            return ">"
        self.need("(")
        return ")"

    def _close(self, bracket: str) -> None:
        """Step over a closing bracket; the tokenizer may have read two as a shift."""
        token = self.here
        if bracket == ">" and token is not None and token.text in (">>", ">>>"):
            self._split_shift(token.text)
        self.need(bracket)

    def _split_shift(self, text: str) -> None:
        at = self._tokens[self._index]
        single = [Token(TokenType.GT, ">", line=at.line, col=at.col, start=at.start + i, end=at.start + i) for i in range(len(text))]
        self._tokens[self._index : self._index + 1] = single
        index = self._index
        self._index = index - 1
        self._advance()

    def _nested(self, word: str) -> DataType:
        if word in ("ROW", "STRUCT"):
            return self._row()
        bracket = self._open()
        first = self.column_type()
        made: DataType
        if word == "MAP":
            self.need(",")
            made = MapType(key=first, value=self.column_type())
        elif word == "VECTOR":
            self.need(",")
            token = self.here
            length = None if token is None or token.token_type != TokenType.NUMBER else whole_number(token.text)
            if length is None:
                self.fail("the vector's length")
            self._advance()
            made = VectorType(element=first, length=length)
        else:
            made = ArrayType(element=first) if word == "ARRAY" else MultisetType(element=first)
        self._close(bracket)
        return made

    def _row(self) -> RowType:
        bracket = self._open()
        fields: list[Field] = []
        while True:
            name = self.name("a field's name")
            self.eat(":")
            type_ = self.column_type()
            comment = self.text("the field's comment") if self.eat("COMMENT") else self._row_comment()
            fields.append(Field(id=-1, name=name, type=type_, description=comment))
            if not self.eat(","):
                break
        self._close(bracket)
        return RowType(fields=tuple(fields))

    def _row_comment(self) -> str | None:
        """Flink's own spelling: the description right behind the type."""
        token = self.here
        return self.text() if token is not None and token.token_type == TokenType.STRING else None
