"""Hive-style directories: what is found in them, and what is refused by name."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidData, InvalidSchema, LakeError, UnsupportedType
from model.schema.schema import new_schema
from model.schema.types import BigIntType, DateType, IntType, VarCharType
from table.format.hive import HiveDirectory, _type_of, partition_value, registered, survey
from table.format.io.file_io import LocalFileIO
from table.format.rows import binary_row

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["a", None]})


def put(directory: Path, name: str, rows: pa.Table = ROWS, **how: object) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".orc"):
        orc.write_table(rows, path)
    else:
        pq.write_table(rows, path, **how)


def look(directory: Path) -> HiveDirectory:
    return survey(LocalFileIO(), str(directory))


def columns(found: HiveDirectory) -> list[str]:
    return [f"{field.name} {field.type}" for field in found.columns]


def test_files_partitions_and_columns_are_found(tmp_path: Path) -> None:
    put(tmp_path, "day=2024-01-01/hour=1/part-0.snappy.parquet")
    put(tmp_path, "day=2024-01-01/hour=12/x.orc")
    put(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/hour=2/000000_0")
    put(tmp_path, "_temporary/0/junk.parquet")
    put(tmp_path, "day=2024-01-01/hour=1/.part.crc")
    (tmp_path / "_SUCCESS").touch()
    found = look(tmp_path)
    assert found.keys == ("day", "hour")
    assert columns(found) == ["id BIGINT", "s STRING", "day DATE", "hour INT"]
    assert sorted((file.partition, file.format, file.rows) for file in found.files if file.partition[0]) == [
        (("2024-01-01", "1"), "parquet", 2), (("2024-01-01", "12"), "orc", 2),
    ]  # fmt: skip
    (unnamed,) = [file for file in found.files if file.partition[0] is None]
    assert unnamed.path.endswith("000000_0")
    assert unnamed.name_needed.endswith("000000_0.parquet")


def test_footers_become_statistics(tmp_path: Path) -> None:
    put(tmp_path, "day=5/f.parquet")
    found = look(tmp_path)
    schema = new_schema(found.columns, partition_keys=found.keys, options={"bucket": "-1"})
    new = registered(found.files[0], schema)
    assert binary_row.decode([IntType()], new.partition) == (5,)
    assert new.file.external_path == str(tmp_path / "day=5/f.parquet")
    assert (new.file.row_count, new.file.file_size) == (2, (tmp_path / "day=5/f.parquet").stat().st_size)
    types = [schema.field(name).type for name in ("id", "s", "day")]
    assert binary_row.decode(types, new.file.value_stats.min_values) == (1, "a", None)
    assert binary_row.decode(types, new.file.value_stats.max_values) == (2, "a", None)
    assert list(new.file.value_stats.null_counts) == [0, 1, None]


def test_a_column_some_files_lack_is_nullable(tmp_path: Path) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int32(), nullable=False)])
    put(tmp_path, "a.parquet", pa.table({"id": [1], "x": pa.array([1], pa.int32())}).cast(strict))
    put(tmp_path, "b.parquet", pa.table({"id": [1]}).cast(pa.schema([strict.field(0)])))
    assert columns(look(tmp_path)) == ["id BIGINT NOT NULL", "x INT"]


REFUSED: list[tuple[dict[str, pa.Table], type[LakeError], str]] = [
    ({}, InvalidSchema, "There are no data files"),
    (
        {"a.parquet": ROWS, "b.parquet": pa.table({"id": ["x"]})},
        InvalidSchema,
        r"Column id is BIGINT in .*a.parquet and STRING in .*b.parquet",
    ),
    ({"day=1/a.parquet": ROWS, "hour=1/b.parquet": ROWS}, InvalidSchema, r"different partition keys \((day|hour); (day|hour)\)"),
    ({"a.parquet": ROWS, "day=1/b.parquet": ROWS}, InvalidSchema, "different partition keys"),
    ({"sub/a.parquet": ROWS}, InvalidSchema, "not named key=value"),
    ({"id=1/a.parquet": ROWS}, InvalidSchema, "partition key id is a column of the files, too"),
    ({"a.parquet": pa.table({"u": pa.array([1], pa.uint32())})}, UnsupportedType, "Column u of .*uint32 cannot be held"),
    ({"a.parquet": pa.table({"u": pa.array([[1]], pa.list_(pa.uint8()))})}, UnsupportedType, "Column u of .*uint8"),
    ({"a.parquet": pa.table({"t": pa.array([1], pa.timestamp("ns"))})}, UnsupportedType, r"Column t of .*TIMESTAMP\(9\)"),
    ({"a.parquet": pa.table({"t": pa.array([1], pa.time64("us"))})}, UnsupportedType, "Column t of .*time64"),
    ({"a.orc": pa.table({"_col0": [1]})}, InvalidSchema, "names its columns by position"),
]


@pytest.mark.parametrize(("files", "error", "says"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_a_table_cannot_hold_is_refused_by_name(tmp_path: Path, files: dict[str, pa.Table], error: type[LakeError], says: str) -> None:
    for name, rows in files.items():
        put(tmp_path, name, rows, version="2.6") if name.endswith(".parquet") else put(tmp_path, name, rows)
    with pytest.raises(error, match=says):
        look(tmp_path)


def test_int96_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", pa.table({"t": pa.array([1], pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedType, match=r"Column t of .*INT96"):
        look(tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "says"), [("a.csv", b"id\n1\n", "neither a Parquet nor an ORC"), ("a.parquet", b"junk", "cannot be read")]
)
def test_other_files_are_refused(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LakeError, match=says):
        look(tmp_path)


@given(st.sets(st.one_of(st.none(), st.integers().map(str), st.dates().map(str), st.text()), min_size=1))
def test_a_partitions_text_is_its_values_only_spelling(texts: set[str | None]) -> None:
    type_ = _type_of(texts)
    for text in texts:
        value = partition_value(text, type_)
        assert (value is None) == (text is None)
        if value is not None:
            assert str(value) == text


def test_types_of_partitions() -> None:
    assert isinstance(_type_of({"1", "-2", None}), IntType)
    assert isinstance(_type_of({"3000000000"}), BigIntType)
    assert isinstance(_type_of({"01", "2"}), VarCharType)
    assert isinstance(_type_of({"2024-02-29"}), DateType)
    assert isinstance(_type_of({"2024-02-30"}), VarCharType)
    assert isinstance(_type_of({None}), VarCharType)
    assert partition_value("2024-02-29", DateType()) == dt.date(2024, 2, 29)
    with pytest.raises(InvalidData, match="'x' is no INT"):
        partition_value("x", IntType())
