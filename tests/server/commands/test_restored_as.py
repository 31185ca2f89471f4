"""A table of a backup under another name (``--table T --as NEW``): it comes whole, or nothing is changed, no file either."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.backup.archive_parts import restore_tables
from lake.tables import drops
from migrations import newest
from model.errors import IllegalMove, InvalidName, LakeError, Unavailable
from model.identifier import Identifier
from model.text.sql_text import quote
from server.commands import backup as commands
from server.commands.backup import backup, restore_parts
from tests.faults.below import each
from tests.faults.failing_io import Faults
from tests.server.commands.conftest import Of, Server
from tests.server.commands.test_restore_faults import ERRORS, ORDERS, failing, struck, troubles

__all__ = ["failing"]

NO_NAMES = ("q$branch_x", "q$snapshots2", "$", " lead", "trail ", "", "a/b", "a\\b", "..", "line\nbreak", "x" * 201)
QUEUE = Identifier("shop", "queue")


def files_of(warehouse: Path) -> set[str]:
    return {str(path.relative_to(warehouse)) for path in warehouse.rglob("*")}


def create(shop: Server, name: Identifier) -> None:
    shop.lake.create_table(name, shop.lake.open(QUEUE).schema)


def rename(shop: Server, name: Identifier) -> None:
    shop.lake.rename_table(QUEUE, name)


def undrop(shop: Server, name: Identifier) -> None:
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("CREATE TABLE shop.gone (id INT)", "DROP TABLE shop.gone")
    try:
        shop.lake.undrop_table(Identifier("shop", "gone"), to=name)
    finally:
        shop.run("UNDROP TABLE shop.gone", "DROP TABLE shop.gone PURGE")


def register(shop: Server, name: Identifier) -> None:
    place = Path(shop.lake.open(QUEUE).location).with_name("registered")
    shutil.copytree(shop.lake.open(QUEUE).location, place)
    try:
        shop.lake.register_table(name, str(place))
    finally:
        shutil.rmtree(place)


NAMED: dict[str, Callable[[Server, Identifier], object]] = {
    "create": create, "rename": rename, "undrop": undrop, "register": register,
}  # fmt: skip
"""Every other way to give a table a name."""


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_restore_gives_no_name_that_a_table_may_not_have(shop: Server, of: Of, tmp_path: Path, name: str) -> None:
    """Such a table was listed, and nobody could read, drop or rename it."""
    target = Identifier("shop", name)
    backup(of(shop.dsn), file := tmp_path / "b", files_to=str(tmp_path / "copy"))
    tables, files = shop.rows("SHOW TABLES IN shop"), files_of(tmp_path / "warehouse")
    for way in NAMED.values():
        with pytest.raises(InvalidName):
            way(shop, target)
    with pytest.raises(InvalidName):
        restore_parts(of(shop.dsn), file, tables=[ORDERS], to=target, files_from=str(tmp_path / "copy"))
    assert shop.rows("SHOW TABLES IN shop") == tables
    assert files_of(tmp_path / "warehouse") == files


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_table_that_has_such_a_name_from_before_gets_another(shop: Server, name: str) -> None:
    """Earlier versions' `--as` gave it: a branch's could not be said."""
    shop.lake.drop_retention = timedelta(days=1)
    rows, named = shop.rows("SELECT * FROM shop.queue"), f"shop.{quote(name)}"
    with shop.catalog.transaction() as tx:
        tx.tables._conn.execute("UPDATE table_entry SET name = %s WHERE name = 'queue'", (name,))
    shop.lake.access.forget()
    assert (name,) in shop.rows("SHOW TABLES IN shop")
    shop.run(f"ALTER TABLE {named} RENAME TO shop.good" if name else f"DROP TABLE {named}")
    if name:
        assert shop.rows("SELECT * FROM shop.good") == rows
    assert (name,) not in shop.rows("SHOW TABLES IN shop")


@pytest.mark.parametrize("name", NO_NAMES)
def test_such_a_table_that_went_with_its_database_is_found_by_its_name(shop: Server, name: str) -> None:
    shop.lake.drop_retention = timedelta(days=1)
    rows, named = shop.rows("SELECT * FROM shop.queue"), f"shop.{quote(name)}"
    with shop.catalog.transaction() as tx:
        tx.tables._conn.execute("UPDATE table_entry SET name = %s WHERE name = 'queue'", (name,))
    shop.run("DROP DATABASE shop CASCADE")
    shop.run("CREATE DATABASE other")
    assert name in [row[2] for row in shop.rows("SHOW DROPPED TABLES")]
    shop.run(f"UNDROP TABLE {named} AS other.good")
    assert shop.rows("SELECT * FROM other.good") == rows
    assert name not in [row[2] for row in shop.rows("SHOW DROPPED TABLES")]


def test_a_branch_is_no_table_of_its_name(shop: Server) -> None:
    with pytest.raises(InvalidName, match="a table is renamed with all its branches"):
        shop.run("ALTER TABLE shop.`orders$branch_b` RENAME TO shop.good")
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("DROP TABLE shop.orders")
    with pytest.raises(InvalidName, match="a dropped table comes back with all its branches"):
        shop.run("UNDROP TABLE shop.`orders$branch_b`")
    with pytest.raises(InvalidName, match="a dropped table is removed with all its branches"):
        shop.run("PURGE TABLE shop.`orders$branch_b`")


@pytest.mark.parametrize(
    ("catalogs", "backups", "way_out"),
    [
        ("9999", "9999", "install the version that made it, or newer"),
        ("0029", "0029", "with the Sluice of its servers or, once these have stopped, run `sluice migrate`"),
        ("0029", newest(), "with the Sluice of its servers or, once these have stopped, run `sluice migrate`"),
        (newest(), "9999", "was written by a newer Sluice"),
        (newest(), "0029", "restore it into an empty SLUICE_DATA, make a backup there"),
    ],
)
def test_where_schemas_differ_the_way_out_is_that_of_what_is_behind(
    shop: Server, of: Of, tmp_path: Path, catalogs: str, backups: str, way_out: str
) -> None:
    """A backup that was made anew as told was refused again, where it was the catalog that an earlier version runs."""

    def becomes(revision: str) -> None:
        with shop.catalog.transaction() as tx:
            tx.tables._conn.execute("UPDATE alembic_version SET version_num = %s", (revision,))

    becomes(backups)
    backup(of(shop.dsn), file := tmp_path / "b")
    becomes(catalogs)
    with pytest.raises(LakeError, match=way_out):
        restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("shop", "beside"))


@pytest.mark.parametrize("database", ["nodb", "sys", "dropped"])
def test_a_database_that_is_nowhere_is_refused_before_files_are_copied(shop: Server, of: Of, tmp_path: Path, database: str) -> None:
    shop.run("CREATE DATABASE dropped")
    shop.lake.drop_retention = timedelta(days=1)
    shop.run("DROP DATABASE dropped")
    backup(of(shop.dsn), file := tmp_path / "b", files_to=str(tmp_path / "copy"))
    shop.run("DROP TABLE shop.queue PURGE")
    files = files_of(tmp_path / "warehouse")
    with pytest.raises(IllegalMove, match=f"has a database {database}; nothing was changed"):
        restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier(database, "q"), files_from=str(tmp_path / "copy"))
    with pytest.raises(IllegalMove, match=f"has a database {database}; nothing was changed"):
        restore_parts(of(shop.dsn), file, tables=[QUEUE], databases=[database], files_from=str(tmp_path / "copy"))
    assert files_of(tmp_path / "warehouse") == files


def test_a_database_of_the_backup_alone_is_made(shop: Server, of: Of, tmp_path: Path) -> None:
    shop.run("CREATE DATABASE empty")
    backup(of(shop.dsn), file := tmp_path / "b", files_to=str(tmp_path / "copy"))
    shop.run("DROP DATABASE empty")
    restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("empty", "o"), files_from=str(tmp_path / "copy"))
    assert shop.rows("SELECT * FROM empty.o") == shop.rows("SELECT * FROM shop.orders")


def beside(faults: Faults, shop: Server, run: Callable[[], tuple[str, Sequence[Any]]], warehouse: Path, *, at: int) -> tuple[bool, bool]:
    """Bring a table back beside itself while a call fails, and see what is left of it where it did not come."""
    before = files_of(warehouse)
    done, said = struck(faults, run, at=at, error=ERRORS[at % len(ERRORS)])
    calls, failed = faults.calls, faults.faults
    there = ("beside",) in shop.rows("SHOW TABLES IN shop")
    assert done == there, said
    if not there:
        shop.lake.recover()
        assert files_of(warehouse) == before, said
        assert troubles(run()[1]) == []
    assert shop.rows("SELECT * FROM shop.beside") == shop.rows("SELECT * FROM shop.orders"), said
    assert shop.rows("CALL sys.check_table('shop.beside', deep => true)") == [], said
    shop.run("DROP TABLE shop.beside PURGE")
    return calls >= at, failed > 0


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.torture)])
def test_a_copy_that_fails_leaves_nothing_behind(shop: Server, of: Of, failing: Faults, tmp_path: Path, every: int) -> None:
    """Each attempt took a directory of its own, which nothing named and nothing removed."""
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)

    def run() -> tuple[str, Sequence[Any]]:
        return restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("shop", "beside"), files_from=copy)

    calls, faults = each(lambda at: beside(failing, shop, run, tmp_path / "warehouse", at=at), every=every, tries=1)
    print(f"restore --as: {calls} calls, {faults} faults")
    assert calls == faults


def test_a_copy_that_lacks_a_file_leaves_nothing_behind(shop: Server, of: Of, tmp_path: Path) -> None:
    backup(of(shop.dsn), file := tmp_path / "b", files_to=str(tmp_path / "copy"))
    next((tmp_path / "copy/shop.db/orders").rglob("data-*")).unlink()
    files = files_of(tmp_path / "warehouse")
    with pytest.raises(IllegalMove, match="nothing was changed"):
        restore_parts(of(shop.dsn), file, tables=[ORDERS], to=Identifier("shop", "beside"), files_from=str(tmp_path / "copy"))
    assert files_of(tmp_path / "warehouse") == files


RESTORE = """
import os, signal, sys
from pathlib import Path
from model.identifier import Identifier
from server.commands import backup
from server.settings.settings import read_settings
from table.format.io import copying

