"""What a copy has besides the tables' own files: consumers, dropped tables, files that lie elsewhere, and whether all was copied."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import server.commands.backup
from lake.tables.consumers import ConsumerProgress, consumers, reset_consumer
from model.errors import IllegalMove, StorageFull
from model.identifier import Identifier
from server.commands.backup import backup, restore_parts
from server.commands.check import check_warehouse
from server.commands.restore import restore
from table.format.io.file_io import LocalFileIO
from table.format.io.storage_errors import translating
from tests.lake.register.damage import forget_metadata, index_of_other_rows
from tests.server.commands.conftest import Of, Open, Server
from tests.short import diagonal
from tests.sql.statements.test_deletions import delete

ORDERS = Identifier("shop", "orders")


def told(shop: Server, name: str) -> dict[str, int]:
    database, _, table = name.partition(".")
    return consumers(shop.catalog, shop.lake.open(Identifier(database, table)))


def test_consumers_go_on_where_they_were(shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    """As of the backup's moment, though the copy has served a later one; a stream's, and one that only has a file, as Flink's."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "ours", 2)
    flinks = tmp_path / "warehouse/shop.db/orders/consumer/consumer-flinks"
    flinks.write_text(json.dumps({"nextSnapshot": 3}))
    assert backup(of(shop.dsn), file, files_to=copy)[1] == []
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "ours", None)
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "later", 1)
    flinks.write_text(json.dumps({"nextSnapshot": 9}))
    assert backup(of(shop.dsn), tmp_path / "b2", files_to=copy)[1] == []
    shutil.rmtree(tmp_path / "warehouse")
    assert restore(of(empty_dsn), file, replace=False, files_from=copy)[1] == []
    forget_metadata()
    other = opened(empty_dsn)
    assert told(other, "shop.orders") == {"ours": 2, "flinks": 3}
    assert ConsumerProgress.take(other.catalog, other.lake.open(ORDERS), "ours")[1] == 2
    assert ConsumerProgress.take(other.catalog, other.lake.open(ORDERS), "flinks")[1] == 3


