"""Parquet files say what they hold: Paimon's ids on every column and part, and annotations that fit the types."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, Field, MapType, RowType, parse_type
from model.wall_clock import local_wall_millis
from table.format.io.file_io import LocalFileIO
from table.format.parquet.footer import mark_file
from table.format.parquet.identity import KEY, identity_fault, named_footer
from table.format.parquet.metadata import MAGIC, footer_of
from table.format.rows.arrow import arrow_schema
from table.format.store import TableFiles
from table.write import data_file
from table.write.data_file import creation_millis
from tests.table.scan.test_files import ALL_TYPES, a_row, batch_of, insert

TAGS = ArrayType(element=parse_type("STRING"))
ROW = RowType(fields=(Field(id=-1, name="x", type=parse_type("TIMESTAMP_LTZ(6)")), Field(id=-1, name="tags", type=TAGS)))
NESTED = [
    column("id", "BIGINT NOT NULL"),
    Field(id=-1, name="a", type=ArrayType(element=ArrayType(element=parse_type("TIMESTAMP(3)")))),
    Field(id=-1, name="m", type=MapType(key=parse_type("STRING"), value=ROW)),
    Field(id=-1, name="r", type=ROW),
    column("t", "TIME(3)"),
]
NOON = dt.datetime(2024, 1, 1, 12)
INNER = {"x": NOON.replace(tzinfo=dt.UTC), "tags": ["u", None]}
ROWS: list[dict[str, Any]] = [{"id": 1, "a": [[NOON], None], "m": {"k": INNER}, "r": INNER, "t": dt.time(1)}, {"id": 2}]
BASE = (2**31 - 1) // 4


def ids(field: Any, path: str = "") -> dict[str, int]:
    """The id of every field of a file that has one, by its way from the top."""
    name = f"{path}.{field.name}" if path else field.name
    metadata = field.metadata or {}
    found = {name: int(metadata[b"PARQUET:field_id"])} if b"PARQUET:field_id" in metadata else {}
    kind = field.type
    parts = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else [kind.field(i) for i in range(kind.num_fields)]
    for part in parts:
        found |= ids(part, name)
    return found


def all_ids(path: Path) -> dict[str, int]:
    return {name: id_ for field in pq.read_schema(path) for name, id_ in ids(field).items()}


def wanted_ids(schema: Schema) -> dict[str, int]:
    a, m, r = (schema.field(name).id for name in "amr")
    x, tags = (field.id for field in schema.field("r").type.fields)  # type: ignore[attr-defined]
    of_map = schema.field("m").type.value.fields  # type: ignore[attr-defined]
    return {
        "id": 0, "a": a, "a.element": BASE + a * 1024 + 1, "a.element.element": BASE + a * 1024 + 2,
        "m": m, "m.key": BASE - m * 1024 - 1, "m.value": BASE + m * 1024 + 1, "m.value.x": of_map[0].id, "m.value.tags": of_map[1].id,
        "m.value.tags.element": BASE + of_map[1].id * 1024 + 1,
        "r": r, "r.x": x, "r.tags": tags, "r.tags.element": BASE + tags * 1024 + 1, "t": schema.field("t").id,
    }  # fmt: skip


def test_our_own_files_have_the_ids_of_all_parts(tmp_path: Path) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema(NESTED, options={"bucket": "-1"})
    insert(files, schema, None, ROWS)
    (path,) = (tmp_path / "t").rglob("*.parquet")
    assert all_ids(path) == wanted_ids(schema)
    assert pq.read_table(path).to_pylist() == batch_of(schema, ROWS).to_pylist()


@pytest.mark.parametrize("columns", [NESTED, ALL_TYPES], ids=["nested", "all types"])
def test_a_file_of_another_writer_is_marked_in_its_footer_alone(tmp_path: Path, columns: list[Field]) -> None:
    schema = new_schema(columns, options={"bucket": "-1"})
    rows = batch_of(schema, ROWS if columns is NESTED else [a_row(i) for i in range(20)])
    path = tmp_path / "x.parquet"
    # As Spark says it: clock times of milliseconds are instants, instants of microseconds are clock times, a TIME is a number.
    as_there = pa.schema([as_spark(field) for field in arrow_schema(schema.fields)])
    pq.write_table(pa.Table.from_batches([rows]).cast(as_there), path, store_schema=False)
    before = path.read_bytes()
    assert all_ids(path) == {}
    mark_file(TableFiles(LocalFileIO(), str(tmp_path)), str(path), [*schema.fields[1:], schema.fields[0]], "x.parquet", 7)
    if columns is NESTED:
        assert all_ids(path) == wanted_ids(schema)
    pages = len(before) - 8 - int.from_bytes(before[-8:-4], "little")
    assert path.read_bytes()[:pages] == before[:pages]
    assert pq.read_table(path).to_pylist() == rows.to_pylist()
    assert pq.read_schema(path).equals(arrow_schema([*schema.fields]), check_metadata=False)


def test_times_in_another_form_keep_their_annotation(tmp_path: Path) -> None:
    """A clock time that lies there as INT96, as microseconds, or in 64 bits would be unreadable under another annotation."""
    schema = new_schema([column("a", "TIMESTAMP(3)"), column("b", "TIMESTAMP(3)"), column("t", "TIME(3)")], options={"bucket": "-1"})
    path = tmp_path / "x.parquet"
    there = pa.table({"a": pa.array([NOON], pa.timestamp("us", tz="UTC")), "b": pa.array([1], pa.int64()), "t": pa.array([1], pa.int64())})
    for int96 in (True, False):
        pq.write_table(there, path, store_schema=False, use_deprecated_int96_timestamps=int96)
        before = pq.read_table(path)
        mark_file(TableFiles(LocalFileIO(), str(tmp_path)), str(path), schema.fields, "x.parquet", 7)
        assert pq.read_table(path).equals(before)
        assert all_ids(path) == {"a": 0, "b": 1, "t": 2}


def as_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, spelled(field.type), field.nullable)


def spelled(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, tz="UTC" if kind.unit == "ms" else None)
    if pa.types.is_time(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", spelled(kind.value_type), kind.value_field.nullable))
    if pa.types.is_map(kind):
        return pa.map_(spelled(kind.key_type), as_spark(kind.item_field))
    return pa.struct([as_spark(part) for part in kind]) if pa.types.is_struct(kind) else kind


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not at all", b"PAR1\x15\x04\x19\x2cgarbage\x0f\0\0\0PAR1"])
def test_what_is_no_such_footer_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(data)
    mark_file(TableFiles(LocalFileIO(), str(tmp_path)), str(tmp_path / "x.parquet"), new_schema(NESTED).fields, "x.parquet", 7)
    assert (tmp_path / "x.parquet").read_bytes() == data


def footer_at(path: Path) -> int:
    data = path.read_bytes()
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def test_a_file_tells_its_name_and_no_other(tmp_path: Path) -> None:
    """A file that was taken over under a name that no writer of Paimon's gives is believed."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    snapshot = insert(files, new_schema(NESTED, options={"bucket": "-1"}), None, ROWS)
    (path,) = (tmp_path / "t").rglob("*.parquet")
    (entry,) = files.live_entries(snapshot)
    metadata, at = pq.read_metadata(path), footer_at(path)
    own = entry.file
    assert metadata.metadata == {KEY.encode(): f"{path.name} {own.creation_time_millis} {len(ROWS)} {at}".encode()}
    assert at == path.stat().st_size - 8 - metadata.serialized_size
    assert identity_fault(metadata, own, at=at) is None
    other = replace(own, file_name=f"data-{uuid4()}-0.parquet", creation_time_millis=own.creation_time_millis + 1)
    assert path.name in str(identity_fault(metadata, other, at=at))
    assert identity_fault(metadata, replace(other, file_name="part-00000.parquet"), at=at) is None
    # As Paimon's Spark copies files, and as repairs make their entries anew.
    assert identity_fault(metadata, replace(other, creation_time_millis=own.creation_time_millis), at=at) is None
    assert identity_fault(metadata, replace(other, file_name=own.file_name), at=at) is None


