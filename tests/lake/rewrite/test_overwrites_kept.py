"""What an expiry, and a tag that goes, read of the OVERWRITE snapshots that are retained: each once, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots
from table.format import store
from table.format.cache import ByteCache
from table.format.io.file_io import LocalFileIO
from tests.lake.kept import at, history, keep, overwrite
from tests.lake.rewrite.test_compaction import QUEUE, append
from tests.sql.tables import make_table


class CountingIO(LocalFileIO):
    """A local disk that counts what is read of metadata."""

    reads = 0

    def read(self, path: str) -> bytes:
        self.reads += "/manifest/" in path
        return super().read(path)


@pytest.fixture
def disk() -> CountingIO:
    return CountingIO()


@pytest.fixture(autouse=True)
def nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a table whose manifests are more than the caches hold."""
    for name in ("_LISTS", "_MANIFESTS"):
        monkeypatch.setattr(store, name, ByteCache[str, Any](0, lambda _: 1))
        monkeypatch.setattr(store.TableFiles, name.lower(), ByteCache[str, Any](0, lambda _: 1))


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path, disk: CountingIO) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse), file_io=disk)
    yield made
    made.close()


def reads_of(lake: Lake, disk: CountingIO, table: LakeTable, *, kept: int, tag: bool) -> int:
    """What it takes to let the oldest snapshot go, or a tag of it, with so many retained."""
    if tag:
        create_tag(lake, table, "oldest", snapshot_id=history(lake, table)[0])
        expire_snapshots(lake, table, keep(kept))
    before = disk.reads
    removed = delete_tag(lake, table, "oldest") if tag else expire_snapshots(lake, table, keep(kept))
    assert removed.data_files
    return disk.reads - before


@pytest.mark.parametrize("tag", [False, True])
def test_reads_do_not_grow_with_the_overwrites_that_are_retained(lake: Lake, disk: CountingIO, tag: bool) -> None:
    table = make_table(lake, options=QUEUE | {"manifest.merge-min-count": "2"}, id="INT")
    reads = []
    append(lake, table, [0])
    for n in range(12):
        overwrite(lake, table, [n])
        overwrite(lake, table, [n + 1])
        if n >= 2:
            reads.append(reads_of(lake, disk, table, kept=n + 2, tag=tag))
            expire_snapshots(lake, table, keep(n + 2))
    assert len(history(lake, table)) == 13
    assert len(set(reads[1:])) == 1, reads
    for snapshot in lake.snapshots(table):
        assert len(at(table, snapshot)) == 1
