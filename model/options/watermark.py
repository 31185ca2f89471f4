"""A table's watermark: which column is event time and how far it may be behind, stored as Flink stores it (`paimon-append.md` §8.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from model.errors import InvalidSchema
from model.schema.schema import Schema
from model.schema.types import Field, LocalZonedTimestampType, TimestampType

PREFIX = "schema.watermark."
END_OF_TIME = 253_402_300_799_000
"""The event time of the row after a stream's last, in milliseconds since 1970: the last second of the year 9999."""
_LONGEST_DELAY = 100 * 366 * 86_400_000
_LONGEST_INTERVAL = 60
_FIRST = PREFIX + "0."
_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}
_DELAY = re.compile(
    r"-\s*INTERVAL\s*'([^']*)'\s*([A-Za-z]+)(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?(?:\s+TO\s+([A-Za-z]+)(?:\s*\(\s*\d+\s*\))?)?", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """``WATERMARK FOR column AS expression``; the expression as it was written."""

    column: str
    expression: str

    def delay(self) -> timedelta:
        """How far event time may be behind; raises `InvalidSchema` for an expression that is not the column less an interval."""
        rest = self.expression.strip()
        for name in (f"`{self.column}`", self.column):
            if rest.startswith(name):
                rest = rest[len(name) :].strip()
                break
        else:
            raise self._unreadable()
        if not rest:
            return timedelta(0)
        match = _DELAY.fullmatch(rest)
        if match is None:
            raise self._unreadable()
        return timedelta(milliseconds=interval_millis(match[1], match[2], match[3]))

    def _unreadable(self) -> InvalidSchema:
        return InvalidSchema(
            f"WATERMARK FOR {self.column} AS {self.expression} is not understood by streams here; "
            f"{self.column} or {self.column} - INTERVAL '5' SECOND is."
        )


def is_over(watermark: int) -> bool:
    """Whether a watermark, in milliseconds since 1970, says that no row comes any more: that of `END_OF_TIME`, less a delay."""
    return watermark >= END_OF_TIME - _LONGEST_DELAY


def interval_millis(text: str, unit: str, to: str | None = None) -> int:
    """Milliseconds of ``INTERVAL 'text' unit [TO to]``; raises `InvalidSchema` for months, years and what is no interval."""
    first, last = _singular(unit), _singular(to or unit)
    names = list(_UNITS)
    if first not in _UNITS or last not in _UNITS or names.index(first) > names.index(last):
        raise InvalidSchema(f"INTERVAL '{text}' {unit}{f' TO {to}' if to else ''}: days, hours, minutes and seconds measure event time.")
    wanted = names[names.index(first) : names.index(last) + 1]
    if len(text) > _LONGEST_INTERVAL:
        raise InvalidSchema(f"INTERVAL '{text[:20]}…' {unit} is longer than the {_LONGEST_INTERVAL} characters that an interval may have.")
    sign, body = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text.strip().removeprefix("+"))
    parts = re.split(r"[ :]", body.strip())
    seconds = r"\d+(\.\d{1,9})?"
    if len(parts) != len(wanted) or not all(
        re.fullmatch(seconds if name == "SECOND" else r"\d+", p) for name, p in zip(wanted, parts, strict=True)
    ):
        raise InvalidSchema(f"INTERVAL '{text}' {unit}{f' TO {to}' if to else ''} is no interval.")
    millis = int(sum(Decimal(part) * _UNITS[name] for name, part in zip(wanted, parts, strict=True)))
    if millis > END_OF_TIME:
        raise InvalidSchema(f"INTERVAL '{text}' {unit}{f' TO {to}' if to else ''} is longer than time lasts here, until the year 9999.")
    return sign * millis


def _singular(unit: str) -> str:
    return unit.upper().removesuffix("S")


def watermark_of(options: Mapping[str, str]) -> Watermark | None:
    """The watermark stored in a schema's options."""
    column = options.get(_FIRST + "rowtime")
    return None if column is None else Watermark(column=column, expression=options.get(_FIRST + "strategy.expr", f"`{column}`"))


def rowtime_type(field: Field) -> TimestampType | LocalZonedTimestampType:
    """The type of an event-time column; raises `InvalidSchema` for one that Flink would not take."""
    type_ = field.type
    if not isinstance(type_, TimestampType | LocalZonedTimestampType) or type_.precision > 3:
        raise InvalidSchema(f"WATERMARK FOR {field.name}: the column's type is {type_.sql()}; TIMESTAMP(3) or TIMESTAMP_LTZ(3) is needed.")
    return type_


def checked_rowtime(field: Field, watermark: Watermark) -> TimestampType | LocalZonedTimestampType:
    """The type of the column of a watermark that is being made; raises `InvalidSchema` for one that no stream here could follow.

    What nobody here can read is not stored either: readers elsewhere would run whatever it says.
    """
    type_ = rowtime_type(field)
    watermark.delay()
    return type_


def watermark_options(schema: Schema, watermark: Watermark, *, table: str | None = None) -> dict[str, str]:
    """The options a watermark is stored in; raises `InvalidSchema`, or `ColumnNotExist`, which names the table where that is known."""
    type_ = checked_rowtime(schema.field(watermark.column, table=table), watermark)
    return {
        _FIRST + "rowtime": watermark.column,
        _FIRST + "strategy.expr": quoted_expression(watermark.expression, schema),
        _FIRST + "strategy.data-type": type_.with_nullable(True).sql(),
    }


def quoted_expression(text: str, schema: Schema) -> str:
    """The expression with its column names backquoted, as Flink serializes it."""

    def quote(match: re.Match[str]) -> str:
        word = match[0]
        return f"`{word}`" if word in schema.field_names else word

    pieces = re.split(r"('(?:[^']|'')*'|`[^`]*`)", text)
    return "".join(piece if index % 2 else re.sub(r"\b[A-Za-z_]\w*\b", quote, piece) for index, piece in enumerate(pieces))
