"""Who removes from a store for so long that its lock is over takes nothing of what another server has put there by then."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import psycopg
import pyarrow.fs as pafs

from catalog import CatalogStore
from lake import Lake
from model.identifier import Identifier
from table.format.io.file_io import LocalFileIO
from table.format.io.object_store import ArrowFileIO, StoreClients
from tests.fix_postgres import ADVISORY_LOCKS
from tests.fix_s3 import Bucket
from tests.lake.tables.test_drops import make
from tests.lake.test_commit import T, append, names
from tests.lake.test_standing_still import WAITED

B = Identifier(T.database, T.table, "b")


class SlowStore(ArrowFileIO):
    """A bucket from which nothing is removed before it may."""

    def __init__(self, bucket: Bucket, *, slow: bool = False) -> None:
        host = bucket.endpoint.removeprefix("http://")
        given = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
        store = pafs.S3FileSystem(endpoint_override=host, scheme="http", **given)
        super().__init__(StoreClients.all_one(store), "s3")
        self.removes, self.may = threading.Event(), threading.Event()
        self.removed: list[str] = []
        if not slow:
            self.may.set()

    def delete_tree(self, path: str) -> None:
        self.removes.set()
        assert self.may.wait(WAITED)
        super().delete_tree(path)
        self.removed.append(path)

    def below(self, path: str) -> set[str]:
        """All objects below a path."""
        infos = self.arrow().get_file_info(pafs.FileSelector(self.arrow_path(path), recursive=True, allow_not_found=True))
        return {info.path for info in infos if info.is_file}


def lose_locks(dsn: str) -> None:
    """As where Postgres fails over: who holds a lock notices when it asks Postgres something."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        lost = f"SELECT pg_terminate_backend(pid) {ADVISORY_LOCKS} AND pid <> pg_backend_pid()"
        assert conn.execute(lost).fetchall()


def test_nothing_of_the_next_table(catalog: CatalogStore, bucket: Bucket, dsn: str) -> None:
    store, slow_store = SlowStore(bucket), SlowStore(bucket, slow=True)
    slow = Lake(catalog, f"s3://{bucket.name}/warehouse", file_io=slow_store)
    dropped = make(slow, T, "dropped")
    dropping = threading.Thread(target=slow.drop_table, args=(T,), kwargs={"purge": True})
    dropping.start()
    assert slow_store.removes.wait(WAITED)
    lose_locks(dsn)
    with contextlib.closing(Lake(CatalogStore(dsn), f"s3://{bucket.name}/warehouse", file_io=store)) as lake:
        table = make(lake, T, "kept")
        there = store.below(table.location)
        slow_store.may.set()
        dropping.join(WAITED)
        assert store.below(table.location) == there
        assert lake.finish_half_done().failed == 0
        assert store.below(table.location) >= there
        assert names(lake.open(T)) == ["kept"]
        assert not store.below(dropped.location)
        lake.drop_table(T, purge=True)
        assert make(lake, T).location == dropped.location, "the place is free again"


def test_little_of_the_next_branch(catalog: CatalogStore, bucket: Bucket, dsn: str) -> None:
    """It can lie nowhere else: who has lost the lock ends with what it is at."""
    store, slow_store = SlowStore(bucket), SlowStore(bucket, slow=True)
    slow = Lake(catalog, f"s3://{bucket.name}/warehouse", file_io=slow_store)
    table = make(slow, T, "main")
    slow.branches.create(table, "b")
    slow.commit(slow.open(B), append("dropped"))
    dropping = threading.Thread(target=slow.branches.drop, args=(table, ["b"]))
    dropping.start()
    assert slow_store.removes.wait(WAITED)
    lose_locks(dsn)
    with contextlib.closing(Lake(CatalogStore(dsn), f"s3://{bucket.name}/warehouse", file_io=store)) as lake:
        lake.branches.create(lake.open(T), "b")
        branch = lake.open(B)
        lake.commit(branch, append("kept"))
        slow_store.may.set()
        dropping.join(WAITED)
        assert "snapshot-1" in {path.rpartition("/")[2] for path in store.below(branch.files.layout.snapshot_dir())}
        assert names(lake.open(B)) == ["kept"]


def test_a_table_is_removed_at_once_however_many_partitions_it_has(catalog: CatalogStore, bucket: Bucket) -> None:
    store = SlowStore(bucket)
    with contextlib.closing(Lake(catalog, f"s3://{bucket.name}/warehouse", file_io=store)) as lake:
        table = make(lake, T)
        for number in range(3):
            store.add(f"{table.location}/day={number}/bucket-0/data-{number}.parquet", b"1")
        lake.drop_table(T, purge=True)
        assert store.removed == [table.location]
        assert not store.below(table.location)


def test_disks_tell_directories_apart(catalog: CatalogStore, warehouse: Path) -> None:
    """What is left there is removed by whoever makes the next table of the name, in the same place."""
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=LocalFileIO())) as lake:
        place = make(lake, T, "dropped").location
        with lake.catalog.transaction() as tx:
            tx.tables.drop(lake.open(T).table_id, place)
        assert make(lake, T).location == place
