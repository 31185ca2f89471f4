"""Literals that sqlglot would give another meaning than Spark: intervals of several units, and timestamps that name a zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.hive import HiveParser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from model.errors import SqlSyntaxError, UnsupportedStatement
from sql.parameters.placeholders import Bound
from sql.parsing.base import BaseParser, place_of
from sql.parsing.types import NO_ZONE

T = TypeVar("T")
REFUSED = "refused"
"""Key of a type node's meta: how a type was written that sqlglot takes for another, and why it is refused."""
_NO_BLOB = "The type BLOB is not available in SQL; BYTES and VARBINARY(n) hold bytes."

_UNITS = frozenset({"NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"})
_ONE_UNIT = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_LETTER = re.compile(r"[^\W\d_]")
_ZONE = re.compile(r"(?:\d|^)\s*[ T].*[A-Za-z+-]", re.ASCII | re.DOTALL)
"""A sign or a letter behind the T or the space that ends the date: of an offset, or of a zone's name."""

_LONGEST_NUMBER = 1_000
"""Characters of a number: no type has more than 38 digits, but 0.000…1E300 is a DOUBLE, too. Java takes ten seconds for a million."""
_SHOWN = 40
_BRACKETS = frozenset({TokenType.L_PAREN, TokenType.R_PAREN, TokenType.L_BRACKET})


