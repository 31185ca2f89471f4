"""``'connector' = 'datagen'``: made-up rows, under Flink's options; the same job makes the same rows however often it starts again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from model.errors import InvalidOption, UnsupportedType
from model.options.option import Option, Parser, duration, integer, number, one_of, optional, text
from model.schema.type_parts import walk
from model.schema.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from sql.connectors.base import Bound, Connector, ConnectorScope, ConnectorTable, options_of

DATAGEN_OPTIONS = options_of("datagen", "Made-up rows: for trying things out and for measuring.")
ROWS_PER_SECOND = DATAGEN_OPTIONS.declare(
    Option("rows-per-second", integer(at_least=1, bits=64), 10_000, "Rows a stream makes in a second.", per_query=True)
)
NUMBER_OF_ROWS = DATAGEN_OPTIONS.declare(
    Option(
        "number-of-rows",
        optional(integer(at_least=0, bits=64)),
        None,
        "Rows in all; without it a stream has no end and a batch is refused.",
        per_query=True,
    )
)
SCAN_PARALLELISM = DATAGEN_OPTIONS.declare(
    Option(
        "scan.parallelism",
        optional(integer(at_least=1)),
        None,
        "Tasks that make the rows; as many as there are cores by default.",
        per_query=True,
    )
)
T = TypeVar("T")
_FIELD = r"fields\..+\."
for _suffix, _doc in (
    ("kind", "`random` (the default) or `sequence`, which counts from `start` to `end` and ends the rows there."),
    ("min", "Smallest value of a random number."),
    ("max", "Largest value of a random number."),
    ("max-past", "How far a random time may lie before the moment its row was made; 0 by default."),
    ("length", "Characters of a text (default 100), bytes of a binary value (100), items of an array or map (3)."),
    ("var-len", "Whether texts and binary values have any length up to `length`."),
    ("start", "First value of a sequence."),
    ("end", "Last value of a sequence."),
    ("null-rate", "Share of NULLs, from 0 to 1."),
):
    DATAGEN_OPTIONS.family(f"{_FIELD}{_suffix}", Option(f"fields.<column>.{_suffix}", text(), "", _doc, per_query=True))

_INTEGERS = {TinyIntType: 1 << 7, SmallIntType: 1 << 15, IntType: 1 << 31, BigIntType: 1 << 63}
_NUMBERS = (*_INTEGERS, FloatType, DoubleType, DecimalType)
_TEXTS = (CharType, VarCharType, BinaryType, VarBinaryType)
_TIMES = (TimestampType, LocalZonedTimestampType)
_COLLECTIONS = (ArrayType, MapType)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """How the values of one column, or of one part of a ROW, are made."""

    path: str
    type: DataType
    sequence: bool = False
    start: int = 0
    end: int = 0
    low: float | None = None
    high: float | None = None
    past: timedelta = timedelta()
    length: int = 100
    any_length: bool = False
    nulls: float = 0.0


class Datagen(Connector):
    """Makes rows up."""

    name = "datagen"
    options = DATAGEN_OPTIONS

    def check(self, table: ConnectorTable, scope: ConnectorScope) -> None:
        """Raise `InvalidOption` for options of columns that are not there or that their types do not know."""
        rules = rules_of(table)
        known = {f"fields.{rule.path}." for rule in rules}
        for key in table.options:
            if key.startswith("fields.") and key[: key.rindex(".") + 1] not in known:
                raise InvalidOption(f"Option '{key}': there is no such column; there are {', '.join(rule.path for rule in rules)}.")

    def bound(self, table: ConnectorTable) -> Bound:
        """It ends after its rows, or where a sequence ends."""
        return Bound.NEVER if row_count(table) is None else Bound.OFFSET


def row_count(table: ConnectorTable) -> int | None:
    """How many rows there are in all; None for no end."""
    counts = [rule.end - rule.start + 1 for rule in rules_of(table) if rule.sequence]
    row_limit = NUMBER_OF_ROWS.read(table.options)
    return min(counts if row_limit is None else [*counts, row_limit], default=None)


def rules_of(table: ConnectorTable) -> list[FieldRule]:
    """A rule for every column, and behind each ROW column one for each of its parts; raises `InvalidOption` and `UnsupportedType`."""
    if not table.columns:
        raise InvalidOption("A datagen table needs columns.")
    return [rule for column in table.columns for rule in _rules(table, column.name, column.type)]


def _rules(table: ConnectorTable, path: str, type_: DataType) -> list[FieldRule]:
    rules = [_rule(table, path, type_)]
    if isinstance(type_, RowType):
        for part in type_.fields:
            rules += _rules(table, f"{path}.{part.name}", part.type)
    return rules


_ALLOWED: tuple[tuple[tuple[type, ...], frozenset[str]], ...] = (
    (_NUMBERS, frozenset({"kind", "min", "max", "start", "end", "null-rate"})),
    (_TEXTS, frozenset({"kind", "length", "var-len", "start", "end", "null-rate"})),
    (_TIMES, frozenset({"kind", "max-past", "null-rate"})),
    (_COLLECTIONS, frozenset({"kind", "length", "null-rate"})),
    ((BooleanType, DateType, TimeType, RowType), frozenset({"kind", "null-rate"})),
)


def _rule(table: ConnectorTable, path: str, type_: DataType) -> FieldRule:
    allowed = next((keys for kinds, keys in _ALLOWED if isinstance(type_, kinds)), None)
    if allowed is None or any(isinstance(part, MapType) for part in walk(type_) if part is not type_):
        raise UnsupportedType(f"Column {path}: datagen makes no values of type {type_.sql()}.")
    prefix = f"fields.{path}."
    raw = {
        key.removeprefix(prefix): value for key, value in table.options.items() if key.startswith(prefix) and "." not in key[len(prefix) :]
    }
    for key in raw:
        if key not in allowed:
            raise InvalidOption(f"Option '{prefix}{key}': a column of type {type_.sql()} has {', '.join(sorted(allowed))}.")
    if _read(prefix, raw, "kind", one_of("random", "sequence"), "random") == "sequence":
        return _sequence(prefix, path, type_, raw)
    if "start" in raw or "end" in raw:
        raise InvalidOption(f"Option '{prefix}start' and '{prefix}end' belong to '{prefix}kind' = 'sequence'.")
    bound: Parser[float | None] = _bound(type_)
    rule = FieldRule(
        path=path,
        type=type_,
        low=_read(prefix, raw, "min", bound, None),
        high=_read(prefix, raw, "max", bound, None),
        past=_read(prefix, raw, "max-past", duration(), timedelta()),
        length=_read(prefix, raw, "length", integer(at_least=1, at_most=1 << 20), _default_length(type_)),
        any_length=_read(prefix, raw, "var-len", one_of("true", "false"), "false") == "true",
        nulls=_read(prefix, raw, "null-rate", number(at_least=0.0, at_most=1.0), 0.0),
    )
    if rule.low is not None and rule.high is not None and rule.low > rule.high:
        raise InvalidOption(f"Option '{prefix}min' is larger than '{prefix}max'.")
    return rule


def _bound(type_: DataType) -> Parser[float | None]:
    whole = integer()
    if isinstance(type_, tuple(_INTEGERS)):
        return Parser(whole.kind, lambda raw: whole.parse(raw))
    return optional(number())


def _default_length(type_: DataType) -> int:
    if isinstance(type_, _COLLECTIONS):
        return 3
    return min(100, getattr(type_, "length", 100))


def _sequence(prefix: str, path: str, type_: DataType, raw: dict[str, str]) -> FieldRule:
    if not isinstance(type_, (*_NUMBERS, CharType, VarCharType)):
        raise InvalidOption(f"Option '{prefix}kind': a column of type {type_.sql()} cannot count.")
    if "start" not in raw or "end" not in raw:
        raise InvalidOption(f"A sequence needs '{prefix}start' and '{prefix}end'.")
    wrong = sorted(set(raw) - {"kind", "start", "end"})
    if wrong:
        raise InvalidOption(f"Option '{prefix}{wrong[0]}' is not for sequences.")
    rule = FieldRule(
        path=path,
        type=type_,
        sequence=True,
        start=_read(prefix, raw, "start", integer(), 0),
        end=_read(prefix, raw, "end", integer(), 0),
    )
    if rule.start > rule.end:
        raise InvalidOption(f"Option '{prefix}start' is larger than '{prefix}end'.")
    return rule


def _read(prefix: str, raw: Mapping[str, str], key: str, parser: Parser[T], default: T) -> T:
    return Option(prefix + key, parser, default, "").read({prefix + key: raw[key]} if key in raw else {})


def integer_limits(type_: DataType) -> tuple[int, int] | None:
    """Smallest and largest value of a whole number's type."""
    size = next((size for kind, size in _INTEGERS.items() if isinstance(type_, kind)), None)
    return None if size is None else (-size, size - 1)
