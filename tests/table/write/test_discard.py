"""What cleans up behind a write goes on past a file that stays, and tells of the first failure, not of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from model.errors import StorageFull, Unavailable
from model.schema.schema import column, new_schema
from table.compaction.rewrite import merged_before_commit
from table.format.io.deleting import _MOST_FAILURES
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import NewFile
from table.format.store import TableFiles
from table.write.writer import write_batches

SCHEMA = new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"})


class Stubborn(LocalFileIO):
    """Lets the first file that is to be deleted not go, or so many."""

    def __init__(self, stay: int = 1) -> None:
        super().__init__()
        self.stay, self.asked = stay, 0

    def delete(self, path: str) -> None:
        self.asked += 1
        if self.asked <= self.stay:
            raise Unavailable("read only")
        super().delete(path)


def written(files: TableFiles, count: int) -> list[NewFile]:
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 2, 3], pa.int64())})
    return [new for _ in range(count) for new in write_batches(files, SCHEMA, [batch])]


def left(tmp_path: Path) -> int:
    return len(list(tmp_path.rglob("*.parquet")))


def test_a_merge_is_not_failed_by_a_file_that_was_merged_away_and_stays(tmp_path: Path) -> None:
    files = TableFiles(Stubborn(), str(tmp_path))
    (merged,) = merged_before_commit(files, SCHEMA, written(files, 3))
    assert merged.file.row_count == 9
    assert left(tmp_path) == 2, "the merged one, and the one that stays"


def test_a_merge_that_failed_removes_all_it_can_and_tells_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = TableFiles(Stubborn(), str(tmp_path))
    new = written(files, 3)

    def full(*_: object, **__: object) -> None:
        raise StorageFull("No space.")

    monkeypatch.setattr("table.compaction.rewrite.write_bucket", full)
    with pytest.raises(StorageFull):
        merged_before_commit(files, SCHEMA, new)
    assert left(tmp_path) == 1


def test_a_write_that_failed_removes_all_it_can_and_tells_why_it_failed(tmp_path: Path) -> None:
    io = Stubborn()
    files = TableFiles(io, str(tmp_path))
    schema = new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id", "target-file-size": "1 b"})
    rows = pa.RecordBatch.from_pydict({"id": pa.array(range(400_000), pa.int64())})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from (rows, rows, rows)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises((OSError, Unavailable), match="Input/output"):
        write_batches(files, schema, batches())
    assert io.asked > 1
    assert left(tmp_path) == 1


def test_a_store_that_is_away_is_not_asked_for_every_file(tmp_path: Path) -> None:
    io = Stubborn(stay=10_000)
    files = TableFiles(io, str(tmp_path))
    with pytest.raises(Unavailable):
        files.delete(f"{tmp_path}/bucket-0/{number}" for number in range(1000))
    assert io.asked == _MOST_FAILURES
