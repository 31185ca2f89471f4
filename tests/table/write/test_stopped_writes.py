"""A write that is told to stop does so before its next file, wherever it is, and leaves none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from model.errors import StatementCanceled
from model.schema.schema import column, new_schema
from model.work.deciding import deciding_as
from table.format.io.file_io import LocalFileIO
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.write.writer import write_batches

PARTITIONS = 5
WAYS = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "buckets": {"bucket": "3", "bucket-key": "id"},
    "indexes": {"file-index.bloom-filter.columns": "id"},
    "put aside": {"write-buffer-size": "2 kb", "write-max-writers-to-spill": "1"},
    "small files": {"write-buffer-size": "2 kb", "write-buffer-spillable": "false", "target-file-row-num": "7"},
}


class Stopping:
    """A decider that is told to stop when it is asked for the ``last`` time."""

    def __init__(self, last: int) -> None:
        self.left = last
        self.after = 0

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.after += 1
            raise StatementCanceled("enough")

    def begin_decision(self) -> None:
        raise AssertionError("a write decides nothing")

    end_decision = begin_decision


def data_files(where: Path) -> list[Path]:
    return [path for path in where.rglob("*") if path.is_file()]


@pytest.mark.parametrize("way", WAYS)
def test_wherever_it_is_told(way: str, tmp_path: Path) -> None:
    columns = [column("id", "BIGINT"), column("k", "BIGINT"), column("s", "STRING")]
    schema = new_schema(columns, partition_keys=["k"], options={"bucket": "-1"} | WAYS[way])
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    rows = [{"id": number, "k": number % PARTITIONS, "s": f"{number:050}"} for number in range(60)]
    batches = [fit(pa.RecordBatch.from_pylist(rows[at : at + 20]), schema) for at in range(0, 60, 20)]
    asked = 0
    while True:
        stopping = Stopping(asked)
        try:
            with deciding_as(stopping):
                written = write_batches(files, schema, batches)
            break
        except StatementCanceled:
            assert stopping.after == 1, "it goes on after it was told"
            assert data_files(tmp_path) == []
        asked += 1
    assert sum(new.file.row_count for new in written) == 60
    assert asked >= 2 * len(written), "before each file is made, and before it is finished"