def test_no_two_files_of_a_process_are_made_at_one_time() -> None:
    times = [creation_millis() for _ in range(500)]
    assert len(set(times)) == 500


def test_no_file_is_made_later_than_now() -> None:
    """A snapshot that was decided in the millisecond of its files would be older than they are."""
    assert all(made <= local_wall_millis() for made in (creation_millis() for _ in range(100)))


def test_a_clock_that_is_set_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    before = creation_millis()
    with monkeypatch.context() as clock:
        clock.setattr(data_file, "local_wall_millis", lambda: before - 500)
        assert [creation_millis(), creation_millis()] == [before + 1, before + 2]
        clock.setattr(data_file, "local_wall_millis", lambda: before - 3_600_000)
        assert creation_millis() == before - 3_600_000


@pytest.mark.parametrize("options", [{}, {"write_page_checksum": True}, {"store_schema": False, "row_group_size": 1}])
def test_files_of_other_writers_have_no_name_even_where_they_take_it_along(tmp_path: Path, options: dict[str, Any]) -> None:
    """pyarrow writes the keys of the file that its rows came from into the next one, as a client that copies a table does."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    snapshot = insert(files, new_schema(NESTED, options={"bucket": "-1"}), None, ROWS)
    (path,) = (tmp_path / "t").rglob("*.parquet")
    own = next(iter(files.live_entries(snapshot))).file
    rows = pq.read_table(path)
    other = tmp_path / f"data-{uuid4()}-0.parquet"
    pq.write_table(rows, other, **options)
    if "store_schema" not in options:
        assert KEY.encode() in pq.read_metadata(other).metadata
    assert identity_fault(pq.read_metadata(other), replace(own, file_name=other.name, creation_time_millis=1), at=footer_at(other)) is None
    with pq.ParquetWriter(other, rows.schema.remove_metadata(), store_schema=False, compression="none") as writer:
        writer.add_key_value_metadata(rows.schema.metadata)
        writer.write_table(rows)
    assert KEY.encode() in pq.read_metadata(other).metadata
    assert identity_fault(pq.read_metadata(other), replace(own, file_name=other.name, creation_time_millis=1), at=footer_at(other)) is None


@pytest.mark.parametrize("metadata", [{}, {"a": "b", KEY: "an earlier name", "c": "d" * 300}])
def test_a_footer_is_named_anew_and_keeps_the_rest(metadata: dict[str, str]) -> None:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema([("x", pa.int64())]), store_schema=False) as writer:
        writer.add_key_value_metadata(metadata)
        for first in range(20):
            writer.write_table(pa.table({"x": [first, first + 1]}))
    before = sink.getvalue().to_pybytes()
    footer = footer_of(pa.BufferReader(before))
    at = len(before) - 8 - len(footer)
    named = named_footer(footer, "x.parquet", 7, at=at)
    after = before[:at] + named + len(named).to_bytes(4, "little") + MAGIC
    wanted = metadata | {KEY: f"x.parquet 7 40 {at}"}
    assert pq.read_metadata(pa.BufferReader(after)).metadata == {key.encode(): value.encode() for key, value in wanted.items()}
    assert pq.read_table(pa.BufferReader(after)).equals(pq.read_table(pa.BufferReader(before)))
    assert named_footer(named, "x.parquet", 7, at=at) == named
