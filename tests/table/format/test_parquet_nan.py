"""Whether a footer's bounds leave NaN out, and files whose bounds do not."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.schema.schema import column, new_schema
from table.format.formats import FileFormat
from table.format.io.file_io import LocalFileIO
from table.format.parquet.nan import columns_without_floats, hides_nan
from table.format.rows.arrow import arrow_schema
from table.format.rows.stats import ColumnStats, StatsModes, stats_from_parquet
from table.format.store import TableFiles
from table.write.data_file import open_file

NESTED = pa.schema(
    [
        pa.field("i", pa.int32()), pa.field("d", pa.float64()), pa.field("r.x", pa.int32()),
        pa.field("r", pa.struct([pa.field("x", pa.float32()), pa.field("y", pa.string())])),
        pa.field("l", pa.list_(pa.float64())), pa.field("n", pa.list_(pa.struct([pa.field("t", pa.date32())]))),
        pa.field("m", pa.map_(pa.string(), pa.float64())), pa.field("c", pa.decimal128(9, 2)),
    ]
)  # fmt: skip


def footer(table: pa.Table, writer: bytes = b"", **options: object) -> pq.FileMetaData:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    if writer:
        ours = f"parquet-cpp-arrow version {pa.__version__}".encode()
        assert data.count(ours) == 1
        data = data.replace(ours, writer.ljust(len(ours)))
    return pq.read_metadata(io.BytesIO(data))


def test_all_columns_but_those_of_floats_have_bounds() -> None:
    metadata = footer(NESTED.empty_table())
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    floats = {leaf.path for leaf in leaves if leaf.physical_type in ("FLOAT", "DOUBLE")}
    assert columns_without_floats(NESTED) == [leaf.path for leaf in leaves if leaf.path not in floats]
    assert floats == {"d", "r.x", "l.list.element", "m.key_value.value"}


@pytest.mark.parametrize(
    ("writer", "hides"),
    [
        (b"", True), (b"parquet-mr version 1.17.0 (buil)", False), (b"parquet-mr version 1.8.1", True), (b"DuckDB version v1.4", True),
        (b"parquet-rs version 55", True),
    ],
)  # fmt: skip
def test_who_leaves_nan_out_of_bounds(writer: bytes, hides: bool) -> None:
    table = pa.table({"x": pa.array([1.0, math.nan]), "i": [1, 2]})
    metadata = footer(table, writer)
    assert hides_nan(metadata) is hides
    told = stats_from_parquet(metadata, new_schema([column("x", "DOUBLE"), column("i", "BIGINT")]).fields)
    assert told["x"] == (ColumnStats(null_count=0) if hides else ColumnStats(min=1.0, max=1.0, null_count=0))
    assert told["i"] == ColumnStats(min=1, max=2, null_count=0)
    assert not hides_nan(footer(table, write_statistics=["i"]))
    assert not hides_nan(footer(table.select(["i"])))


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ([[1.0, 2.0], [None, 0.0]], ColumnStats(min=-0.0, max=2.0, null_count=1)),
        ([[1.0, 2.0], [math.nan, 3.0]], ColumnStats(null_count=0)),
        ([[math.nan], [None]], ColumnStats(null_count=1)),
        ([[None], [None]], ColumnStats(null_count=2)),
    ],
)
def test_a_file_of_ours_has_bounds_where_no_nan_is(tmp_path: Path, kind: str, groups: list[list[float | None]], told: ColumnStats) -> None:
    schema = new_schema([column("x", kind), column("s", "STRING")], options={"bucket": "-1"})
    files = TableFiles(LocalFileIO(), str(tmp_path))
    path = str(tmp_path / "f.parquet")
    file = open_file(files, FileFormat.of(schema), path, arrow_schema(schema.fields), StatsModes(schema))
    for values in groups:
        file.write(pa.table({"x": values, "s": ["s"] * len(values)}, schema=arrow_schema(schema.fields)))
    _, stats = file.close(StatsModes(schema))
    kept = StatsModes(schema).modes[0].keep(stats["x"])
    assert (kept, stats["s"]) == (told, ColumnStats(min="s", max="s", null_count=0))
    assert not hides_nan(pq.read_metadata(path))