class LiteralParser(BaseParser):
    """Reads intervals and typed timestamps as Spark's grammar does."""

    TYPE_LITERAL_PARSERS: ClassVar[dict[exp.DType, Callable[..., exp.Expr]]] = {
        **SparkParser.TYPE_LITERAL_PARSERS,
        **dict.fromkeys((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ), lambda self, this, to: self._timestamp_literal(this, to)),
    }

    def _timestamp_literal(self, this: exp.Expr, to: exp.DataType) -> exp.Expr:
        """``TIMESTAMP '…'``; with a zone it is an instant, as in Spark, of which a cast to TIMESTAMP would leave the zone out."""
        if isinstance(this, exp.Literal) and _ZONE.search(this.name.strip()):
            to = exp.DataType(this=exp.DType.TIMESTAMPLTZ, expressions=to.expressions)
        return self.expression(exp.Cast(this=this, to=to))

    def _parse_types(self, *args: object, **kwargs: object) -> exp.Expr | None:
        start = self._index
        if kwargs.get("check_func") and self._is_call():
            return None
        # Not `HiveParser`'s, which makes CHAR(n) and VARCHAR(n) of casts texts of any length, as Spark takes them.
        parse = super(HiveParser, self)._parse_types
        type_: exp.Expr | None
        type_ = parse(*args, **kwargs) if kwargs.get("check_func") else self._before_array(partial(parse, *args, **kwargs))  # type: ignore[arg-type]
        if isinstance(type_, exp.Cast) and not kwargs.get("check_func"):  # a value of the type, in brackets, where only a type can stand
            self.refuse(
                "Brackets behind ARRAY<…>, MAP<…> or ROW<…> make no type; an array of arrays is ARRAY<ARRAY<…>>.", self._tokens[start]
            )
        if isinstance(type_, exp.DataType):
            words = [word for at in range(start, self._index) for word in self._words(at)]
            if words[-3:] == ["WITH", "TIME", "ZONE"] or words[:1] == ["TIMESTAMPTZ"]:
                type_.meta[REFUSED] = " ".join(words[-3:] if len(words) > 1 else words), NO_ZONE
            elif words[:1] == ["BLOB"]:
                type_.meta[REFUSED] = words[0], _NO_BLOB
            while not kwargs.get("check_func") and self.eat("ARRAY"):  # the standard's spelling: INT ARRAY
                type_ = exp.DataType(this=exp.DType.ARRAY, expressions=[type_], nested=True)
            if kwargs.get("with_collation") and REFUSED not in type_.meta:  # inside ARRAY<…> and MAP<…>; a ROW's has constraints
                self._parse_nullability(type_)
        return type_

    def _before_array(self, parse: Callable[[], T]) -> T:
        """Let a type end before ``ARRAY``: sqlglot takes what stands behind a comma there, or closes the type, for a value."""
        if "_match" in vars(self):  # inside another type
            return parse()
        match = self._match
        vars(self)["_match"] = lambda kind, *args, **kwargs: None if kind == TokenType.ARRAY else match(kind, *args, **kwargs)
        try:
            return parse()
        finally:
            del vars(self)["_match"]

    def _is_call(self) -> bool:
        """Whether a type's name is that of a function or column here: ``ROW(f(a))``, ``ARRAY[…]``, not ``TIMESTAMP(3) '…'``.

        sqlglot reads all that is inside to find out, and then once more as what it is.
        """
        if self._next.token_type == TokenType.L_BRACKET:
            return True
        if self._next.token_type != TokenType.L_PAREN:
            return False
        types = (self._tokens[at].token_type for at in range(self._index + 2, self._tokens_size))
        return next((type_ for type_ in types if type_ in _BRACKETS), None) != TokenType.R_PAREN

    def _parse_nullability(self, type_: exp.DataType) -> None:
        if self.eat("NOT", "NULL"):
            type_.set("nullable", False)
        else:
            self.eat("NULL")

    def _parse_cast(self, *args: object, **kwargs: object) -> exp.Expr:
        try:
            cast: exp.Expr = super()._parse_cast(*args, **kwargs)  # type: ignore[arg-type]
        except ParseError:
            self._refuse_multiset(self.word(), self.word(1))  # a field's type, behind its name
            raise
        self._refuse_multiset(self.word())  # the standard's spelling: INT MULTISET
        if isinstance(to := cast.args.get("to"), exp.DataType) and to.args.get("nullable") is False:
            self.refuse("A cast is to a type without NOT NULL, which may stand inside ARRAY<…>, MAP<…> and ROW<…>.")
        return cast

    def _refuse_multiset(self, *words: str) -> None:
        if "MULTISET" in words:
            self.refuse("The type MULTISET is not available in SQL; MAP<t, INT> holds values and how often each is there.")

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> exp.Interval | None:
        """``INTERVAL value unit [value unit …]``, ``INTERVAL value unit TO unit`` or ``INTERVAL 'values and units'``; else None.

        It is one literal however many units it has: a sum, as sqlglot makes of them, would be parted by the operators around it. A value
        behind the first may have a sign, and is one only with a unit: ``INTERVAL 1 DAY + 2 HOURS`` is 26 hours, and in
        ``INTERVAL 1 DAY + 2`` something is added.
        """
        start = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        at = self.here
        first = self._interval_part()
        if first is None:
            text = self._interval_text()
            if text is None:
                if at is not None and at.token_type == TokenType.VAR and (self.word(1) == "(" or self._interval_unit(1)):
                    self.fail("a number or a text", at)
                self._retreat(start)  # a column of this name
                return None
            one = _ONE_UNIT.fullmatch(text)
            if one is None or one[2].upper().removesuffix("S") not in _UNITS:
                return self._interval_of(text, None, at)
            return self._interval_of(one[1], exp.var(one[2].upper()), at)  # written like others, for whoever measures it
        value, unit = first
        if self.word() == "TO" and (last := self._interval_unit(1)) is not None:
            self._advance(2)
            return self._interval_of(value, exp.IntervalSpan(this=exp.var(unit), expression=exp.var(last)), at)
        parts = [first]
        while (part := self._interval_part()) is not None:
            parts.append(part)
        if len(parts) == 1:
            return self._interval_of(value, exp.var(unit), at)
        return self._interval_of(" ".join(f"{value} {unit}" for value, unit in parts), None, at)

    def _interval_of(self, text: str, unit: exp.Expr | None, at: Token | None) -> exp.Interval:
        literal = exp.Literal.string(text)
        if at is not None:
            literal.update_positions(at)
        return self.expression(exp.Interval(this=literal, unit=unit))

    def _interval_part(self) -> tuple[str, str] | None:
        """A value, behind a sign perhaps, and its unit; nothing is stepped over where they do not both stand here."""
        start = self._index
        minus = self.word() == "-"
        if minus or self.word() == "+":
            self._advance()
        value = self._interval_value()
        unit = self._interval_unit()
        spelled = None
        if value is not None and unit is not None:
            spelled = value if isinstance(value, str) else self.scalar("a number, or a text with one", value)
        if spelled is None or unit is None or _LETTER.search(spelled):
            self._retreat(start)
            return None
        self._advance()
        if minus:
            spelled = spelled[1:] if spelled.startswith("-") else f"-{spelled}"
        return spelled, unit

    def _interval_value(self) -> str | Bound | None:
        """A number or a text, or a placeholder with one."""
        if (bound := self.placeholder()) is not None:
            return bound
        point = "." if self.word() == "." else ""
        self._advance(len(point))
        token = self.here
        if token is None or (token.token_type != TokenType.NUMBER and (point or token.token_type != TokenType.STRING)):
            return None
        self._advance()
        return point + token.text

    def _interval_text(self) -> str | None:
        """A text of values and units; None where something else stands here, and no value without a unit."""
        value = self._interval_value()
        if isinstance(value, Bound):
            value = self.scalar("a text of numbers and units", value)
        if value is not None and not _LETTER.search(value):
            self.fail("the interval's unit, such as DAY,")
        return value

    def _interval_unit(self, ahead: int = 0) -> str | None:
        word = self.word(ahead)
        return word if word.removesuffix("S") in _UNITS else None


def check_types(tree: exp.Expr) -> None:
    """Raise `UnsupportedStatement` for a type that sqlglot takes for another: one with a zone of its own, and BLOB."""
    for type_ in tree.find_all(exp.DataType):
        if (refused := type_.meta.get(REFUSED)) is not None:
            fragment, message = refused
            raise UnsupportedStatement(message, fragment=fragment)


def check_numbers(tokens: Sequence[Token], text: str) -> None:
    """Raise `SqlSyntaxError` for a number that is longer than any that means something: one word takes as long as it is, squared."""
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > _LONGEST_NUMBER:
            line, column = place_of(text, token)
            raise SqlSyntaxError(
                f"A number of {len(token.text):,} characters is longer than any type holds; at most {_LONGEST_NUMBER:,} are read.",
                line=line,
                column=column,
                fragment=f"{token.text[:_SHOWN]}…",
            )
