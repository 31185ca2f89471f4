"""Batches of a Parquet file are bounded by what their rows take, however little of it the file holds."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from table.format.parquet.batches import bounded_batches
from tests.short import short

MOST_BYTES = 80 << 20
LONG = "x" * 200_000


def _written(path: Path, table: pa.Table, **options: object) -> pa.NativeFile:
    pq.write_table(table, path, compression="zstd", **options)
    return LocalFileSystem().open_input_file(str(path))


def _compare(source: pa.NativeFile, table: pa.Table, columns: list[str] | None = None) -> list[pa.RecordBatch]:
    """The batches, which hold the table's rows and whose sizes are bounded."""
    batches = []
    row = 0
    for batch in bounded_batches(source, columns):
        assert batch.nbytes <= MOST_BYTES
        expected = (table if columns is None else table.select(columns)).slice(row, batch.num_rows)
        assert pa.Table.from_batches([batch]).cast(expected.schema).equals(expected)
        row += batch.num_rows
        batches.append(batch.slice(0, 1))
    assert row == table.num_rows
    return batches


def _repeated(rows: int, text: str = LONG) -> pa.Array:
    """One text in all rows, named by a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def _written_once(path: Path, columns: dict[str, pa.Array], **options: object) -> pa.NativeFile:
    """A file whose columns are plain for whoever reads it, and take little."""
    return _written(path, pa.table(columns), store_schema=False, **options)


def test_a_long_value_in_every_row_comes_a_few_rows_at_a_time(tmp_path: Path) -> None:
    rows = 5_000
    with _written_once(tmp_path / "a", {"id": pa.array(range(rows)), "text": _repeated(rows)}) as source:
        assert source.size() < 50_000
        seen = 0
        for batch in bounded_batches(source):
            assert batch.nbytes <= 9 << 20
            assert batch.column("id").to_pylist() == list(range(seen, seen + batch.num_rows))
            assert set(batch.column("text").dictionary_encode().dictionary.to_pylist()) == {LONG}
            seen += batch.num_rows
        assert seen == rows


def test_a_long_value_among_short_ones_that_fill_the_dictionary(tmp_path: Path) -> None:
    texts = [LONG if number % 500 == 7 else f"text {number} of its own" for number in range(100_000)]
    table = pa.table({"text": texts, "number": range(100_000)})
    with _written(tmp_path / "a", table) as source:
        _compare(source, table)


@pytest.mark.parametrize("row_group", short([10, 3_000, 100_000], [10, 100_000]))
def test_values_inside_lists_maps_and_structs(tmp_path: Path, row_group: int) -> None:
    rows = 2_000
    indices = pa.array(np.arange(rows, dtype=np.int32) % 3)
    named = pa.DictionaryArray.from_arrays(indices, pa.array(["", LONG, "y"]))
    ends = pa.array(range(rows + 1), pa.int32())
    columns = {
        "list": pa.ListArray.from_arrays(ends, named),
        "map": pa.MapArray.from_arrays(ends, pa.array(range(rows)), named),
        "struct": pa.StructArray.from_arrays([named, pa.array(range(rows))], ["text", "number"]),
    }
    with _written_once(tmp_path / "a", columns, row_group_size=row_group) as source:
        seen = 0
        for batch in bounded_batches(source):
            assert batch.nbytes <= 9 << 20
            for name, column in columns.items():
                expected = column.slice(seen, batch.num_rows)
                assert batch.column(name).slice(0, 1).to_pylist() == expected.slice(0, 1).to_pylist()
                assert len(batch.column(name)) == len(expected)
            seen += batch.num_rows
        assert seen == rows


def test_a_list_that_begins_empty_hides_no_dictionary(tmp_path: Path) -> None:
    rows = 20_000
    offsets = pa.array([0, *range(rows)], pa.int32())
    with _written_once(tmp_path / "a", {"texts": pa.ListArray.from_arrays(offsets, _repeated(rows - 1, "x" * 20_000))}) as source:
        assert max(batch.nbytes for batch in bounded_batches(source)) <= 9 << 20


def test_a_thousand_columns_of_one_number(tmp_path: Path) -> None:
    rows = 100_000
    number = pa.array(np.zeros(rows, np.int64))
    with _written_once(tmp_path / "a", {f"c{position}": number for position in range(300)}) as source:
        assert source.size() < 1 << 20
        batches = [batch.nbytes for batch in bounded_batches(source)]
    assert max(batches) <= MOST_BYTES
    assert sum(batches) >= rows * 300 * 8


def test_long_lists_of_one_number(tmp_path: Path) -> None:
    numbers = pa.array(np.zeros(20_000_000, np.int64))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 20_000_001, 10_000), pa.int32()), numbers)
    with _written_once(tmp_path / "a", {"numbers": lists}) as source:
        assert max(batch.nbytes for batch in bounded_batches(source)) <= MOST_BYTES


def test_values_that_say_what_they_add_to_the_one_before(tmp_path: Path) -> None:
    table = pa.table({"text": ["x" * 10_000] * 20_000})
    with _written(tmp_path / "a", table, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}) as source:
        assert source.size() < 1 << 20
        _compare(source, table)


@pytest.mark.parametrize("rows", [0, 1, 64, 65_537])
def test_ordinary_rows_are_whole_batches(tmp_path: Path, rows: int) -> None:
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "text": pa.array([f"t{number % 9}" if number % 5 else None for number in range(rows)], pa.string()),
            "texts": pa.array([["a", None, "b"][: number % 4] if number % 7 else None for number in range(rows)], pa.list_(pa.string())),
            "absent": pa.nulls(rows, pa.string()),
        }
    )
    with _written(tmp_path / "a", table) as source:
        assert len(_compare(source, table)) <= 2
        _compare(source, table, ["texts"])
        _compare(source, table, ["absent", "text"])


def test_most_rows_is_a_bound(tmp_path: Path) -> None:
    table = pa.table({"id": range(1_000)})
    with _written(tmp_path / "a", table) as source:
        assert max(batch.num_rows for batch in bounded_batches(source, most_rows=100)) == 100


def test_a_changed_byte_of_an_index_is_an_error_or_another_value(tmp_path: Path) -> None:
    """Arrow's reader of dictionaries lets indices pass that point nowhere; nothing may follow one."""
    sink = io.BytesIO()
    table = pa.table({"text": [f"{'x' * 3_000}{number % 5}" for number in range(30_000)]})
    pq.write_table(table, sink, compression="none", write_statistics=False)
    body = sink.getvalue()
    begin = pq.read_metadata(io.BytesIO(body)).row_group(0).column(0).data_page_offset
    refused = 0
    for position in range(begin, len(body) - 600, 523):
        for bit in (0, 3, 6):
            changed = bytearray(body)
            changed[position] ^= 1 << bit
            try:
                for batch in bounded_batches(pa.BufferReader(bytes(changed))):
                    batch.validate(full=True)
            except (pa.ArrowException, OSError):
                refused += 1
    assert refused
