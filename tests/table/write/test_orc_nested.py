"""Values inside ROW, ARRAY and MAP of ORC files come back as they were written, also behind a ROW that is NULL inside another."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.schema.schema import Schema, new_schema
from model.schema.types import ArrayType, DataType, Field, IntType, MapType, RowType, TimestampType, TimeType, VarCharType
from model.snapshot import CommitKind
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.short import share
from tests.table.scan.test_files import insert, select

MORE_THAN_A_BATCH = 1500
"""Rows: Arrow hands them to ORC by 1,024."""


def row(*parts: DataType) -> RowType:
    return RowType(fields=tuple(Field(id=-1, name=f"f{at}", type=part) for at, part in enumerate(parts)))


PAIR = row(IntType(), VarCharType())
STRICT = row(IntType(nullable=False), VarCharType(nullable=False))
PAIR_OF = {"f0": 7, "f1": "x"}
SHAPES: dict[str, tuple[DataType, Any, Any]] = {
    "row": (row(IntType(), PAIR), {"f0": 1, "f1": PAIR_OF}, {"f0": 1, "f1": None}),
    "row with NOT NULL parts": (row(IntType(), STRICT), {"f0": 1, "f1": PAIR_OF}, {"f0": 1, "f1": None}),
    "list": (row(row(ArrayType(element=IntType()))), {"f0": {"f0": [1, 2]}}, {"f0": None}),
    "row in an element": (ArrayType(element=row(PAIR)), [{"f0": PAIR_OF}], [{"f0": None}]),
    "item in a row": (row(MapType(key=IntType(), value=PAIR)), {"f0": [(1, PAIR_OF)]}, {"f0": [(1, None)]}),
    "deeper": (row(row(row(STRICT))), {"f0": {"f0": {"f0": PAIR_OF}}}, {"f0": {"f0": None}}),
}
"""A column's type, a value of it, and one with a NULL inside that moved the values behind it."""


def orc_table(type_: DataType) -> Schema:
    fields = [Field(id=-1, name="id", type=IntType()), Field(id=-1, name="c", type=type_)]
    return new_schema(fields, options={"bucket": "-1", "file.format": "orc"})


def check(rows: list[dict[str, Any]], schema: Schema, where: Path) -> None:
    """The rows as they are read, and as they are once what was read is written anew, as by a compaction."""
    files, again = TableFiles(LocalFileIO(), str(where / "t")), TableFiles(LocalFileIO(), str(where / "again"))
    first = insert(files, schema, None, rows)
    assert select(files, schema, first) == rows
    again.write_schema(schema)
    written = write_batches(again, schema, list(read_batches(files, schema, plan_scan(files, schema, first).files)))
    request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u")
    assert select(again, schema, build_snapshot(again, schema, None, [request], uuid="u", time_millis=5)) == rows


@pytest.mark.parametrize("shape", SHAPES)
def test_values_behind_a_null_row_keep_their_places(tmp_path: Path, shape: str) -> None:
    type_, value, with_null = SHAPES[shape]
    rows = [{"id": n, "c": with_null if n % 7 == 1 else value} for n in range(MORE_THAN_A_BATCH)]
    check(rows, orc_table(type_), tmp_path)


LEAVES = st.sampled_from([IntType(), VarCharType(), TimeType(precision=3), TimestampType(precision=3)])


def parts_of(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.builds(lambda type_, nullable: type_.with_nullable(nullable), types, st.booleans())


def rows_of(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.lists(parts_of(types), min_size=1, max_size=3).map(lambda parts: row(*parts))


def around(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    lists = parts_of(types).map(lambda element: ArrayType(element=element))
    maps = parts_of(types).map(lambda value: MapType(key=IntType(nullable=False), value=value))
    return st.one_of(rows_of(types | LEAVES), lists, maps)


def values(type_: DataType) -> st.SearchStrategy[Any]:
    """Values of a type, NULL among them where it may be."""
    match type_:
        case IntType():
            made: st.SearchStrategy[Any] = st.integers(-1000, 1000)
        case VarCharType():
            made = st.text("abc", max_size=3)
        case TimeType():
            made = st.integers(0, 86_399).map(lambda second: dt.time(second // 3600, second // 60 % 60, second % 60))
        case TimestampType():
            made = st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2100, 1, 1)).map(lambda moment: moment.replace(microsecond=0))
        case ArrayType(element=element):
            made = st.lists(values(element), max_size=3)
        case MapType(value=value):
            made = st.dictionaries(st.integers(0, 9), values(value), max_size=3).map(lambda pairs: list(pairs.items()))
        case RowType(fields=fields):
            made = st.fixed_dictionaries({field.name: values(field.type) for field in fields})
        case _:
            raise AssertionError(f"no values of {type_.sql()}")
    return st.one_of(made, made, made, st.none()) if type_.nullable else made


COLUMNS = parts_of(st.recursive(rows_of(LEAVES), around, max_leaves=3)).flatmap(
    lambda type_: st.tuples(st.just(type_), st.lists(values(type_), min_size=3, max_size=8))
)
"""A column's type, which holds a ROW, and its values."""


@settings(max_examples=share(300), deadline=None)
@given(COLUMNS)
def test_values_of_any_nested_type_come_back(column: tuple[DataType, list[Any]]) -> None:
    type_, cells = column
    rows = [{"id": n, "c": cell} for n, cell in enumerate(cells)]
    with TemporaryDirectory() as where:
        check(rows, orc_table(type_), Path(where))
