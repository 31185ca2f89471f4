"""Writes to many partitions and buckets: bounded memory and few open files, one file each, every bucket's rows in order."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import InvalidData
from model.schema.schema import Schema, column, new_schema
from table.compaction.rewrite import as_entry, planned
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import NewFile
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.scan.read import read_batches
from table.write import writer
from table.write.spill import Spill
from table.write.writer import write_batches
from tests.short import share

WAYS = {
    "in memory": {},
    "put aside": {"write-buffer-size": "2 kb", "write-max-writers-to-spill": "3"},
    "not put aside": {"write-buffer-size": "2 kb", "write-buffer-spillable": "false"},
    "disk is short": {"write-buffer-size": "2 kb", "write-max-writers-to-spill": "3", "write-buffer-spill.max-disk-size": "3 kb"},
    "small files": {"write-buffer-size": "2 kb", "write-max-writers-to-spill": "3", "target-file-row-num": "7"},
}


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(LocalFileIO(), str(tmp_path / "t"))


def schema_of(**options: str) -> Schema:
    columns = [column("p", "STRING"), column("k", "INT"), column("n", "BIGINT")]
    return new_schema(columns, partition_keys=["p"], options={"bucket": "2", "bucket-key": "k"} | options)


def batch(schema: Schema, parts: list[int], first: int) -> pa.RecordBatch:
    rows = {"p": [f"p{part}" for part in parts], "k": [part % 3 for part in parts], "n": list(range(first, first + len(parts)))}
    return fit(pa.RecordBatch.from_pydict(rows), schema)


def read(files: TableFiles, schema: Schema, written: list[NewFile]) -> dict[tuple[str, int], list[int]]:
    """The numbers in each partition and bucket, in the order of their files' sequences."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for new in sorted(written, key=lambda each: each.file.min_sequence_number):
        (one,) = planned(files, schema, [as_entry(new, schema.bucket)])
        for rows in read_batches(files, schema, [one]):
            for row in rows.to_pylist():
                found[row["p"], new.bucket].append(row["n"])
    return found


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=share(16), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=60), min_size=1, max_size=6))
def test_every_bucket_has_its_rows_in_order(way: str, parts: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files, schema = TableFiles(LocalFileIO(), f"{directory}/t"), schema_of(**WAYS[way])
        batches, first = [], 0
        for each in parts:
            batches.append(batch(schema, each, first))
            first += len(each)
        found = read(files, schema, write_batches(files, schema, batches))
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(first))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def wide(schema: Schema, partitions: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Rows whose partitions come in no order."""
    draw = np.random.default_rng(7)
    for first in range(0, rows, 8192):
        yield batch(schema, draw.integers(0, partitions, min(8192, rows - first)).tolist(), first)


def test_five_hundred_partitions_take_little_memory_and_a_file_each(files: TableFiles) -> None:
    schema = schema_of(**{"write-buffer-size": "1 mb", "bucket": "1"})
    before, most = pa.total_allocated_bytes(), 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for each in wide(schema, 500, 130_000):
            yield each
            most = max(most, pa.total_allocated_bytes() - before)

    written = write_batches(files, schema, watched())
    assert len(written) == 500
    assert sum(new.file.row_count for new in written) == 130_000
    assert most < 6 << 20


def test_a_row_here_and_there_takes_little_memory(files: TableFiles) -> None:
    """Each (partition, batch) is a slice, which takes Arrow some hundred bytes besides its row."""
    schema = schema_of(**{"write-buffer-size": "32 mb", "bucket": "1"})
    process = psutil.Process()

    def watched() -> Iterator[pa.RecordBatch]:
        before = process.memory_info().rss
        yield from wide(schema, 4_000, 30 * 8192)
        raise InvalidData(str(process.memory_info().rss - before))

    with pytest.raises(InvalidData) as told:
        write_batches(files, schema, watched())
    assert int(told.value.message) < 96 << 20


@pytest.mark.parametrize("failing", [False, True])
def test_nothing_stays_on_the_local_disk(files: TableFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: bool) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    schema = schema_of(**WAYS["put aside"])
    put: list[int] = []
    real = Spill.put

    def noted(self: Spill, rows: Any) -> None:
        real(self, rows)
        put.append(self.size)
        assert {path.name for path in tmp_path.iterdir()} <= {"t"}  # the files have no names: a kill leaves none

    monkeypatch.setattr(Spill, "put", noted)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from wide(schema, 30, 20_000)
        if failing:
            raise InvalidData("broken body")

    if failing:
        with pytest.raises(InvalidData):
            write_batches(files, schema, batches())
    else:
        write_batches(files, schema, batches())
    assert put == sorted(put)
    assert put[-1] > 1000
    assert bool([path for path in (tmp_path / "t").rglob("*") if path.is_file()]) is not failing


@pytest.mark.parametrize(
    ("options", "puts_aside", "small_files"),
    [
        ({}, True, False),
        ({"write-buffer-spillable": "false"}, False, True),
        ({"write-max-writers-to-spill": "1000"}, False, True),
        ({"write-buffer-spill.max-disk-size": "3 kb"}, True, True),
    ],
    ids=str,
)
def test_options_say_what_is_put_aside(
    files: TableFiles, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], *, puts_aside: bool, small_files: bool
) -> None:
    """Rows for more files than may be open go to small ones at once where they are not put aside."""
    monkeypatch.setattr("table.write.writer._MOST_OPEN_FILES", 3)
    put: list[int] = []
    real = Spill.put

    def noted(self: Spill, rows: Any) -> None:
        put.append(self.size)
        real(self, rows)

    monkeypatch.setattr(Spill, "put", noted)
    schema = schema_of(**(WAYS["put aside"] | {"bucket": "1"} | options))
    written = write_batches(files, schema, wide(schema, 20, 20_000))
    assert sum(new.file.row_count for new in written) == 20_000
    assert (bool(put), len(written) > 20) == (puts_aside, small_files)


def test_few_files_are_open_at_once(files: TableFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table.write.writer._MOST_OPEN_FILES", 3)
    schema = schema_of(**WAYS["not put aside"])
    found = read(files, schema, write_batches(files, schema, wide(schema, 20, 20_000)))
    assert sum(map(len, found.values())) == 20_000
    assert all(numbers == sorted(numbers) for numbers in found.values())


@pytest.mark.parametrize("options", [{}, {"write-buffer-size": "1 kb"}, {"write-buffer-size": "1 kb", "write-buffer-spillable": "false"}])
def test_what_a_batch_costs_does_not_grow_with_the_buckets_before_it(
    files: TableFiles, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """A client chooses how many rows a batch has, and a table's owner the memory: one row in each took the square of their number."""
    looks = 0
    pending = writer._BucketWriter.pending_bytes

    def looked(of: writer._BucketWriter) -> int:
        nonlocal looks
        looks += 1
        return int(pending.__get__(of))

    monkeypatch.setattr(writer._BucketWriter, "pending_bytes", property(looked))
    schema, count = schema_of(bucket="1000", **options), 300
    rows = [fit(pa.RecordBatch.from_pydict({"p": ["p"], "k": [n], "n": [n]}), schema) for n in range(count)]
    written = write_batches(files, schema, rows)
    assert sum(new.file.row_count for new in written) == count
    assert len(written) > count // 2
    assert looks <= 10 * count