def test_a_consumer_beyond_the_backup_waits_at_its_end(shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    """It told more while files were copied: what comes after the restore has the ids that it has passed."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "fast", 9)
    backup(of(shop.dsn), file, files_to=copy)
    shutil.rmtree(tmp_path / "warehouse")
    assert restore(of(empty_dsn), file, replace=False, files_from=copy)[1] == []
    assert told(opened(empty_dsn), "shop.orders") == {"fast": 3}


def test_consumers_come_back_with_a_single_table(shop: Server, of: Of, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "ours", 2)
    backup(of(shop.dsn), file, files_to=copy)
    restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("shop", "beside"))
    assert told(shop, "shop.beside") == {"ours": 2}
    shop.run("DROP TABLE shop.orders PURGE")
    restore_parts(of(shop.dsn), file, tables=[ORDERS], files_from=copy)
    assert told(shop, "shop.orders") == {"ours": 2}
    assert ConsumerProgress.take(shop.catalog, shop.lake.open(ORDERS), "ours")[1] == 2


def test_a_dropped_table_is_in_the_copy(shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    orders = shop.history("shop.orders")
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("CREATE DATABASE gone", "CREATE TABLE gone.t (id INT)", "INSERT INTO gone.t VALUES (5)")
    shop.run("DROP TABLE shop.orders", "DROP DATABASE gone CASCADE")
    assert backup(of(shop.dsn), file, files_to=copy, verify=True)[1] == []
    shutil.rmtree(tmp_path / "warehouse")
    assert restore(of(empty_dsn), file, replace=False, files_from=copy)[1] == []
    forget_metadata()
    other = opened(empty_dsn)
    other.run("UNDROP TABLE shop.orders", "UNDROP DATABASE gone")
    assert other.history("shop.orders") == orders
    assert other.rows("SELECT * FROM gone.t") == [(5,)]
    assert other.rows("CALL sys.check_table('shop.orders', deep => true)") == []


def test_a_dropped_table_without_files_is_told(shop: Server, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("DROP TABLE shop.queue")
    backup(of(shop.dsn), file := tmp_path / "b")
    shutil.rmtree(tmp_path / "warehouse/shop.db/queue")
    (difference,) = restore(of(empty_dsn), file, replace=False)[1]
    assert (difference.table, difference.statement) == ("shop.queue", "")
    assert "would bring back what cannot be read" in difference.what


def test_rows_that_deletion_vectors_hide_stay_hidden(shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    shop.run("CREATE TABLE t (id INT, v STRING) WITH ('bucket' = '-1')", "INSERT INTO t VALUES (0, 'a'), (1, 'b'), (2, 'c'), (3, 'd')")
    delete(shop.gateway, 1, 2)
    assert backup(of(shop.dsn), file, files_to=copy, verify=True)[1] == []
    shutil.rmtree(tmp_path / "warehouse")
    assert restore(of(empty_dsn), file, replace=False, files_from=copy, verify=True)[1] == []
    forget_metadata()
    assert opened(empty_dsn).rows("SELECT * FROM t") == [(0, "a"), (3, "d")]


def test_an_index_that_leaves_out_rows_is_no_fault_of_a_copy(shop: Server, of: Of, tmp_path: Path) -> None:
    """Whoever deletes the data file, as a backup said, gets the same one again; and a restore under another name was refused."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    options = "'bucket' = '-1', 'file-index.bitmap.columns' = 'word', 'file-index.in-manifest-threshold' = '0 b'"
    shop.run(f"CREATE TABLE t (id INT, word STRING) WITH ({options})", "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    index_of_other_rows(shop.lake.open(Identifier("default", "t")), word=["one", "three"])
    assert len(shop.rows("CALL sys.check_table('t', deep => true)")) == 1
    assert backup(of(shop.dsn), file, files_to=copy, verify=True)[1] == []
    restore_parts(of(shop.dsn), file, tables=[Identifier("default", "t")], to=Identifier("shop", "u"), files_from=copy, verify=True)
    assert shop.rows("SELECT * FROM shop.u") == [(1, "one"), (2, "two")]


@pytest.fixture
def migrated(shop: Server, tmp_path: Path) -> Path:
    """Where files of `shop.m` lie besides its own directory."""
    place = tmp_path / "imports/hive"
    for day in ("1", "2"):
        (place / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(day)]}), place / f"day={day}" / "a.parquet")
    shop.run(f"CALL sys.migrate_table(source_type => 'hive', table => '{place}', target_table => 'shop.m')")
    shop.run("INSERT INTO shop.m VALUES (3, 1)")
    return place


def test_a_check_finds_files_elsewhere_also_of_a_table_that_does_not_say_where(shop: Server, migrated: Path, of: Of) -> None:
    """One of before that was recorded: then they lie below the import directories."""
    with shop.catalog.transaction() as tx:
        tx.tables._conn.execute("UPDATE sluice_table SET allowed_locations = NULL")
    assert not list(check_warehouse(of(shop.dsn), deep=True, threads=1, told=print))


