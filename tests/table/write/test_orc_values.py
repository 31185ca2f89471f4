"""Times in ORC files, wherever they stand in a value: what is taken is read, and what ORC cannot hold is refused before it is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.errors import InvalidData
from model.schema.schema import Schema, new_schema
from model.schema.types import (
    ArrayType,
    DataType,
    Field,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    VarCharType,
)
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles
from tests.table.scan.test_files import insert, select


def row(**parts: DataType) -> RowType:
    return RowType(fields=tuple(Field(id=at, name=name, type=type_) for at, (name, type_) in enumerate(parts.items(), 10)))


Wrapped = tuple[Callable[[DataType], DataType], Callable[[Any], Any], str]
AROUND: dict[str, Wrapped] = {
    "column": (lambda t: t, lambda v: v, "x"),
    "row": (lambda t: row(n=IntType(), t=t), lambda v: {"n": 1, "t": v}, "x.t"),
    "element": (lambda t: ArrayType(element=t), lambda v: [None, v], "x.element"),
    "mapped": (lambda t: MapType(key=VarCharType(), value=t), lambda v: [("k", v)], "x.value"),
    "key": (lambda t: MapType(key=t, value=IntType()), lambda v: [(v, 1)], "x.key"),
    "rows of lists": (lambda t: ArrayType(element=row(l=ArrayType(element=t))), lambda v: [{"l": None}, {"l": [v]}], "x.element.l.element"),
    "in a NOT NULL part": (lambda t: row(t=t.with_nullable(False)), lambda v: {"t": v}, "x.t"),
}
HALF = dt.timedelta(microseconds=500_000)
MOMENTS = {
    dt.datetime(1970, 1, 1): True,
    dt.datetime(1970, 1, 1) + HALF: True,
    dt.datetime(1969, 12, 31, 23, 59, 59): True,
    dt.datetime(1969, 12, 31, 23, 59, 59) + HALF: False,
    dt.datetime(1677, 9, 22): True,
    dt.datetime(1677, 9, 20): False,
    dt.datetime(2262, 4, 11): True,
    dt.datetime(2262, 4, 13): False,
    dt.datetime(1, 1, 1): False,
    dt.datetime(9999, 12, 31): False,
}
"""Moments, and whether ORC holds them."""


def a_schema(type_: DataType) -> Schema:
    fields = [Field(id=-1, name="id", type=IntType()), Field(id=-1, name="x", type=type_)]
    return new_schema(fields, options={"bucket": "-1", "file.format": "orc"})


@pytest.mark.parametrize("zoned", [False, True])
@pytest.mark.parametrize("precision", [3, 6])
@pytest.mark.parametrize("around", AROUND)
def test_a_moment_is_read_as_written_or_refused_by_its_place(tmp_path: Path, around: str, precision: int, *, zoned: bool) -> None:
    wrap, of, place = AROUND[around]
    schema = a_schema(wrap(LocalZonedTimestampType(precision=precision) if zoned else TimestampType(precision=precision)))
    for at, (moment, held) in enumerate(MOMENTS.items()):
        files = TableFiles(LocalFileIO(), str(tmp_path / f"t{at}"))
        rows = [{"id": 1, "x": None}, {"id": 2, "x": of(moment.replace(tzinfo=dt.UTC) if zoned else moment)}]
        if held:
            assert select(files, schema, insert(files, schema, None, rows)) == rows
        else:
            with pytest.raises(InvalidData, match=f"^Column {place}: a time before"):
                insert(files, schema, None, rows)


@pytest.mark.parametrize("around", AROUND)
def test_a_time_is_read_as_written_wherever_it_stands(tmp_path: Path, around: str) -> None:
    wrap, of, _ = AROUND[around]
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = a_schema(wrap(TimeType(precision=3)))
    rows = [{"id": n, "x": None if n % 3 == 0 else of(dt.time(23, 59, n % 60, n * 1000))} for n in range(500)]
    assert select(files, schema, insert(files, schema, None, rows)) == rows
