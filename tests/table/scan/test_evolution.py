"""Parts of ROWs inside ARRAYs and MAPs under later versions of a schema: by id, as those of ROWs outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.errors import TableDamaged
from model.schema.change import (
    AddColumn,
    ColumnChange,
    DropColumn,
    Nested,
    Position,
    RenameColumn,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    apply_changes,
)
from model.schema.schema import Schema, column, new_schema
from model.schema.types import (
    ArrayType,
    BigIntType,
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
from model.snapshot import CommitKind, Snapshot
from table.compaction.candidates import CompactionTask
from table.compaction.rewrite import rewrite
from table.format.io.file_io import LocalFileIO
from table.format.rows.arrow import arrow_type
from table.format.store import TableFiles
from table.scan.evolution import evolved
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest, build_snapshot
from tests.table.scan.test_files import insert, select


def row(*fields: tuple[str, DataType]) -> RowType:
    return RowType(fields=tuple(Field(id=-1, name=name, type=type_) for name, type_ in fields))


PAIR = row(("a", IntType()), ("b", IntType()))
DEEP = ArrayType(element=row(("n", IntType()), ("inner", ArrayType(element=PAIR))))
COLUMNS = [
    column("id", "INT"),
    Field(id=-1, name="l", type=ArrayType(element=PAIR)),
    Field(id=-1, name="m", type=MapType(key=VarCharType(), value=PAIR)),
    Field(id=-1, name="d", type=DEEP),
    Field(id=-1, name="r", type=row(("l", ArrayType(element=PAIR)))),
]
INSIDE = [("l", "element"), ("m", "value"), ("d", "element", "inner", "element"), ("r", "l", "element")]
"""The ways down to each pair."""
PAIRS = [{"a": 1, "b": 2}, None, {"a": None, "b": 4}]


def holding(pairs: Sequence[Any]) -> dict[str, Any]:
    """A row that has these in each place."""
    keyed = [(f"k{at}", pair) for at, pair in enumerate(pairs)]
    deep = [{"n": 7, "inner": list(pairs)}, None, {"n": 8, "inner": None}, {"n": 9, "inner": []}]
    return {"l": list(pairs), "m": keyed, "d": deep, "r": {"l": list(pairs)}}


EMPTY = {"l": None, "m": None, "d": None, "r": None}
ROWS = [{"id": 1, **holding(PAIRS)}, {"id": 2, **EMPTY}, {"id": 3, **holding([])}, {"id": 4, **holding(PAIRS[:1])}]

RENAMED = (RenameColumn(name="b", to="c"),)
ANEW = (DropColumn(name="b"), AddColumn(name="b", type=VarCharType()))
EXCHANGED = (RenameColumn(name="a", to="x"), RenameColumn(name="b", to="a"), RenameColumn(name="x", to="b"))
MOVED = (UpdateColumnPosition(name="b", position=Position(first=True)), UpdateColumnType(name="b", type=BigIntType()))
CHANGES: dict[str, tuple[Sequence[ColumnChange], list[Any]]] = {
    "renamed": (RENAMED, [{"a": 1, "c": 2}, None, {"a": None, "c": 4}]),
    "dropped and added": (ANEW, [{"a": 1, "b": None}, None, {"a": None, "b": None}]),
    "exchanged": (EXCHANGED, [{"b": 1, "a": 2}, None, {"b": None, "a": 4}]),
    "moved and widened": (MOVED, [{"b": 2, "a": 1}, None, {"b": 4, "a": None}]),
}


def changed(schema: Schema, changes: Sequence[ColumnChange]) -> Schema:
    nested = [Nested(inside=inside, change=change) for inside in INSIDE for change in changes]
    return apply_changes(schema, nested, table="t", has_snapshot=True, time_millis=1)


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(LocalFileIO(), str(tmp_path / "t"))


def compacted(files: TableFiles, schema: Schema, snapshot: Snapshot) -> Snapshot:
    """The snapshot after all its files became one."""
    inputs = tuple(files.live_entries(snapshot))
    task = CompactionTask(partition=inputs[0].partition, bucket=inputs[0].bucket, inputs=inputs)
    made = tuple(rewrite(files, schema, task))
    request = CommitRequest(kind=CommitKind.COMPACT, adds=made, deletes=inputs, commit_user="u")
    return build_snapshot(files, schema, snapshot, [request], uuid="c", time_millis=6)


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.parametrize("change", CHANGES)
def test_parts_inside_arrays_and_maps_are_matched_by_id(files: TableFiles, format_: str, change: str) -> None:
    """Also once their files were compacted, which would make what was matched wrongly lasting."""
    first = new_schema(COLUMNS, options={"bucket": "1", "bucket-key": "id", "file.format": format_})
    snapshot = insert(files, first, None, ROWS)
    changes, pairs = CHANGES[change]
    second = changed(first, changes)
    after = [{"id": 1, **holding(pairs)}, {"id": 2, **EMPTY}, {"id": 3, **holding([])}, {"id": 4, **holding(pairs[:1])}]
    new = {"id": 5, **holding([dict.fromkeys(pairs[0])])}
    snapshot = insert(files, second, snapshot, [new])
    assert select(files, second, snapshot) == [*after, new]
    snapshot = compacted(files, second, snapshot)
    assert len(list(files.live_entries(snapshot))) == 1
    assert select(files, second, snapshot) == [*after, new]


@pytest.mark.parametrize("change", CHANGES)
def test_parts_in_avro_files_are_matched_by_id(files: TableFiles, change: str) -> None:
    first = new_schema(COLUMNS[:3], options={"bucket": "-1"})
    snapshot = insert(files, first, None, [{"id": 1}])
    planned = plan_scan(files, first, snapshot).files[0]
    pair = {"type": "record", "name": "p", "fields": [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": ["null", "int"]}]}
    fields = [
        {"name": "id", "type": ["null", "int"]},
        {"name": "l", "type": ["null", {"type": "array", "items": ["null", pair]}]},
        {"name": "m", "type": ["null", {"type": "map", "values": ["null", "p"]}]},
    ]
    path = planned.path.replace(".parquet", ".avro")
    with Path(path).open("wb") as sink:
        keyed = {f"k{at}": pair for at, pair in enumerate(PAIRS)}
        fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, [{"id": 1, "l": PAIRS, "m": keyed}, {"id": 2}])
    file = replace(planned.file, file_name=path.rsplit("/", 1)[-1], row_count=2, value_stats_cols=())
    changes, pairs = CHANGES[change]
    nested = [Nested(inside=inside, change=change) for inside in INSIDE[:2] for change in changes]
    second = apply_changes(first, nested, table="t", has_snapshot=True, time_millis=1)
    found = [row for batch in read_batches(files, second, [replace(planned, path=path, file=file)]) for row in batch.to_pylist()]
    assert found == [{"id": 1, **{name: holding(pairs)[name] for name in ("l", "m")}}, {"id": 2, "l": None, "m": None}]


def test_a_part_of_another_type_under_an_old_name_does_not_stop_the_reader(files: TableFiles) -> None:
    text = row(("a", IntType()), ("b", VarCharType()))
    first = new_schema([Field(id=-1, name="l", type=ArrayType(element=text))], options={"bucket": "-1"})
    snapshot = insert(files, first, None, [{"l": [{"a": 1, "b": "x"}]}])
    changes = [Nested(inside=("l", "element"), change=one) for one in (DropColumn(name="b"), AddColumn(name="b", type=IntType()))]
    second = apply_changes(first, changes, table="t", has_snapshot=True, time_millis=1)
    assert select(files, second, snapshot) == [{"l": [{"a": 1, "b": None}]}]


def test_slices_keep_their_own_elements() -> None:
    """Batches are slices of what a file's pages hold."""
    old = MapType(key=IntType(), value=RowType(fields=(Field(id=2, name="l", type=ArrayType(element=IntType())),)))
    new = MapType(key=BigIntType(), value=RowType(fields=(Field(id=2, name="x", type=ArrayType(element=BigIntType())),)))
    rows: list[Any] = [[(1, {"l": [1, 2]}), (2, None)], None, [], [(3, {"l": None}), (4, {"l": []}), (5, {"l": [3, None]})]]
    wanted = [None if one is None else [(key, value and {"x": value["l"]}) for key, value in one] for one in rows]
    array = pa.array(rows, arrow_type(old))
    for first in range(5):
        for length in range(5 - first):
            made = evolved(array.slice(first, length), old, new, "m")
            made.validate(full=True)
            assert made.to_pylist() == wanted[first : first + length]


