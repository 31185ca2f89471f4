"""What a system table is, and what one read of it may use."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from lake import Lake, LakeTable
from model.predicate import Predicate
from model.schema.schema import Schema
from model.schema.types import DataType, Field, parse_type
from model.snapshot import Snapshot
from model.wall_clock import utc_of
from sql.execution.results import ResultColumn, batch_of_rows
from table.format.layout import partition_text
from table.scan.time_travel import BatchScan

_BATCH_ROWS = 64
_LARGEST_BATCH_ROWS = 8192
"""Rows of the first batch and of the largest: who wants five rows need not wait for thousands to be made."""


@dataclass(frozen=True)
class SystemScan:
    """One read of a system table: of which table, and which rows may matter."""

    lake: Lake
    table: LakeTable | None
    """None for the tables about all tables."""
    predicate: Predicate | None = None
    """What is certain of every row that matters; a system table may leave out others, or not."""
    options: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"

    @property
    def opened(self) -> LakeTable:
        """The table; only for system tables that have one."""
        assert self.table is not None
        return self.table

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The snapshot the read is about: the latest, or what its options say."""
        return self.lake.resolve(self.opened, self.options, zone=self.zone)

    @cached_property
    def of_rows(self) -> BatchScan:
        """What of the table's own rows the read is about: all of a snapshot, or what its options say was added between two."""
        return self.lake.scan(self.opened, self.options, zone=self.zone)


Rows = Callable[[SystemScan], Iterable[Sequence[Any]]]
Batches = Callable[[SystemScan, Sequence[str]], Iterator[pa.RecordBatch]]
"""Batches of the wanted columns, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """A system table: its columns, and how its rows come about."""

    name: str
    columns: tuple[ResultColumn, ...]
    read: Batches
    count: Callable[[SystemScan], int | None] | None = None
    """How many rows there are, where the catalog can say so at once; None where they must be read."""
    holds_data: bool = False
    """Whether its rows are the table's own, so that Spark reads them from the files."""
    holds_values: bool = True
    """Whether a column named as one of the table's holds that one's values, so that conditions on it let files be skipped."""

    def schema(self) -> Schema:
        """The columns as a schema, for what reads conditions."""
        fields = tuple(Field(id=i, name=c.name, type=c.type) for i, c in enumerate(self.columns))
        return Schema(id=0, fields=fields, highest_field_id=len(fields))


REGISTRY: dict[str, SystemTable] = {}
"""The metadata tables by the word behind the ``$``."""


def columns_of(text: Mapping[str, str | DataType]) -> tuple[ResultColumn, ...]:
    """Columns with their types, as SQL spells those that it spells in a word."""
    return tuple(ResultColumn(name, _type(spelled)) for name, spelled in text.items())


def _type(spelled: str | DataType) -> DataType:
    if isinstance(spelled, DataType):
        return spelled
    if spelled.startswith("ARRAY<"):
        return parse_type({"type": "ARRAY", "element": spelled[6:-1]})
    return parse_type(spelled)


def system_table(name: str, **columns: str | DataType) -> Callable[[Rows], Rows]:
    """Register a table whose rows are made one by one."""

    def register(rows: Rows) -> Rows:
        made = columns_of(columns)
        REGISTRY[name] = SystemTable(name=name, columns=made, read=in_batches(made, rows))
        return rows

    return register


def in_batches(columns: Sequence[ResultColumn], rows: Rows) -> Batches:
    """Rows of all columns as batches."""

    def read(scan: SystemScan, _: Sequence[str]) -> Iterator[pa.RecordBatch]:
        left, size = iter(rows(scan)), _BATCH_ROWS
        while chunk := list(islice(left, size)):
            yield batch_of_rows(columns, chunk)
            size = min(4 * size, _LARGEST_BATCH_ROWS)

    return read


# How values are shown


def moment(millis: int | None) -> dt.datetime | None:
    """Milliseconds since the epoch as a time in UTC, without zone."""
    return None if millis is None else utc_of(millis).replace(tzinfo=None)


def shown_row(types: Sequence[DataType], values: Sequence[object]) -> str:
    """A row as Paimon casts it to text: ``{a, b}``."""
    return "{" + ", ".join(shown(type_, value) for type_, value in zip(types, values, strict=True)) + "}"


def shown(type_: DataType, value: object) -> str:
    """One value as text; NULL is ``null``."""
    return "null" if value is None else partition_text(type_, value, legacy=False)


def as_json(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