def test_files_that_lie_elsewhere_go_back_there(shop: Server, migrated: Path, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    before = shop.rows("SELECT * FROM shop.m")
    assert len(before) == 3
    assert backup(of(shop.dsn), file, files_to=copy, verify=True)[1] == []
    assert "were there already" in backup(of(shop.dsn), tmp_path / "b2", files_to=copy, verify=True)[0]
    shutil.rmtree(tmp_path / "warehouse")
    shutil.rmtree(tmp_path / "imports")
    assert restore(of(empty_dsn), file, replace=False, files_from=copy, verify=True)[1] == []
    forget_metadata()
    other = opened(empty_dsn)
    assert other.rows("SELECT * FROM shop.m") == before
    assert len(list(migrated.rglob("*.parquet"))) == 2
    assert other.rows("CALL sys.check_table('shop.m', deep => true)") == []


def test_nothing_is_written_outside_the_import_directories(shop: Server, migrated: Path, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    shutil.rmtree(tmp_path / "warehouse")
    shutil.rmtree(tmp_path / "imports")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "imports").mkdir()
    (tmp_path / "imports/hive").symlink_to(tmp_path / "elsewhere")
    (difference,) = restore(of(empty_dsn), file, replace=False, files_from=copy)[1]
    assert difference.table == "shop.m"
    assert "2 files outside its directory" in difference.what
    assert "SLUICE_IMPORT_DIRS" in difference.what
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("single", [False, True])
def test_an_import_directory_that_takes_no_file_stops_no_restore(
    shop: Server, migrated: Path, of: Of, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, single: bool
) -> None:
    """Imports are usually mounted read-only: what is gone there is told, and all else comes back."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    next(migrated.rglob("*.parquet")).unlink()
    delete_file = LocalFileIO.delete

    def refused(io: LocalFileIO, path: str) -> None:
        with translating(path):
            if path.startswith(str(tmp_path / "imports")):
                raise OSError(error, os.strerror(error), path)
        delete_file(io, path)

    monkeypatch.setattr(LocalFileIO, "delete", refused)
    if single:
        shop.run("DROP TABLE shop.m PURGE")
        differences = restore_parts(of(shop.dsn), file, tables=[Identifier("shop", "m")], files_from=copy)[1]
    else:
        shutil.rmtree(tmp_path / "warehouse")
        differences = restore(of(empty_dsn), file, replace=False, files_from=copy)[1]
    (difference,) = differences
    assert difference.table == "shop.m"
    assert re.search(rf"1 files outside its directory \(.*\) were not put back: .*{os.strerror(error)}", difference.what)
    assert len(list(migrated.rglob("*.parquet"))) == 1
    assert (tmp_path / "warehouse/shop.db/queue").is_dir()


def test_a_full_import_directory_stops_a_restore(
    shop: Server, migrated: Path, of: Of, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a repeat helps, once there is space."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    next(migrated.rglob("*.parquet")).unlink()

    def full(io: LocalFileIO, path: str) -> None:
        with translating(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(LocalFileIO, "delete", full)
    with pytest.raises(StorageFull, match="Repeat the command"):
        restore(of(empty_dsn), file, replace=False, files_from=copy)


def test_a_file_that_is_there_is_not_replaced(shop: Server, migrated: Path, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    shutil.rmtree(tmp_path / "warehouse")
    theirs = next(migrated.rglob("*.parquet"))
    theirs.write_bytes(b"another's")
    (difference,) = restore(of(empty_dsn), file, replace=False, files_from=copy)[1]
    assert (difference.table, theirs.name in difference.what) == ("shop.m", True)
    assert theirs.read_bytes() == b"another's"


def test_a_table_of_files_elsewhere_comes_back_under_its_name_only(shop: Server, migrated: Path, of: Of, tmp_path: Path) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    table = Identifier("shop", "m")
    with pytest.raises(IllegalMove, match="full path"):
        restore_parts(of(shop.dsn), file, tables=[table], to=Identifier("shop", "m2"), files_from=copy)
    before = shop.rows("SELECT * FROM shop.m")
    shop.run("DROP TABLE shop.m PURGE")
    restore_parts(of(shop.dsn), file, tables=[table], files_from=copy)
    forget_metadata()
    assert shop.rows("SELECT * FROM shop.m") == before
    shop.run("DROP TABLE shop.m PURGE", "CREATE TABLE shop.other (id BIGINT, day INT) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    shop.run(f"CALL sys.migrate_file(source_table => '{migrated}', target_table => 'shop.other')")
    with pytest.raises(IllegalMove, match=r"shop\.m.*another table's"):
        restore_parts(of(shop.dsn), file, tables=[table], files_from=copy)


@pytest.mark.parametrize("cut_off", [KeyboardInterrupt, StorageFull])
def test_a_backup_that_is_cut_off_leaves_the_one_before(
    shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_off: type[BaseException]
) -> None:
    """It lay under the name from the beginning, so that no backup was left whose files the copy has all of."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    kept, before = file.read_bytes(), shop.history("shop.orders")
    shop.run("INSERT INTO shop.orders VALUES (5, 'x')")

    def ended(*_: Any, **__: Any) -> Any:
        raise cut_off("while files are copied")

    with monkeypatch.context() as patch:
        patch.setattr(server.commands.backup, "copy_to", ended)
        with pytest.raises(cut_off):
            backup(of(shop.dsn), file, files_to=copy)
    assert file.read_bytes() == kept
    assert [path.name for path in (*tmp_path.glob("b*"), *tmp_path.glob(".b*"))] == ["b"]
    shutil.rmtree(tmp_path / "warehouse")
    assert restore(of(empty_dsn), file, replace=False, files_from=copy)[1] == []
    forget_metadata()
    assert opened(empty_dsn).history("shop.orders") == before


def test_a_copy_that_does_not_say_it_has_all_is_told(shop: Server, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    """As of a backup that an earlier version was killed in, or of another copy."""
    copy, file = tmp_path / "copy", tmp_path / "b"
    backup(of(shop.dsn), file, files_to=str(copy))
    shutil.rmtree(copy / "_backups")
    lines = [f"{one.table}: {one.what}" for one in restore(of(empty_dsn), file, replace=False, files_from=str(copy))[1]]
    assert any(line.startswith("the backup: was cut off while its files were copied") for line in lines)


def test_what_to_do_is_told_of_a_table_outside_the_warehouse(shop: Server, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    """The backup said that its files were not copied, and the restore nothing: it was a table without files."""
    copy, file, place = str(tmp_path / "copy"), tmp_path / "b", tmp_path / "elsewhere" / "orders"
    place.parent.mkdir()
    shutil.move(tmp_path / "warehouse/shop.db/orders", place)
    with shop.catalog.transaction() as tx:
        tx.tables._conn.execute("UPDATE table_entry SET location = %s WHERE name = 'orders'", (str(place),))
    (said,) = [one for one in backup(of(shop.dsn), file, files_to=copy)[1] if one.table == "shop.orders"]
    assert "Copy that directory by other means" in said.what
    with pytest.raises(IllegalMove, match="restore the table without --files-from"):
        restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("shop", "beside"), files_from=copy)
    kept = shutil.move(place, tmp_path / "kept")
    said_by_restore = [one.what for one in restore(of(empty_dsn), file, replace=False, files_from=copy)[1] if one.table == "shop.orders"]
    assert any("Put that directory back there by other means" in what for what in said_by_restore), said_by_restore
    shutil.move(kept, place)
    again = [one.what for one in restore(of(empty_dsn), file, replace=True, files_from=copy)[1] if one.table == "shop.orders"]
    assert not any("Put that directory back" in what for what in again)


def in_a_circle(path: Path) -> None:
    path.symlink_to(path.name)


WRONG: dict[str, Callable[[Path], object]] = {
    "a link in a circle": in_a_circle,
    "a link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a directory": Path.mkdir,
    "nothing": lambda _: None,
}
"""What may lie in the place of a file that is gone."""
KINDS = (
    "schema/schema-0", "snapshot/snapshot-1", "tag/tag-kept", "branch/branch-b/snapshot/snapshot-1", "branch/branch-b/schema/schema-0",
    "manifest/manifest-list-*", "manifest/manifest-[0-9a-f]*", "consumer/consumer-c", "*/*/data-*",
)  # fmt: skip


@pytest.mark.parametrize(("kind", "wrong"), diagonal(KINDS, WRONG))
def test_one_file_that_cannot_be_copied_keeps_no_other_out_of_the_copy(shop: Server, of: Of, tmp_path: Path, kind: str, wrong: str) -> None:
    """A directory of which one entry could not be looked at left the whole table out, and its rows were lost with the warehouse."""
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "c", 1)
    table = tmp_path / "warehouse/shop.db/orders"
    backup(of(shop.dsn), tmp_path / "whole", files_to=str(tmp_path / "before"))
    lost = min(table.glob(kind))
    name = str(lost.relative_to(table))
    lost.unlink()
    WRONG[wrong](lost)
    _, said = backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "copy"))
    copies = [
        {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "before/shop.db/orders", tmp_path / "copy/shop.db/orders")
    ]
    left_out = copies[0] - copies[1] - {name}
    if kind.startswith("manifest/"):  # what nothing else names is not known any more
        lists = {path for path in copies[0] if "/manifest-list-" in path}
        left_out = {path for path in left_out if not path.startswith(("day=", "manifest/")) or path in lists}
    assert left_out == set()
    told = [one.what for one in said if lost.name in one.what]
    assert len(told) <= 1, told
    assert told or not name.startswith(("manifest", "day=")), said


