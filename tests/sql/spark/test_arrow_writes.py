"""What executors write through Arrow lies where it belongs at once, and a failed write leaves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from model.snapshot import CommitKind
from sql.spark.session.pool import SparkPool
from sql.spark.write.writes import rows_per_file, write
from table.format.formats import FileFormat
from table.format.io.object_store import ArrowFileIO, StoreClients
from table.format.manifests.entries import ManifestEntry, ManifestFile
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.short import diagonal
from tests.sql.tables import make_table

pytestmark = pytest.mark.spark


class WithoutRename(ArrowFileIO):
    """A store whose objects cannot be moved, over real files."""

    def __init__(self) -> None:
        files = pafs.LocalFileSystem()
        super().__init__(StoreClients.all_one(files), "file")

    def write(self, path: str, data: bytes) -> None:
        """Put the object; stores have no directories that must be there first."""
        self.mkdirs(path.rsplit("/", 1)[0])
        super().write(path, data)

    def rename(self, source: str, target: str) -> None:
        """Refuse: that would be a copy."""
        raise AssertionError(f"{source} was copied to {target}")


def data_files(warehouse: Path) -> list[str]:
    return sorted(path.name for path in warehouse.rglob("*") if path.suffix in (".parquet", ".orc", ".crc"))


def committed(lake: Lake, table: LakeTable, pool: SparkPool, query: str) -> list[dict[str, Any]]:
    with pool.lease().running("statement") as session:
        files = tuple(write(session, session.sql(query), table))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=files, commit_user="u"))
    plan = plan_scan(table.files, table.schema, table.latest())
    return [row for batch in read_batches(table.files, table.schema, plan.files) for row in batch.to_pylist()]


QUERY = "SELECT id, 'p' || id % 3 AS p, CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS at FROM range(0, 3000, 1, 4) ORDER BY id DESC"


def test_where_files_cannot_be_renamed_they_are_written_at_their_place(catalog: CatalogStore, warehouse: Path, pool: SparkPool) -> None:
    lake = Lake(catalog, str(warehouse), file_io=WithoutRename())
    options = {"bucket": "2", "bucket-key": "id", "target-file-row-num": "400"}
    table = make_table(lake, options=options, partition="p", id="BIGINT", p="STRING", at="TIMESTAMP(3)")
    rows = committed(lake, table, pool, QUERY)
    lake.close()
    assert sorted(row["id"] for row in rows) == list(range(3000))
    places: dict[tuple[object, int], list[int]] = {}
    for planned in plan_scan(table.files, table.schema, table.latest()).files:
        batches = read_batches(table.files, table.schema, [planned])
        places.setdefault((planned.partition, planned.bucket), []).extend(n for batch in batches for n in batch.column(0).to_pylist())
    assert len(places) == 6
    assert all(numbers == sorted(numbers, reverse=True) for numbers in places.values())
    live = [entry.file.file_name for entry in table.files.live_entries(table.latest())]
    assert data_files(warehouse) == sorted(live)
    assert not (warehouse / "default.db" / "t" / "_staging").exists()


@pytest.mark.parametrize(("partition", "format_"), diagonal(["", "p"], ["orc", "parquet"]))
def test_a_failed_write_leaves_nothing(lake: Lake, warehouse: Path, pool: SparkPool, format_: str, partition: str) -> None:
    table = make_table(lake, options={"bucket": "-1", "file.format": format_}, partition=partition, id="BIGINT", p="STRING")
    with pool.lease().running("statement") as session:
        # Tasks finish one after the other; the last one fails when the others have written and reported their files.
        frame = session.sql("SELECT IF(id = 3999, raise_error('late'), id) AS id, 'p' || id % 3 AS p FROM range(0, 4000, 1, 8)")
        with pytest.raises(Exception, match="late"):
            write(session, frame, table)
    assert data_files(warehouse) == []
    assert len(committed(lake, table, pool, "SELECT id, 'p' AS p FROM range(5)")) == 5


def test_the_size_of_rows_is_asked_of_the_newest_files_only(lake: Lake, pool: SparkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options={"bucket": "-1", "manifest.merge-min-count": "1000"}, id="BIGINT", s="STRING")
    format_ = FileFormat.of(table.schema)
    assert rows_per_file(table, format_) == 4 * format_.target_bytes // 64, "a guess while there are no files"
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("s", pa.string())])
    for number in range(40):
        rows = 12_000 if number else 10
        batch = pa.RecordBatch.from_pydict({"id": range(rows), "s": ["x"] * rows}, schema=schema)
        files = tuple(write_batches(table.files, table.schema, [batch]))
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=files, commit_user="u"))
    opened: list[str] = []
    read = type(table.files).manifest

    def counted(files: TableFiles, meta: ManifestFile) -> Sequence[ManifestEntry]:
        opened.append(meta.file_name)
        return read(files, meta)

    monkeypatch.setattr(type(table.files), "manifest", counted)
    newest = next(reversed(list(table.files.manifest_list(table.latest().delta_manifest_list)))).file_name  # type: ignore[union-attr]
    per_file = rows_per_file(table, format_)
    assert opened[0] == newest
    assert len(opened) == 32
    size = files[0].file.file_size
    assert per_file == pytest.approx(format_.target_bytes / (size / 12_000), rel=0.01)
