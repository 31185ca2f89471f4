"""Which columns' values are indexed file by file, as a table's options declare it (`paimon-append.md` §9.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.errors import InvalidOption
from model.options.option import Option, columns, integer, memory_size, number, optional
from model.schema.types import DecimalType, Field

BLOOM = "bloom-filter"
BITMAP = "bitmap"
RANGE = "range-bitmap"
_PREFIX = "file-index."
_ANY_ROOT = frozenset(
    {"CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}
)
_ROOTS = {BLOOM: _ANY_ROOT | {"BINARY", "VARBINARY"}, BITMAP: _ANY_ROOT | {"BOOLEAN"}, RANGE: _ANY_ROOT | {"BOOLEAN", "DECIMAL"}}
"""Types Paimon can index, by kind of index."""
_MOST_DIGITS = 18
"""Of a DECIMAL with an index: those that a BIGINT holds."""

COLUMN_OPTIONS: Mapping[str, tuple[Option[Any], ...]] = {
    BLOOM: (
        Option("items", integer(at_least=1, at_most=1 << 28), 1_000_000, "Distinct values of the column a file is expected to hold."),
        Option("fpp", number(at_least=1e-9, at_most=0.999), 0.1, "How often the filter may say yes wrongly."),
    ),
    BITMAP: (
        Option("version", integer(at_least=1, at_most=2), 2, "Version of the index's format."),
        Option("index-block-size", memory_size(), 16 << 10, "Bytes of values looked through for one."),
    ),
    RANGE: (
        Option(
            "chunk-size",
            optional(memory_size()),
            None,
            "Bytes of values looked through for one; 16 kb where unset, none for small integers.",
        ),
    ),
}
"""What may be said of one indexed column: ``file-index.<kind>.<column>.<key>``."""

COLUMNS: tuple[Option[Any], ...] = (
    Option(
        _PREFIX + BLOOM + ".columns",
        optional(columns()),
        None,
        "Columns, separated by commas, with a Bloom filter: skips files for = and IN.",
    ),
    Option(
        _PREFIX + BITMAP + ".columns",
        optional(columns()),
        None,
        "Columns, separated by commas, of few values each: skips files for =, IN, IS NULL and conditions on several such columns.",
    ),
    Option(
        _PREFIX + RANGE + ".columns",
        optional(columns()),
        None,
        "Columns, separated by commas, of many values: skips files for <, <=, >, >=, BETWEEN, =, <>, IN and IS NULL.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIndex:
    """An index on one column of every file."""

    column: str
    kind: str
    settings: Mapping[str, Any]
    """The kind's `COLUMN_OPTIONS`, read."""


def column_indexes(options: Mapping[str, str]) -> tuple[ColumnIndex, ...]:
    """The indexes a table declares; raises `InvalidOption` for values that do not parse."""
    return tuple(index for kind in COLUMN_OPTIONS for index in _of_kind(options, kind))


def _of_kind(options: Mapping[str, str], kind: str) -> Iterator[ColumnIndex]:
    declared = options.get(f"{_PREFIX}{kind}.columns", "")
    for column in (part.strip() for part in declared.split(",") if part.strip()):
        prefix = f"{_PREFIX}{kind}.{column}."
        settings = {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
        yield ColumnIndex(column=column, kind=kind, settings={o.key: o.read(settings) for o in COLUMN_OPTIONS[kind]})


def check_file_indexes(options: Mapping[str, str], fields: Sequence[Field]) -> None:
    """Raise `InvalidOption` for an index on a column that is not there or cannot have it, and for settings without their index."""
    by_name = {field.name: field for field in fields}
    known = set()
    for index in column_indexes(options):
        option = f"{_PREFIX}{index.kind}.columns"
        known.add((index.kind, index.column))
        indexed = by_name.get(index.column)
        if indexed is None and "[" in index.column:
            raise InvalidOption(f"Option '{option}': {index.column}: indexes on keys of a MAP are not written here; leave it out.")
        if indexed is None:
            raise InvalidOption(f"Option '{option}': there is no column {index.column}.")
        if indexed.type.root not in _ROOTS[index.kind] or (isinstance(indexed.type, DecimalType) and indexed.type.precision > _MOST_DIGITS):
            raise InvalidOption(
                f"Option '{option}': column {index.column} has the type {indexed.type.sql()}, which has no {index.kind} index."
            )
    for key in options:
        kind, _, rest = key.removeprefix(_PREFIX).partition(".")
        column = rest.rpartition(".")[0]
        if key.startswith(_PREFIX) and kind in COLUMN_OPTIONS and column and (kind, column) not in known:
            raise InvalidOption(f"Option '{key}': column {column} is not in '{_PREFIX}{kind}.columns'.")


def indexed_column(name: str) -> str:
    """The column of an index, which may be of one key of a MAP, as ``m[key]``."""
    return name.partition("[")[0] if name.endswith("]") else name


def renamed_in_file_indexes(options: dict[str, str], name: str, to: str) -> None:
    """Let the indexes follow a column's new name, those of a MAP's keys, too; raises `InvalidOption` for one that cannot be in a list."""
    for option in [key for key in options if key.startswith(_PREFIX) and key.endswith(".columns")]:
        kind = option.removeprefix(_PREFIX).removesuffix(".columns")
        indexes = [part.strip() for part in options[option].split(",")]
        own = {index for index in indexes if indexed_column(index) == name}
        if not own:
            continue
        if "," in to:
            raise InvalidOption(f"Column {name} is in '{option}', where names are separated by commas; {to} has one.")
        options[option] = ",".join(to + index.removeprefix(name) if index in own else index for index in indexes)
        for index in own | {name}:  # settings of all keys of a MAP are the column's
            before = f"{_PREFIX}{kind}.{index}."
            for key in [key for key in options if key.startswith(before)]:
                options[f"{_PREFIX}{kind}.{to}{index.removeprefix(name)}." + key.removeprefix(before)] = options.pop(key)
