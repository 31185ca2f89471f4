"""What texts of a Parquet file take, by the lengths its pages tell."""

from __future__ import annotations

import io
import random
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table.format.parquet.batches import bounded_batches
from table.format.parquet.lengths import lengths_of
from table.format.parquet.metadata import footer_of, metadata_of
from tests.short import short

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
PEAK = """
import re, sys
from pathlib import Path
import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from table.format.parquet.batches import bounded_batches
rows = 0
with LocalFileSystem().open_input_file(sys.argv[1]) as source:
    for batch in bounded_batches(source):
        rows += batch.num_rows
        assert batch.nbytes <= 100 << 20, batch.nbytes
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(rows, int(peak[1]) >> 10)
"""
"""The peak of the process itself: `getrusage` counts what the process that began it had before, too."""


def _bounds(body: bytes) -> tuple[int, int]:
    source = pa.BufferReader(body)
    metadata = metadata_of(footer_of(source))
    schema = metadata.schema.column(0)
    longest = total = 0
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(0)
        lengths = lengths_of(source, chunk, max_repetition=schema.max_repetition_level, max_definition=schema.max_definition_level)
        longest, total = max(longest, lengths.longest), total + lengths.total
    return longest, total


def _written(column: pa.Array, **options: object) -> bytes:
    sink = io.BytesIO()
    more = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}} | options
    pq.write_table(pa.table({"a": column}), sink, **more)
    return sink.getvalue()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_written_by_what_they_add_are_summed(codec: str, version: str) -> None:
    rng = random.Random(7)
    texts = [None if rng.random() < 0.1 else "begin" * rng.randrange(9) + str(rng.randrange(10**9)) for _ in range(5_000)]
    sizes = [len(text) for text in texts if text is not None]
    body = _written(pa.array(texts), compression=codec, data_page_version=version, data_page_size=5_000, row_group_size=2_000)
    longest, total = _bounds(body)
    assert total == sum(sizes)
    assert max(sizes) <= longest <= 2 * max(sizes)


def test_texts_inside_lists_are_summed() -> None:
    lists = pa.array([["x" * 50] * (number % 4) if number % 7 else None for number in range(1_000)], pa.list_(pa.string()))
    body = _written(lists, column_encoding={"a.list.element": "DELTA_BYTE_ARRAY"}, data_page_version="2.0")
    assert _bounds(body)[1] == sum(50 * len(texts) for texts in lists.to_pylist() if texts)


def test_the_longest_text_of_a_dictionary() -> None:
    column = pa.array(["a", "b" * 77, "c"] * 100)
    assert _bounds(_written(column, use_dictionary=True, column_encoding=None)) == (77, 0)


def _peak(path: Path) -> tuple[int, int]:
    """Rows, and the MB a process took that read them."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True)
    rows, peak = map(int, done.stdout.split())
    return rows, peak


@pytest.mark.parametrize("nested", short([False, True], [True]))
def test_a_small_file_whose_texts_add_nothing_takes_little_memory(tmp_path: Path, nested: bool) -> None:
    rows, path = 2_000, tmp_path / "bomb.parquet"
    text = "x" * 1_000_000
    indices = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    with pq.ParquetWriter(
        path,
        pa.schema({"a": pa.list_(pa.string()) if nested else pa.string()}),
        compression="zstd",
        use_dictionary=False,
        column_encoding={"a.list.element" if nested else "a": "DELTA_BYTE_ARRAY"},
    ) as writer:
        for start in range(0, rows, 200):
            plain = indices.slice(start, 200).dictionary_decode()
            column = pa.ListArray.from_arrays(pa.array(range(201), pa.int32()), plain) if nested else plain
            writer.write_table(pa.table({"a": column}), row_group_size=200)
    assert path.stat().st_size < 100_000
    seen, peak = _peak(path)
    assert seen == rows
    assert peak < 700


def test_such_texts_beside_a_dictionary(tmp_path: Path) -> None:
    texts = pa.array(["x" * 400_000] * 300)
    sink = io.BytesIO()
    columns = {"a": texts, "b": texts}
    pq.write_table(pa.table(columns), sink, compression="zstd", use_dictionary=["b"], column_encoding={"a": "DELTA_BYTE_ARRAY"})
    batches = [(batch.num_rows, batch.nbytes) for batch in bounded_batches(pa.BufferReader(sink.getvalue()))]
    assert sum(rows for rows, _ in batches) == 300
    assert max(size for _, size in batches) <= 80 << 20


def test_json_in_a_dictionary_that_arrow_does_not_show() -> None:
    document = '"' + "x" * 500_000 + '"'
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([document] * 1_000, pa.json_())}), sink, compression="zstd", store_schema=False)
    assert metadata_of(footer_of(pa.BufferReader(sink.getvalue()))).schema.column(0).logical_type.type == "JSON"
    batches = [(batch.num_rows, batch.nbytes) for batch in bounded_batches(pa.BufferReader(sink.getvalue()))]
    assert sum(rows for rows, _ in batches) == 1_000
    assert max(size for _, size in batches) <= 80 << 20


def test_bytes_that_were_changed_are_told_or_bounded() -> None:
    body = _written(pa.array(["same" * 9 + str(number % 3) for number in range(3_000)]), compression="none")
    begin = metadata_of(footer_of(pa.BufferReader(body))).row_group(0).column(0).data_page_offset
    told = 0
    for position in range(begin, begin + 100, 3):
        for bit in range(8):
            changed = bytearray(body)
            changed[position] ^= 1 << bit
            try:
                _bounds(bytes(changed))
            except (pa.ArrowInvalid, pa.ArrowCapacityError):
                told += 1
    assert told
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 << 20