def test_a_directory_that_cannot_be_listed_keeps_no_other_out_of_the_copy(
    shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reset_consumer(shop.catalog, shop.lake.open(ORDERS), "c", 1)
    backup(of(shop.dsn), tmp_path / "whole", files_to=str(tmp_path / "before"))
    before = {str(path.relative_to(tmp_path / "before")) for path in (tmp_path / "before/shop.db/orders").rglob("*") if path.is_file()}
    listed = LocalFileIO.list
    for name in ("tag", "snapshot", "schema", "consumer"):

        def denied(io: LocalFileIO, path: str, name: str = name) -> object:
            with translating(path):
                if path == str(tmp_path / "warehouse/shop.db/orders" / name):
                    raise PermissionError(errno.EACCES, "Permission denied", path)
            return listed(io, path)

        monkeypatch.setattr(LocalFileIO, "list", denied)
        copy = tmp_path / f"without-{name}"
        _, said = backup(of(shop.dsn), tmp_path / f"b-{name}", files_to=str(copy))
        monkeypatch.undo()
        assert any("all else was" in one.what for one in said), said
        there = {str(path.relative_to(copy)) for path in (copy / "shop.db/orders").rglob("*") if path.is_file()}
        assert {path for path in before - there if f"/orders/{name}/" not in path} == set()


@pytest.mark.parametrize(
    "into", ["warehouse", "warehouse/sub", "warehouse/shop.db", "warehouse/shop.db/orders", "link", "link/sub", "taken"]
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_copy_in_the_warehouse_or_a_tables_files_is_none(shop: Server, of: Of, tmp_path: Path, into: str, scheme: str) -> None:
    """It copied files onto themselves, and said that they were copied."""
    warehouse = tmp_path / "warehouse"
    (tmp_path / "link").symlink_to(warehouse)
    backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "taken"))
    shop.lake.import_dirs = (str(tmp_path / "taken"),)
    shop.lake.register_table(Identifier("shop", "taken"), str(tmp_path / "taken/shop.db/queue"))
    shop.run("INSERT INTO shop.taken VALUES (4)")
    roots = (warehouse, tmp_path / "taken")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for root in roots for path in root.rglob("*") if path.is_file()}
    with pytest.raises(IllegalMove, match="another place"):
        backup(of(shop.dsn), tmp_path / "b2", files_to=f"{scheme}{tmp_path / into}")
    assert not (tmp_path / "b2").exists()
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for root in roots for path in root.rglob("*") if path.is_file()} == before


def test_a_copy_may_lie_around_the_warehouse(shop: Server, of: Of, tmp_path: Path) -> None:
    assert backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path))[1] == []
    assert (tmp_path / "shop.db/orders/schema/schema-0").exists()