@pytest.mark.parametrize("held", [pa.large_list(pa.int32()), pa.list_(pa.int32(), 2)])
def test_lists_of_other_writers_are_arrays(held: pa.DataType) -> None:
    made = evolved(pa.array([[1, 2], None, [3, 4]], held).slice(1), ArrayType(element=IntType()), ArrayType(element=BigIntType()), "l")
    assert made.to_pylist() == [None, [3, 4]]


def test_moments_inside_arrays_have_the_columns_unit() -> None:
    """ORC's readers give nanoseconds."""
    array = pa.array([[1_000_000_000, None]], pa.list_(pa.timestamp("ns")))
    type_ = ArrayType(element=TimestampType(precision=3))
    assert evolved(array, type_, type_, "l").cast(pa.list_(pa.timestamp("ms"))).cast(pa.list_(pa.int64())).to_pylist() == [[1000, None]]


@pytest.mark.parametrize(
    ("type_", "held", "wanted"),
    [
        (TimestampType(precision=3), pa.array([-1, 1500, None], pa.timestamp("us")), [-1, 1, None]),
        (TimestampType(precision=6), pa.array([-1, 1500, None], pa.timestamp("ns", "UTC")), [-1, 1, None]),
        (LocalZonedTimestampType(precision=0), pa.array([-1, 1500, None], pa.timestamp("us")), [-1, 1, None]),
        (TimeType(precision=3), pa.array([1500, 0, None], pa.time64("us")), [1, 0, None]),
    ],
    ids=str,
)
def test_digits_a_file_has_beyond_the_type_are_cut_off(type_: DataType, held: pa.Array, wanted: list[int | None]) -> None:
    """Earlier versions wrote the keys of maps so, with all that a query gave: their rows are read."""

    def numbers(array: pa.Array) -> list[int | None]:
        found: list[int | None] = array.cast(pa.int64() if pa.types.is_timestamp(array.type) else pa.int32()).to_pylist()
        return found

    assert numbers(evolved(held, type_, type_, "x")) == wanted
    some = held.drop_null()
    maps = pa.MapArray.from_arrays(pa.array(range(len(some) + 1), pa.int32()), some, pa.array(range(len(some))))
    map_type = MapType(key=type_, value=BigIntType())
    assert numbers(evolved(maps, map_type, map_type, "x").keys) == wanted[:-1]


