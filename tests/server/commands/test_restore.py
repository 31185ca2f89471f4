"""Catalog and files copied together and put back: all into an empty machine, and single tables into a catalog that goes on."""

from __future__ import annotations

import datetime as dt
import shutil
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import server.commands.backup
from catalog.backup.archive_parts import archived_tables
from catalog.backup.holds import BACKUP, holding
from lake.register.copied.copies import copy_to
from lake.rewrite.maintenance import maintain
from model.catalog_errors import BackupRunning
from model.errors import IllegalMove, Unavailable
from model.identifier import Identifier
from server.commands.backup import backup, restore_parts
from server.commands.restore import restore
from tests.lake.register.damage import change, cut, data_files, forget_metadata
from tests.server.commands.conftest import Of, Open, Server
from tests.waiting import eventually

ORDERS = Identifier("shop", "orders")
ASKED = ("shop.orders", "shop.orders$branch_b", "shop.queue")


def test_an_empty_machine_has_every_row_again(shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    before = [shop.history(name) for name in ASKED]
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    assert backup(of(shop.dsn), file, files_to=copy)[1] == []
    shop.run("INSERT INTO shop.orders VALUES (77, 'later')", "DROP TABLE shop.queue")
    told, _ = backup(of(shop.dsn), tmp_path / "b2", files_to=copy)  # a copy may serve several backups
    assert "were there already" in told
    shutil.rmtree(tmp_path / "warehouse")
    told, differences = restore(of(empty_dsn), file, replace=False, files_from=copy)
    assert (differences, "were copied" in told) == ([], True)
    forget_metadata()
    other = opened(empty_dsn)
    assert [other.history(name) for name in ASKED] == before
    for name in ("shop.orders", "shop.orders$branch_b", "shop.queue"):
        assert other.rows(f"CALL sys.check_table('{name}', deep => true)") == []
    assert other.rows("SHOW POLICIES ON shop.orders") == shop.rows("SHOW POLICIES ON shop.orders")
    other.run("INSERT INTO shop.orders VALUES (4, 'ü')", "INSERT INTO shop.queue VALUES (4)")
    assert len(other.rows("SELECT * FROM shop.orders")) == 4


@pytest.mark.parametrize(("harm", "verify"), [(change, True), (change, False), (cut, False)])
def test_a_copy_that_was_damaged_is_told(
    shop: Server, of: Of, empty_dsn: str, tmp_path: Path, harm: Callable[[Path], None], verify: bool
) -> None:
    copy, file = tmp_path / "copy", tmp_path / "b"
    assert backup(of(shop.dsn), file, files_to=str(copy), verify=True)[1] == []
    harmed = data_files(copy / "shop.db/orders")[0]
    harm(harmed)
    shutil.rmtree(tmp_path / "warehouse")
    found = verify or harm is cut
    _, differences = restore(of(empty_dsn), file, replace=False, files_from=str(copy), verify=verify)
    assert [harmed.name in one.what for one in differences] == [True] * found, differences


def test_a_backup_that_verifies_reads_what_was_there_already(shop: Server, of: Of, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert backup(of(shop.dsn), tmp_path / "b", files_to=str(copy))[1] == []
    harmed = data_files(copy / "shop.db/orders")[0]
    change(harmed)
    assert backup(of(shop.dsn), tmp_path / "b2", files_to=str(copy))[1] == []
    _, (difference,) = backup(of(shop.dsn), tmp_path / "b3", files_to=str(copy), verify=True)
    assert (difference.table, harmed.name in difference.what) == ("shop.orders", True)
    assert "delete it there" in difference.what
    harmed.unlink()
    assert backup(of(shop.dsn), tmp_path / "b4", files_to=str(copy), verify=True)[1] == []


def test_what_a_backup_names_stays_while_it_runs(shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that would take files away is refused while files are copied; writes go on, and are not in the copy."""
    shop.run("CREATE TABLE shop.gone (id INT)", "INSERT INTO shop.gone VALUES (1)", "DROP TABLE IF EXISTS shop.none")
    shop.run("ALTER TABLE shop.orders SET ('snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1')")
    refused = []
    copying = copy_to

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        for text in (
            "CALL sys.expire_snapshots(`table` => 'shop.orders', retain_max => 1, retain_min => 1)",
            "CALL sys.delete_tag('shop.orders', 'kept')",
            "CALL sys.rollback_to('shop.orders', 1)",
            "CALL sys.delete_branch('shop.orders', 'b')",
            "CALL sys.fast_forward('shop.orders', 'b')",
            "DROP TABLE shop.gone PURGE",
        ):
            with pytest.raises(BackupRunning, match="the backup, which began at"):
                shop.run(text)
            refused.append(text)
        assert maintain(shop.lake, shop.lake.open(ORDERS)).waits
        shop.run("INSERT INTO shop.orders VALUES (5, 'x')", "CREATE TABLE shop.fresh (id INT)", "DROP TABLE shop.fresh")
        with pytest.raises(IllegalMove, match="Another backup"):
            backup(of(shop.dsn), tmp_path / "second")
        return copying(*arguments, **named)

    monkeypatch.setattr(server.commands.backup, "copy_to", meanwhile)
    monkeypatch.setattr("catalog.backup.holds._WAIT", "200ms")
    assert backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "copy"))[1] == []
    assert len(refused) == 6
    done = maintain(shop.lake, shop.lake.open(ORDERS))
    assert (done.waits, done.snapshots.snapshots != ()) == (False, True)
    shop.run("CALL sys.delete_tag('shop.orders', 'kept')", "DROP TABLE shop.gone PURGE")
    names = {path.name for path in (tmp_path / "copy/shop.db/orders/snapshot").iterdir()}
    assert names == {"snapshot-1", "snapshot-2"}


def test_a_backup_whose_hold_was_lost_is_none(shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copying = copy_to

    def cut(*arguments: Any, **named: Any) -> Any:
        with psycopg.connect(shop.dsn, autocommit=True) as conn:
            holds = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
            conn.execute(f"SELECT pg_terminate_backend(pid) {holds}", (BACKUP,))
            assert eventually(lambda: conn.execute(f"SELECT pid {holds}", (BACKUP,)).fetchall() == [], pause=0.01)
        return copying(*arguments, **named)

    backup(of(shop.dsn), tmp_path / "before")
    shutil.copy(tmp_path / "before", tmp_path / "b")
    monkeypatch.setattr(server.commands.backup, "copy_to", cut)
    for name, there in (("b", True), ("other", False)):
        with pytest.raises(Unavailable, match="make another one"):
            backup(of(shop.dsn), tmp_path / name, files_to=str(tmp_path / "copy"))
        assert (tmp_path / name).exists() == there
    assert (tmp_path / "b").read_bytes() == (tmp_path / "before").read_bytes()
    shop.run("CALL sys.delete_tag('shop.orders', 'kept')")


def test_what_is_decided_before_a_hold_is_waited_for(shop: Server) -> None:
    with shop.catalog.transaction() as tx, pytest.MonkeyPatch.context() as patch:
        tx.holds.require_no_backup("This")
        patch.setattr("catalog.backup.holds._WAIT", "100ms")
        with pytest.raises(IllegalMove, match="Another backup"):
            holding(shop.dsn).__enter__()
    with holding(shop.dsn) as check:
        check()


def test_all_that_lets_somebody_do_more_again_is_told(shop: Server, opened: Open, of: Of, tmp_path: Path) -> None:
    """A backup knows nothing of what was taken back, or hidden, since; each line has the statement that mends it."""
    now = dt.datetime.now(dt.UTC)

    def token(name: str, *, seconds: int | None = None) -> None:
        until = None if seconds is None else now + timedelta(seconds=seconds)
        with shop.catalog.transaction() as tx:
            tx.tokens.create(name, principal="ada", administrator=False, digest=name.encode(), expires_at=until)

    for name in ("kept", "revoked", "anew"):
        token(name)
    token("over", seconds=-60)
    shop.run(
        "CREATE ROLE writer", "GRANT ROLE reader TO ada", "GRANT ROLE writer TO ada", "GRANT ROLE writer TO bob",
        "GRANT SELECT (id, day) ON shop.orders TO cy", "GRANT SELECT (id) ON shop.queue TO cy", "GRANT UPDATE ON shop.queue TO cy",
        "CREATE POLICY same ON shop.queue USING (id < 10)", "CREATE POLICY less ON shop.queue TO ada USING (id < 10)",
    )  # fmt: skip
    backup(of(shop.dsn), file := tmp_path / "b")
    rights = [shop.rows(text) for text in ("SHOW GRANTS", "SHOW POLICIES ON shop.queue", "SHOW POLICIES ON shop.orders")]
    with shop.catalog.transaction() as tx:
        for name in ("revoked", "anew", "over"):
            tx.tokens.drop(name)
    token("anew")
    soon = (now + timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S")
    shop.run(
        "REVOKE ROLE writer FROM ada", "REVOKE SELECT (id) ON shop.orders FROM cy", "GRANT SELECT (id) ON shop.orders TO cy",
        "REVOKE UPDATE ON shop.queue FROM cy", "CREATE MASKING POLICY hide ON shop.orders (day) TO cy USING ('-')",
        "DROP POLICY less ON shop.queue", "CREATE POLICY less ON shop.queue TO ada, bob USING (id < 2)",
        "REVOKE SELECT (id) ON shop.queue FROM cy", f"GRANT SELECT (id) ON shop.queue TO cy UNTIL '{soon}'",
    )  # fmt: skip
    wanted = [shop.rows(text) for text in ("SHOW POLICIES ON shop.queue", "SHOW POLICIES ON shop.orders")]
    shop.close()
    _, differences = restore(of(shop.dsn), file, replace=True)
    told = {one.statement: one.what for one in differences}
    assert {statement for statement in told if statement.startswith("sluice")} == {
        "sluice token revoke anew",
        "sluice token revoke revoked",
    }
    assert {statement.split(" ON ")[0] for statement in told if statement.startswith("REVOKE")} == {
        "REVOKE ROLE `writer` FROM `ada`", "REVOKE SELECT (`id`)", "REVOKE SELECT (`id`, `day`)", "REVOKE UPDATE",
    }  # fmt: skip
    columns = told["REVOKE SELECT (`id`, `day`) ON TABLE `shop`.`orders` FROM `cy`"]
    without_end = told["REVOKE SELECT (`id`) ON TABLE `shop`.`queue` FROM `cy`"]
    assert "the columns id, day again" in columns
    assert "without an end again" in without_end
    policies = [statement for statement in told if "POLICY" in statement]
    assert sorted(statement.split(" ON ")[0] for statement in policies) == ["CREATE MASKING POLICY `hide`", "DROP POLICY `less`"]
    after = opened(shop.dsn)
    assert [after.rows(text) for text in ("SHOW GRANTS", "SHOW POLICIES ON shop.queue", "SHOW POLICIES ON shop.orders")] == rights
    after.run(*policies)
    assert [after.rows(text) for text in ("SHOW POLICIES ON shop.queue", "SHOW POLICIES ON shop.orders")] == wanted
    after.run(*(statement for statement in told if statement.startswith("REVOKE")))


def test_an_archive_is_unpacked_as_often_for_many_tables_as_for_one(
    shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(of(shop.dsn), file := tmp_path / "b")
    read: list[str] = []
    reading = tarfile.TarFile.extractfile

    def noted(tar: tarfile.TarFile, member: str) -> Any:
        read.append(member)
        return reading(tar, member)

    monkeypatch.setattr(tarfile.TarFile, "extractfile", noted)
    assert len(archived_tables(file, dropped=True)) == 2
    assert len(read) == len(set(read))


def test_one_table_comes_back_alone(shop: Server, of: Of, tmp_path: Path) -> None:
    """With its tag, branch, grant and policy; nothing else of the catalog goes back in time."""
    before = [shop.history(name) for name in ASKED]
    policies, grants = shop.rows("SHOW POLICIES ON shop.orders"), shop.rows("SHOW GRANTS ON shop.orders")
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    shop.run("DROP TABLE shop.orders PURGE", "INSERT INTO shop.queue VALUES (4)")
    assert not (tmp_path / "warehouse/shop.db/orders").exists()
    told, differences = restore_parts(of(shop.dsn), file, tables=[ORDERS], files_from=copy)
    assert "shop.orders is as of" in told
    assert [(one.statement, "may SELECT again" in one.what) for one in differences] == [
        ("REVOKE SELECT ON TABLE `shop`.`orders` FROM `reader`", True)
    ]
    forget_metadata()
    assert [shop.history(name) for name in ASKED[:2]] == before[:2]
    assert shop.rows("SHOW POLICIES ON shop.orders") == policies
    assert shop.rows("SHOW GRANTS ON shop.orders") == grants
    assert len(shop.rows("SELECT * FROM shop.queue")) == 4
    assert shop.rows("CALL sys.check_table('shop.orders', deep => true)") == []
    shop.run("INSERT INTO shop.orders VALUES (4, 'ü')")
    assert len(shop.rows("SELECT * FROM shop.orders")) == 4


def test_a_table_that_is_there_is_restored_beside_it(shop: Server, of: Of, tmp_path: Path) -> None:
    """From the warehouse's own files where they are there; the two share nothing."""
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("TRUNCATE TABLE shop.orders", "INSERT INTO shop.orders VALUES (8, 'new')")
    with pytest.raises(IllegalMove, match=r"shop\.orders is there: `--table shop\.orders --as NEW`"):
        restore_parts(of(shop.dsn), file, tables=[ORDERS])
    old = Identifier("shop", "orders_old")
    restore_parts(of(shop.dsn), file, tables=[ORDERS], to=old)
    assert shop.rows("SELECT * FROM shop.orders_old") == [(1, "a b"), (2, "ü"), (3, "a b")]
    assert shop.rows("SELECT * FROM shop.orders_old$branch_b") == shop.rows("SELECT * FROM shop.orders$branch_b")
    assert len(shop.rows("SHOW POLICIES ON shop.orders_old")) == 1
    assert shop.rows("SELECT * FROM shop.orders") == [(8, "new")]
    shop.run("DROP TABLE shop.orders PURGE")
    forget_metadata()
    assert shop.rows("CALL sys.check_table('shop.orders_old', deep => true)") == []


def test_a_single_table_is_refused_with_the_reason(shop: Server, of: Of, tmp_path: Path) -> None:
    backup(of(shop.dsn), file := tmp_path / "b")
    with pytest.raises(IllegalMove, match=r"The backup has no table shop\.none"):
        restore_parts(of(shop.dsn), file, tables=[Identifier("shop", "none")])
    shop.run("ALTER TABLE shop.queue RENAME TO queue_2")
    with pytest.raises(IllegalMove, match="is there under another name"):
        restore_parts(of(shop.dsn), file, tables=[Identifier("shop", "queue")])
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("DROP TABLE shop.orders")
    with pytest.raises(IllegalMove, match=r"UNDROP TABLE shop\.orders brings it back"):
        restore_parts(of(shop.dsn), file, tables=[ORDERS])
    (lost, *_) = data_files(tmp_path / "warehouse/shop.db/orders")
    lost.unlink()
    with pytest.raises(IllegalMove, match=rf"Not all files of shop\.orders could be copied; nothing was changed: {lost} is missing"):
        restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("shop", "copy"))
    assert ("copy",) not in shop.rows("SHOW TABLES IN shop")


def test_a_database_comes_back_alone(shop: Server, of: Of, tmp_path: Path) -> None:
    shop.run("GRANT DESCRIBE ON DATABASE shop TO ROLE reader", "CREATE TABLE other (id INT)")
    before = [shop.history(name) for name in ASKED]
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    shop.run("DROP DATABASE shop CASCADE", "INSERT INTO other VALUES (1)")
    told, differences = restore_parts(of(shop.dsn), file, databases=["shop"], files_from=copy)
    assert "shop.orders, shop.queue are as of" in told
    assert {one.statement for one in differences} >= {"REVOKE SELECT ON TABLE `shop`.`orders` FROM `reader`"}
    forget_metadata()
    assert [shop.history(name) for name in ASKED] == before
    assert len(shop.rows("SHOW GRANTS ON DATABASE shop")) == 1
    assert shop.rows("SELECT * FROM other") == [(1,)]
    with pytest.raises(IllegalMove, match="is there"):
        restore_parts(of(shop.dsn), file, databases=["shop"], files_from=copy)


def test_what_a_restored_catalog_calls_dropped_is_kept_anew(shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    """It may have been brought back since the backup, by an earlier version whose UNDROP leaves no file that tells."""
    shop.run("ALTER TABLE shop.queue SET ('drop.retention' = '1 h')", "DROP TABLE shop.queue")
    with psycopg.connect(shop.dsn) as conn:
        conn.execute("UPDATE drop_record SET dropped_at = dropped_at - interval '9 h', expires_at = expires_at - interval '9 h'")
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("UNDROP TABLE shop.queue")
    (told,) = tmp_path.rglob("_undropped")
    told.unlink()
    assert restore(of(empty_dsn), file, replace=False)[1] == []
    other = opened(empty_dsn)
    assert other.lake.sweep_drops() == 0
    other.run("UNDROP TABLE shop.queue")
    assert other.rows("SELECT * FROM shop.queue") == [(1,), (2,), (3,)]


def test_a_table_that_was_brought_back_and_used_since_the_backup_is_named(
    shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path
) -> None:
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("DROP TABLE shop.queue")
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("UNDROP TABLE shop.queue", "INSERT INTO shop.queue VALUES (4)")
    (difference,) = restore(of(empty_dsn), file, replace=False)[1]
    assert (difference.table, difference.known) == ("shop.queue", True)
    assert "CALL sys.repair_table('shop.queue') then brings both together" in difference.what
    other = opened(empty_dsn)
    other.run(difference.statement, "CALL sys.repair_table('shop.queue')")
    assert other.rows("SELECT * FROM shop.queue") == [(1,), (2,), (3,), (4,)]


def test_a_table_made_since_where_another_was_being_removed_is_named_and_stays(
    shop: Server, opened: Open, of: Of, empty_dsn: str, tmp_path: Path
) -> None:
    """Within what clocks may differ, too: whatever lies in such a directory is nobody's to remove after a restore."""
    location = f"{tmp_path}/warehouse/shop.db/queue"
    shop.run("DROP TABLE shop.queue PURGE")
    with psycopg.connect(shop.dsn) as conn:  # as where the removal failed
        conn.execute("INSERT INTO dropped_directory (location) VALUES (%s)", (location,))
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("CREATE TABLE shop.queue (id INT)", "INSERT INTO shop.queue VALUES (11)")
    (difference,) = restore(of(empty_dsn), file, replace=False)[1]
    assert difference.statement == f"CALL sys.register_table('shop.queue', '{location}')"
    assert "a dropped one was being removed there when the backup was made" in difference.what
    other = opened(empty_dsn)
    other.lake.recover()
    other.run(difference.statement)
    assert other.rows("SELECT * FROM shop.queue") == [(11,)]
