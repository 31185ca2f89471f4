"""What every part of the parser uses: matching words, and errors that know their place."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NoReturn

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from model.errors import InvalidParameter, SqlSyntaxError, UnsupportedStatement
from sql.parameters.placeholders import Binding, Bound, Placeholder, named
from sql.parameters.texts import Misfit
from sql.parameters.texts import text as spelled

_MOST_REREAD, _REREAD_ANYWAY = 10, 2_000
"""So many words for each of a text, and in any text, are read again at most; texts of people and programs have less than one."""
_NAME_TOKENS = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.EQ})


def place_of(sql: str, token: Token) -> tuple[int, int]:
    """Line and column of a token's first character, counted from 1."""
    before = sql[: token.start]
    return before.count("\n") + 1, token.start - (before.rfind("\n") + 1) + 1


class BaseParser(SparkParser):
    """Helpers over sqlglot's token cursor."""

    binding: Binding | None = None
    """Where the values of placeholders come from."""
    question_marks: Sequence[int] = ()
    """Where the text's ``?`` stand."""
    _reread: int = 0
    """Words that were read again so far."""

    def _retreat(self, index: int) -> None:
        """Go back to a word, to read anew what is behind it; raises `SqlSyntaxError` where that was done too often.

        sqlglot tries one reading and then another. Where both read what is inside, each level of nesting doubles the work.
        """
        self._reread += max(0, self._index - index)
        if self._reread > _MOST_REREAD * self._tokens_size + _REREAD_ANYWAY:
            at = self.here or self._tokens[-1]
            line, column = place_of(self.sql, at)
            raise SqlSyntaxError("The statement is nested too deeply.", line=line, column=column, fragment=at.text)
        super()._retreat(index)

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """``a NOT LIKE b`` is NOT around a LIKE, as of all other conditions: sqlglot marks the LIKE, which whoever reads it may not know.

        With ANY and ALL the NOT belongs to each pattern, and the mark stays.
        """
        like = this.this if isinstance(this, exp.Escape) else this
        if this is None or (isinstance(like, exp.Like | exp.ILike) and isinstance(like.expression, exp.Any | exp.All)):
            return super()._negate_range(this)
        return self.expression(exp.Paren(this=exp.Not(this=this)))

    def placeholder(self) -> Bound | None:
        """The value of the placeholder that stands here, which is stepped over; None where none does."""
        token = self.here
        if token is None or token.token_type not in (TokenType.PLACEHOLDER, TokenType.COLON):
            return None
        following = self._tokens[self._index + 1] if self._index + 1 < len(self._tokens) else None
        if token.token_type == TokenType.COLON and named(token, following, self.sql) is None:
            return None
        self._advance(1 if token.token_type == TokenType.PLACEHOLDER else 2)
        bound = self.bound(token.start, named(token, following, self.sql))
        for node in bound.tree.find_all(exp.Literal, exp.Null, exp.Boolean, exp.HexString):
            node.update_positions(token)
        return bound

    def bound(self, start: int, name: str | None) -> Bound:
        """The value of the placeholder at a place of the text; raises `InvalidParameter` where none was sent."""
        number = None if name is not None else bisect.bisect_right(self.question_marks, start)
        placeholder = Placeholder(start=start, number=number, name=name)
        if self.binding is None:
            line, column = self.sql.count("\n", 0, start) + 1, start - self.sql.rfind("\n", 0, start)
            raise InvalidParameter(
                f"{placeholder.written} at line {line}, column {column} is a placeholder, and no value was sent for it; "
                'POST /sql takes values as "parameters".',
                line=line,
                column=column,
                fragment=placeholder.written,
            )
        return self.binding.value(placeholder, self.sql)

    def scalar(self, what: str, bound: Bound) -> str:
        """A placeholder's value where a quoted text belongs."""
        try:
            return spelled(bound.value)
        except Misfit:
            self.fail(what, self._prev)

    def fail(self, expected: str, token: Token | None = None) -> NoReturn:
        """Raise `SqlSyntaxError` at a token (the present one) saying what belongs there."""
        at = token or self.here
        if at is None:
            last = self._prev
            line, column = place_of(self.sql, last) if last else (1, 1)
            last_text = last.text if last else ""
            raise SqlSyntaxError(
                f"The statement ends too early after '{last_text}': {expected} is expected.", line=line, column=column, fragment=last_text
            )
        line, column = place_of(self.sql, at)
        text = self.sql[at.start : at.end + 1]
        raise SqlSyntaxError(f"Syntax error at '{text}': {expected} is expected.", line=line, column=column, fragment=text)

    def refuse(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise `UnsupportedStatement` at a token."""
        at = token or self.here or self._prev
        if at is None:
            raise UnsupportedStatement(message)
        line, column = place_of(self.sql, at)
        raise UnsupportedStatement(message, line=line, column=column, fragment=self.sql[at.start : at.end + 1])

    @property
    def here(self) -> Token | None:
        """The present token, or None at the end."""
        return self._tokens[self._index] if 0 <= self._index < len(self._tokens) else None

    def _words(self, index: int) -> list[str]:
        """The words of an unquoted token in upper case: sqlglot reads some keywords, such as GROUP BY, as one token."""
        if not 0 <= index < len(self._tokens):
            return []
        token = self._tokens[index]
        quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return [] if quoted else token.text.upper().split()

    def word(self, offset: int = 0) -> str:
        """The first word of an unquoted token, so many tokens ahead; empty for anything else."""
        words = self._words(self._index + offset)
        return words[0] if words else ""

    def eat(self, *words: str) -> bool:
        """Step over the words if they stand here and end where a token ends."""
        wanted, tokens = list(words), 0
        while wanted:
            spoken = self._words(self._index + tokens)
            if not spoken or wanted[: len(spoken)] != spoken:
                return False
            wanted = wanted[len(spoken) :]
            tokens += 1
        self._advance(tokens)
        return True

    def need(self, *words: str) -> None:
        """Step over the words, or fail."""
        if not self.eat(*words):
            self.fail(" ".join(words))

    def name(self, what: str = "a name") -> str:
        """One name, quoted or not, as it is written."""
        token = self.here
        if (
            token is None
            or token.token_type in _NAME_TOKENS
            or not (token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_")
        ):
            self.fail(what)
        self._advance()
        return token.text

    def names(self, what: str = "a name") -> tuple[str, ...]:
        """A dotted name."""
        parts = [self.name(what)]
        while self.eat("."):
            parts.append(self.name(what))
        return tuple(parts)

    def text(self, what: str = "a quoted text") -> str:
        """One string literal."""
        if (bound := self.placeholder()) is not None:
            return self.scalar(what, bound)
        token = self.here
        if token is None or token.token_type != TokenType.STRING:
            self.fail(what)
        self._advance()
        return token.text

    def key_or_value(self, what: str) -> str:
        """An option's key or value: quoted, or bare words joined by dots and dashes."""
        if (bound := self.placeholder()) is not None:
            return self.scalar(what, bound)
        token = self.here
        if token is not None and token.token_type == TokenType.STRING:
            return self.text()
        start = token
        end = None
        while (token := self.here) is not None and token.token_type not in (
            TokenType.EQ,
            TokenType.COMMA,
            TokenType.R_PAREN,
            TokenType.SEMICOLON,
        ):
            if end is not None and token.start != end.end + 1:
                break
            end = token
            self._advance()
        if start is None or end is None:
            self.fail(what)
        return self.sql[start.start : end.end + 1].strip("`")

    def options(self) -> dict[str, str]:
        """``('key' = 'value', …)``; a key may stand once."""
        self.need("(")
        options: dict[str, str] = {}
        if self.eat(")"):
            return options
        while True:
            at = self.here
            key = self.key_or_value("an option's key")
            self.need("=")
            if key in options:
                self.fail("each option once, and this one stands twice", at)
            options[key] = self.key_or_value("an option's value")
            if not self.eat(","):
                self.need(")")
                return options

    def name_list(self, what: str = "a column") -> tuple[str, ...]:
        """``(a, b)``."""
        self.need("(")
        names = [self.name(what)]
        while self.eat(","):
            names.append(self.name(what))
        self.need(")")
        return tuple(names)

    def query(self, what: str) -> exp.Expr:
        """A query (also in parentheses or behind WITH)."""
        start = self.here
        query = self._parse_select(nested=self.word() != "WITH")
        query = self._parse_set_operations(query) if isinstance(query, exp.Expr) else None
        if isinstance(query, exp.Expr) and isinstance(query, exp.Query):
            query = self._parse_query_modifiers(query)
        if not isinstance(query, exp.Query | exp.Values):
            self.fail(what, start)
        return query

    def source_from(self, start: Token, *, until: Token | None = None) -> str:
        """The text from a token up to the present one (or ``until``), as the user wrote it."""
        end = (until.start if until else None) if until else (self.here.start if self.here else len(self.sql))
        for placeholder in self.binding.seen.values() if self.binding else ():
            if start.start <= placeholder.start < (end or len(self.sql)):
                self.refuse(
                    f"{placeholder.written} stands in a part that is kept as text, and its value would not be; write the value.", start
                )
        return self.sql[start.start : end].strip()

    def finish(self) -> None:
        """Fail unless the statement ends here."""
        self.eat(";")
        if self.here is not None:
            self.fail("the end of the statement")