def written_over(files: TableFiles, schema: Schema, snapshot: Snapshot, table: pa.Table) -> list[dict[str, Any]]:
    """What is read where the snapshot's one file has other bytes."""
    (planned,) = plan_scan(files, schema, snapshot).files
    pq.write_table(table, planned.path)
    file = replace(planned.file, file_size=Path(planned.path).stat().st_size)
    return [row for batch in read_batches(files, schema, [replace(planned, file=file)]) for row in batch.to_pylist()]


@pytest.mark.parametrize("shape", [ArrayType(element=PAIR), PAIR])
def test_a_part_that_a_file_has_under_another_name_is_told(files: TableFiles, shape: DataType) -> None:
    """Parts lie in any order, and files of Hive's tables may lack some; a name that nobody gave is a damaged one."""
    schema = new_schema([Field(id=-1, name="x", type=shape)], options={"bucket": "-1"})
    inside = isinstance(shape, ArrayType)

    def held(value: dict[str, int | None]) -> Any:
        return [value] if inside else value

    snapshot = insert(files, schema, None, [{"x": held({"a": 1, "b": 2})}])
    assert written_over(files, schema, snapshot, pa.table({"x": [held({"b": 2, "a": 1})]})) == [{"x": held({"a": 1, "b": 2})}]
    assert written_over(files, schema, snapshot, pa.table({"x": [held({"b": 2})]})) == [{"x": held({"a": None, "b": 2})}]
    with pytest.raises(TableDamaged, match="lacks a and has `"):
        written_over(files, schema, snapshot, pa.table({"x": [held({"`": 1, "b": 2})]}))
    with pytest.raises(TableDamaged, match="none of its schema's types"):
        written_over(files, schema, snapshot, pa.table({"x": [5]}))


