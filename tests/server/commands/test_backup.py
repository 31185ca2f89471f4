"""The catalog into a file and back: nothing lost, nothing overwritten unasked, and what the warehouse then has more or less of."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient

from catalog import CatalogStore
from catalog.backup.archive import contents, read_head, write_archive
from lake import Lake
from lake.register.copied.copies import copy_to
from lake.register.copied.done import WarehouseCopy
from migrations import downgrade, newest, upgrade
from model.access import Access, table_resource
from model.errors import IllegalMove, InvalidData
from model.identifier import Identifier
from server.commands.backup import backup
from server.commands.backup_file import being_made
from server.commands.check import check_warehouse
from server.commands.restore import restore
from server.settings.options import CATALOG_DSN
from server.settings.settings import Settings, read_settings
from tests.bare import without_rights
from tests.fix_server import StartServer
from tests.lake.register.damage import data_files

SLUICE = str(Path(sys.executable).parent / "sluice")
T = Identifier("default", "t")
For = Callable[[str], Settings]


@pytest.fixture
def of(tmp_path: Path) -> For:
    """Settings for a catalog, on the warehouse of the test's gateway."""
    base = {"SLUICE_DATA": str(tmp_path / "none"), "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    return lambda dsn: read_settings(base | {"SLUICE_CATALOG_DSN": dsn})


def sql(client: FlaskClient, *texts: str) -> None:
    for text in texts:
        with client.post("/sql", data=text) as answer:
            assert answer.status_code == 200, answer.get_data(as_text=True)


def test_what_comes_back_is_what_was_there(client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    sql(client, "CREATE TABLE t (id INT, s STRING) PARTITIONED BY (s)", "INSERT INTO t VALUES (1, 'a b'), (2, 'ü')")
    sql(client, "CALL sys.create_tag('t', 'kept')", "CREATE ROLE r")
    file = tmp_path / "catalog.backup"
    told, troubles = backup(of(dsn), file)
    assert ("rows of" in told, troubles) == (True, [])
    assert file.stat().st_mode & 0o777 == 0o600
    done, differences = restore(of(empty_dsn), file, replace=False)
    assert "are the catalog now" in done
    assert differences == []
    before, after = read_head(file), write_archive(empty_dsn, tmp_path / "again", warehouse="")
    volatile = {"audit_log", "stream_job"}
    assert [t for t in after.tables if t.name not in volatile] == [t for t in before.tables if t.name not in volatile]
    catalog = CatalogStore(empty_dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    assert lake.open(T).latest() is not None
    lake.close()
    catalog.close()


def test_what_came_after_the_backup_is_found_and_mended(client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "CREATE TABLE gone (id INT)", "INSERT INTO gone VALUES (1)")
    backup(of(dsn), tmp_path / "b")
    sql(client, "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "CREATE TABLE `o'neil` (id INT)", "DROP TABLE gone")
    _, differences = restore(of(empty_dsn), tmp_path / "b", replace=False)
    found = {one.table: (one.what, one.statement) for one in differences}
    assert set(found) == {"default.t", "default.o'neil", "default.gone"}
    assert "snapshots 2 to 3 are in the warehouse and newer than the catalog's 1" in found["default.t"][0]
    assert found["default.t"][1] == "CALL sys.repair_table('default.t')"
    assert found["default.o'neil"][1] == f"CALL sys.register_table('default.o''neil', '{tmp_path}/warehouse/default.db/o''neil')"
    assert "which the warehouse lacks" in found["default.gone"][0]
    assert found["default.gone"][1] == ""
    catalog = CatalogStore(empty_dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    assert lake.repair_table(T).registered == (2, 3)
    latest = lake.open(T).latest()
    assert latest is not None
    assert latest.total_record_count == 3
    lake.close()
    catalog.close()


def test_a_fresh_catalog_is_empty_and_grants_that_come_back_are_told(
    client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    upgrade(empty_dsn, "head")
    assert contents(empty_dsn) == 0
    assert contents(dsn) == 0
    sql(client, "CREATE TABLE t (id INT)", "CREATE ROLE r", "GRANT SELECT ON t TO ROLE r")
    backup(of(dsn), tmp_path / "b")
    _, differences = restore(of(empty_dsn), tmp_path / "b", replace=False)
    assert differences == []
    assert contents(empty_dsn) > 0
    catalog = CatalogStore(empty_dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    with catalog.transaction() as tx:
        tx.grants.remove(table_resource(T), Access.SELECT, "r", table_id=lake.open(T).table_id)
    lake.close()
    catalog.close()
    _, differences = restore(of(empty_dsn), tmp_path / "b", replace=True)
    assert [one.statement for one in differences] == ["REVOKE SELECT ON TABLE `default`.`t` FROM `r`"]


def test_a_catalog_in_use_or_not_empty_is_left_alone(
    client: FlaskClient, of: For, dsn: str, template: str, empty_dsn: str, tmp_path: Path
) -> None:
    sql(client, "CREATE TABLE t (id INT)")
    backup(of(dsn), tmp_path / "b")
    with pytest.raises(IllegalMove, match="stop them first"):
        restore(of(dsn), tmp_path / "b", replace=True)
    restore(of(empty_dsn), tmp_path / "b", replace=False)
    held = contents(empty_dsn)
    with pytest.raises(IllegalMove, match="--replace"):
        restore(of(empty_dsn), tmp_path / "b", replace=False)
    damaged = tmp_path / "damaged"
    damaged.write_bytes((tmp_path / "b").read_bytes()[:-200])
    for wrong in (damaged, Path(__file__)):
        with pytest.raises(InvalidData, match="is no backup of a catalog, or is damaged"):
            restore(of(empty_dsn), wrong, replace=True)
        assert contents(empty_dsn) == held
    restore(of(empty_dsn), tmp_path / "b", replace=True)
    assert contents(empty_dsn) == held


def test_a_backup_of_an_older_schema_is_brought_up_to_date(of: For, empty_dsn: str, dsn: str, tmp_path: Path) -> None:
    upgrade(empty_dsn, "0007")
    assert write_archive(empty_dsn, tmp_path / "old", warehouse="").revision == "0007"
    restore(of(dsn), tmp_path / "old", replace=True)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT version_num FROM alembic_version").fetchone() == (newest(),)
        assert conn.execute("SELECT name FROM sluice_database").fetchall() == [("default",)]
    downgrade(dsn, "base")
    with pytest.raises(IllegalMove, match="no catalog"):
        write_archive(of(dsn)[CATALOG_DSN] or "", tmp_path / "none", warehouse="")


def schemas(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as conn:
        return {
            name for (name,) in conn.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'")
        }


def test_a_damaged_backup_of_an_older_schema_takes_nothing_away(
    client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    """The catalog's schema was taken back to the backup's first, with the loss of all that came later, such as grants."""
    sql(client, "CREATE TABLE t (id INT)", "CREATE ROLE r", "GRANT SELECT ON t TO ROLE r")
    backup(of(dsn), tmp_path / "b")
    upgrade(empty_dsn, "0003")
    write_archive(empty_dsn, tmp_path / "old", warehouse="")
    restore(of(empty_dsn), tmp_path / "b", replace=False)
    held, there = contents(empty_dsn), schemas(empty_dsn)
    with tarfile.open(tmp_path / "old") as tar, tarfile.open(tmp_path / "damaged", "w:gz") as damaged:
        for member in tar:
            data = bytearray(tar.extractfile(member).read())  # type: ignore[union-attr]
            if "sluice_database" in member.name:
                data[0] ^= 1
            damaged.addfile(member, io.BytesIO(data))
    with pytest.raises(InvalidData, match="damaged"):
        restore(of(empty_dsn), tmp_path / "damaged", replace=True)
    assert (contents(empty_dsn), schemas(empty_dsn)) == (held, there)
    restore(of(empty_dsn), tmp_path / "old", replace=True)
    assert contents(empty_dsn) < held
    assert schemas(empty_dsn) == there


def test_a_catalog_of_a_newer_schema_is_replaced_and_stands_aside(
    client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    """The way back after an upgrade: the version before restores its backup over the catalog that the newer one changed."""
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    backup(of(dsn), tmp_path / "b")
    restore(of(empty_dsn), tmp_path / "b", replace=False)
    held, there = contents(empty_dsn), schemas(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
        conn.execute("CREATE TABLE of_a_newer_version (id INT)")
        conn.execute("COMMENT ON TABLE of_a_newer_version IS 'Sluice: part of its catalog'")  # as `migrations` does
    _, differences = restore(of(empty_dsn), tmp_path / "b", replace=True)
    assert contents(empty_dsn) == held
    (name,) = schemas(empty_dsn) - there
    assert [name in one.what for one in differences] == [True]
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute(f"SELECT version_num FROM {name}.alembic_version").fetchone() == ("9999",)
        assert conn.execute("SELECT to_regclass('of_a_newer_version')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("revision", "way_out"), [("9999", "install the version that made it, or newer"), ("0019", "run `sluice migrate`")]
)
def test_a_check_of_another_versions_catalog_names_the_way_out(of: For, dsn: str, revision: str, way_out: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = %s", [revision])
    with pytest.raises(IllegalMove, match=way_out):
        list(check_warehouse(of(dsn), deep=False, threads=1, told=print))


def test_a_second_backup_to_the_same_file_leaves_the_one_that_runs(
    client: FlaskClient, of: For, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused one removed what the other was writing, which failed for it at its end, after hours of copying."""
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    file, copy = tmp_path / "b", str(tmp_path / "copy")

    def copied_late(*arguments: Any, **options: Any) -> WarehouseCopy:
        with pytest.raises(IllegalMove, match="Another backup of this catalog runs"):
            backup(of(dsn), file, files_to=copy)
        return copy_to(*arguments, **options)

    monkeypatch.setattr("catalog.backup.holds._WAIT", "100ms")
    monkeypatch.setattr("server.commands.backup.copy_to", copied_late)
    assert backup(of(dsn), file, files_to=copy)[1] == []
    assert read_head(file).tables
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".making")] == []


def test_a_second_catalogs_backup_to_the_same_file_is_refused(
    client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote over what the first was making, and both ended with one catalog's rows or none."""
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    upgrade(empty_dsn)
    file, copy = tmp_path / "b", str(tmp_path / "copy")

    def copied_late(*arguments: Any, **options: Any) -> WarehouseCopy:
        with pytest.raises(IllegalMove, match="Another backup, of another catalog, is being written to"):
            backup(of(empty_dsn), file)
        assert backup(of(empty_dsn), tmp_path / "other")[1] == []
        return copy_to(*arguments, **options)

    monkeypatch.setattr("server.commands.backup.copy_to", copied_late)
    assert backup(of(dsn), file, files_to=copy)[1] == []
    assert {table.name: table.rows for table in read_head(file).tables}["table_schema"] == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    monkeypatch.undo()
    backup(of(empty_dsn), file)
    assert {table.name: table.rows for table in read_head(file).tables}["table_schema"] == 0


@pytest.mark.parametrize("left", [False, True], ids=["directory", "lock"])
def test_a_backup_without_rights_names_what_it_may_not_write(tmp_path: Path, left: bool) -> None:
    """It told of another backup, and nobody found one; a lock without rights is what a killed backup of another user left."""
    lock = tmp_path / ".b.lock"
    if left:
        lock.touch()
    with without_rights(lock if left else tmp_path), pytest.raises(PermissionError) as refused, being_made(tmp_path / "b"):
        pass
    assert refused.value.filename == str(lock)


def test_a_backup_goes_by_a_name_of_its_own_where_nothing_keeps_locks(
    client: FlaskClient, of: For, dsn: str, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some network file systems; what a killed one left there is in nobody's way."""
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    upgrade(empty_dsn)
    file = tmp_path / "b"
    (tmp_path / ".b.making").write_bytes(b"half")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def copied_late(*arguments: Any, **options: Any) -> WarehouseCopy:
        assert backup(of(empty_dsn), file)[1] == []
        return copy_to(*arguments, **options)

    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr("server.commands.backup.copy_to", copied_late)
    assert backup(of(dsn), file, files_to=str(tmp_path / "copy"))[1] == []
    assert {table.name: table.rows for table in read_head(file).tables}["table_schema"] == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".making")] == [".b.making"]


@pytest.mark.slow
def test_the_command_beside_a_running_server(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")

    def run(*arguments: str, data: Path = server.data) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        environment |= {"SLUICE_DATA": str(data), "SLUICE_WAREHOUSE": str(server.data / "warehouse")}
        return subprocess.run([SLUICE, *arguments], env=environment, capture_output=True, text=True)

    file = str(tmp_path / "b")
    assert (run("backup", file).returncode, Path(file).exists()) == (0, True)
    fresh = run("restore", file, data=tmp_path / "fresh")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert "are the catalog now" in fresh.stdout
    assert run("check", "--deep").returncode == 0
    (data_file,) = data_files(server.data / "warehouse/default.db/t")
    kept = data_file.read_bytes()
    data_file.unlink()
    found = run("check")
    assert (found.returncode, found.stdout) == (1, f"default.t: {data_file} is missing\n")
    data_file.write_bytes(kept)
    server.sql("INSERT INTO t VALUES (2)")
    refused = run("restore", file, "--replace")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "stop it first" in refused.stderr
    assert server.terminate() == 0
    assert "--replace" in run("restore", file).stderr
    done = run("restore", file, "--replace")
    assert done.returncode == 3, done.stderr
    assert "CALL sys.repair_table('default.t');" in done.stdout
    server.start()
    server.sql("CALL sys.repair_table('default.t')")
    assert sorted(server.sql("SELECT id FROM t")) == [[1], [2]]