dsn, below, step = sys.argv[1:]

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def copied(*args, _copied=copying._copied):
    _copied(*args)
    kill()

if step == "a file":
    copying._copied = copied
else:
    backup.restore_tables = kill
settings = read_settings(
    {"SLUICE_DATA": f"{below}/none", "SLUICE_WAREHOUSE": f"{below}/warehouse", "SLUICE_CATALOG_DSN": dsn})
backup.restore_parts(
    settings, Path(f"{below}/b"), tables=[Identifier("shop", "orders")], to=Identifier("shop", "beside"), files_from=f"{below}/copy")
"""


@pytest.mark.parametrize("step", ["a file", "all files"])
def test_a_copy_that_is_killed_is_removed_by_the_next_restore(shop: Server, of: Of, tmp_path: Path, step: str) -> None:
    """It lay in the warehouse for ever: each attempt takes a directory of its own, and nothing named that of the one before."""
    backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "copy"))
    shop.lake.recover()
    before = files_of(tmp_path / "warehouse")
    command = [sys.executable, "-c", RESTORE, shop.dsn, str(tmp_path), step]
    ended = subprocess.run(command, timeout=300, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert any("/beside-" in path and path.count("/") > 2 for path in files_of(tmp_path / "warehouse") - before)
    restore_parts(of(shop.dsn), tmp_path / "b", tables=[QUEUE], to=Identifier("shop", "queue2"), files_from=str(tmp_path / "copy"))
    beside = {path.partition("/bucket")[0] for path in files_of(tmp_path / "warehouse") - before}
    assert {path.split("/")[1].split("-")[0] for path in beside} == {"queue2"}
    assert shop.rows("SELECT * FROM shop.queue2") == shop.rows("SELECT * FROM shop.queue")


def test_servers_leave_alone_what_a_restore_copies(shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "copy"))
    left = set[str]()

    def swept(*args: Any, **more: Any) -> None:
        before = files_of(tmp_path / "warehouse")
        with shop.catalog.reading() as tx:  # as servers of an earlier version ask, which do not see who fills them
            query = "SELECT location FROM dropped_directory WHERE dropped_at <= now() AND location LIKE '%/beside-%'"
            assert tx.directories._conn.execute(query).fetchall() == []
        monkeypatch.setattr(drops, "_TRIED_AGAIN_AFTER", timedelta(0))
        shop.lake.sweep_drops()
        assert shop.lake.recover().directories == 0  # as at a server's start
        left.update(before - files_of(tmp_path / "warehouse"))
        restore_tables(*args, **more)

    monkeypatch.setattr(commands, "restore_tables", swept)
    restore_parts(of(shop.dsn), tmp_path / "b", tables=[ORDERS], to=Identifier("shop", "beside"), files_from=str(tmp_path / "copy"))
    assert left == set()
    assert shop.rows("SELECT * FROM shop.beside") == shop.rows("SELECT * FROM shop.orders")
    shop.lake.recover()
    assert shop.rows("CALL sys.check_table('shop.beside', deep => true)") == []


@pytest.mark.parametrize("removed", [True, False])
def test_a_copy_that_was_not_kept_all_the_time_does_not_come_back(
    shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, removed: bool
) -> None:
    """Postgres ended the connection that kept it: a server may be removing it, or has."""
    backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "copy"))
    before = files_of(tmp_path / "warehouse")

    def forgotten(*args: Any, **more: Any) -> None:
        restores = "FROM pg_stat_activity WHERE application_name = 'sluice-restore' AND datname = current_database()"
        with shop.catalog.transaction() as tx:
            tx.drops._conn.execute(f"SELECT pg_terminate_backend(pid) {restores}")
        if removed:
            shop.lake.recover()
            assert files_of(tmp_path / "warehouse") == before
            more["require_kept"] = lambda: None  # as where Postgres itself was started again in between, and all seems well
        restore_tables(*args, **more)

    monkeypatch.setattr(commands, "restore_tables", forgotten)
    with pytest.raises(IllegalMove if removed else Unavailable, match="removed meanwhile"):
        restore_parts(of(shop.dsn), tmp_path / "b", tables=[ORDERS], to=Identifier("shop", "beside"), files_from=str(tmp_path / "copy"))
    assert files_of(tmp_path / "warehouse") == before
    assert ("beside",) not in shop.rows("SHOW TABLES IN shop")