FIRM = row(("a", IntType(nullable=False)), ("b", IntType()))
FIRM_COLUMNS = [
    column("id", "INT"),
    Field(id=-1, name="r", type=FIRM),
    Field(id=-1, name="l", type=ArrayType(element=FIRM)),
    Field(id=-1, name="m", type=MapType(key=VarCharType(), value=FIRM)),
    Field(id=-1, name="d", type=row(("r", row(("r", FIRM)).with_nullable(False)))),
]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_row_that_is_null_may_have_parts_that_are_not(files: TableFiles, format_: str) -> None:
    """ORC has NULL in all parts below it; they are read, and written again."""
    first = new_schema(FIRM_COLUMNS, options={"bucket": "-1", "file.format": format_})
    one = {"a": 1, "b": None}
    full = {"r": one, "l": [one, None], "m": [("k", one), ("n", None)], "d": {"r": {"r": one}}}
    rows: list[dict[str, Any]] = [
        {"id": 1, **full},
        {"id": 2, "r": None, "l": [None], "m": [("n", None)], "d": None},
        {"id": 3, **full, "d": {"r": {"r": None}}},
    ]
    snapshot = insert(files, first, None, rows)
    snapshot = insert(files, first, snapshot, [{"id": 4, "r": None, "l": None, "m": None, "d": None}])
    rows.append({"id": 4, "r": None, "l": None, "m": None, "d": None})
    assert select(files, first, snapshot) == rows
    for written in ("parquet", "orc"):
        as_written = replace(first, options={"bucket": "-1", "file.format": written})
        assert select(files, as_written, compacted(files, as_written, snapshot)) == rows


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_older_rows_hold_null_where_a_part_is_not_null_by_now(files: TableFiles, format_: str) -> None:
    """It is no damage, as of a column it is none."""
    options = {"bucket": "-1", "file.format": format_, "alter-column-null-to-not-null.disabled": "false"}
    first = new_schema(COLUMNS, options=options)
    snapshot = insert(files, first, None, ROWS)
    later = changed(first, [UpdateColumnNullability(name="a", nullable=False)])
    files.write_schema(later)
    assert select(files, later, snapshot) == select(files, first, snapshot) == ROWS


def test_rows_that_are_null_take_no_copy_of_another_rows_value() -> None:
    """A file of a kilobyte became gigabytes, or was told as damaged."""
    list_type = ArrayType(element=IntType(), nullable=False)
    target = RowType(fields=(Field(id=1, name="doc", type=VarCharType(nullable=False)), Field(id=2, name="n", type=list_type)))
    loose = pa.struct([("doc", pa.string()), ("n", pa.list_(pa.int32()))])
    rows = pa.array([{"doc": "x" * 300_000, "n": [1] * 1000}, *[None] * 8000], loose)
    made = evolved(rows, target, target, "r")
    made.validate(full=True)
    assert made.to_pylist() == rows.to_pylist()
    assert made.nbytes < 2 * rows.nbytes
    assert (made.field(0)[1].as_py(), made.field(1)[1].as_py()) == ("", [])
