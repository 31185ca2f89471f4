"""An upgrade that is killed at any of its steps leaves what opens: nothing is changed, or the next start does the rest."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from catalog import CatalogStore
from lake import Lake
from lake.rewrite.orphans import remove_orphan_files
from migrations import newest, revision_of
from model.identifier import Identifier
from server.process.postgres import EmbeddedPostgres
from tests.faults.below import each
from tests.faults.shim import shim_library as shim_library
from tests.interop.strict import check_warehouse
from tests.lake.kept import go_on
from tests.lake.register.damage import forget_metadata
from tests.lake.register.test_operations import spelled
from tests.migrations.make_dumps import DUMPS, append
from tests.migrations.test_every_revision import opened, rows, shape
from tests.migrations.upgrading import heal, upgrading
from tests.server.process.test_postgres_upgrade import OLD, kept_row
from tests.server.process.test_postgres_upgrade import old_cluster as old_cluster
from tests.waiting import eventually

T = Identifier("default", "t")


def settled(dsn: str) -> None:
    """Wait until Postgres has heard that a killed process is gone: what it had sent is done or not by then."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    def is_alone() -> bool:
        with psycopg.connect(dsn) as conn:
            return conn.execute(query).fetchone() == (0,)

    assert eventually(is_alone)


def held(dsn: str) -> tuple[object, ...]:
    """All that a catalog is: its revision, its shape, and its rows."""
    with psycopg.connect(dsn) as conn:
        tables = [name for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()]
        query = sql.SQL("SELECT to_jsonb(one)::text FROM {} one ORDER BY 1")
        content = {name: conn.execute(query.format(sql.Identifier(name))).fetchall() for name in tables}
    return revision_of(dsn), shape(dsn), content


def struck(strike: Callable[[int], bool], *, every: int, begin: int | None = None) -> None:
    """Strike at one step in so many, up to the last."""
    steps, kills = each(lambda at: (strike(at),) * 2, every=every, begin=begin or 1 + every // 2)
    assert steps == kills > 0
    print(f"killed at {steps} steps")


_OLDER = [pytest.param(file.stem, 1, marks=pytest.mark.torture) for file in sorted(DUMPS.glob("*.sql")) if file.stem != newest()]


@pytest.mark.parametrize(("revision", "every"), [("0001", 97), ("0022", 31), *_OLDER])
def test_a_kill_while_the_schema_is_migrated(empty_dsn: str, tmp_path: Path, shim_library: Path, revision: str, every: int) -> None:
    warehouse = tmp_path / "warehouse"
    opened(empty_dsn, revision, warehouse)
    before = held(empty_dsn)
    with upgrading(shim_library, tmp_path, warehouse) as upgrade:

        def strike(at: int) -> bool:
            came = upgrade.kill(at, "migrate", empty_dsn)
            settled(empty_dsn)
            if revision_of(empty_dsn) != newest():
                assert came
                assert held(empty_dsn) == before
            return came

        struck(strike, every=every)
    heal(empty_dsn, str(warehouse))
    assert revision_of(empty_dsn) == newest()


def aged(dsn: str, table: Path) -> None:
    """Spell an operation of each snapshot and the tag as version 0.1 did, and let a snapshot, the tag and the schema lack their files."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET search_path = public")  # which the dump empties
        for name, column in (("table_snapshot", "body"), ("table_tag", "snapshot")):
            conn.execute(f"""UPDATE {name} SET published = false, {column} = {column} || '{{"operation": "COMPACT"}}'""")
        conn.execute("UPDATE table_entry SET published_schema_id = -1")
    for path in table.glob("snapshot/snapshot-*"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"operation": "COMPACT"}))
    for name in ("snapshot/snapshot-2", "tag/tag-kept", "schema/schema-0"):
        (table / name).unlink()


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.torture)])
def test_a_kill_while_files_are_written_again(empty_dsn: str, tmp_path: Path, shim_library: Path, every: int) -> None:
    warehouse = tmp_path / "warehouse"
    table = warehouse / "default.db/t"
    with upgrading(shim_library, tmp_path, warehouse) as upgrade:

        def strike(at: int) -> bool:
            shutil.rmtree(warehouse, ignore_errors=True)
            with psycopg.connect(empty_dsn, autocommit=True) as conn:
                conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            opened(empty_dsn, newest(), warehouse)
            aged(empty_dsn, table)
            came = upgrade.kill(at, "heal", empty_dsn, str(warehouse))
            settled(empty_dsn)
            used(empty_dsn, warehouse, at)
            return came

        struck(strike, every=every)


def used(dsn: str, warehouse: Path, at: int) -> None:
    """Whoever opens the table finds what it held, and can write to it; then the next start leaves nothing to do."""
    forget_metadata()
    catalog = CatalogStore(dsn, max_connections=2)
    lake = Lake(catalog, str(warehouse))
    lake.standing.compare()
    assert rows(lake) == 3
    if at % 2:  # before or after
        append(lake, 4, 5)
    heal(dsn, str(warehouse))
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["kept"]
    assert (rows(lake), spelled(dsn)) == (5 if at % 2 else 3, {None})
    lake.standing.look_around(tables=None)
    assert (lake.standing.mismatch, lake.standing.warning, lake.standing.troubles()) == (None, None, [])
    assert [fault.problem for fault in lake.check_table(lake.open(T), deep=True, threads=1, checked=lambda *_: None)] == []
    now = time.time_ns() // 1_000_000
    remove_orphan_files(lake, lake.open(T), older_than_millis=now, check=go_on)  # what was not renamed yet
    lake.close()
    catalog.close()
    counts = check_warehouse(warehouse)
    assert (counts["snapshot"], counts["tag"]) == (3 if at % 2 else 2, 1)


def processes_at(place: Path) -> list[psutil.Process]:
    """Those that were started for what lies there."""
    return [one for one in psutil.process_iter(["cmdline"]) if any(str(place) in word for word in one.info["cmdline"] or ())]


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory for whoever Postgres runs as, whose path leaves room for that of a socket."""
    place = Path(tempfile.mkdtemp(prefix="k"))
    place.chmod(0o755)
    yield place
    for process in processes_at(place):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize(("begin", "every"), [(20, 46), pytest.param(1, 1, marks=pytest.mark.torture)])
def test_a_kill_while_the_cluster_is_brought_to_another_version(
    old_cluster: Path, short_directory: Path, shim_library: Path, begin: int, every: int
) -> None:
    """In the short form while Postgres is asked in the old cluster and in the new one."""
    data, temporary = short_directory / "data", short_directory / "t"
    temporary.mkdir(mode=0o755)
    with upgrading(shim_library, old_cluster.parent, short_directory, TMPDIR=str(temporary)) as upgrade:

        def strike(at: int) -> bool:
            shutil.rmtree(data, ignore_errors=True)
            subprocess.run(["cp", "-a", str(old_cluster), str(data)], check=True)
            came = upgrade.kill(at, "cluster", str(data))
            again = EmbeddedPostgres(data)
            version, is_kept = kept_row(again.start())
            again.stop()
            assert (version > int(OLD), is_kept) == (True, True)
            assert (data / f"postgres.{OLD}/PG_VERSION").read_text().strip() == OLD
            assert not (data / "postgres.upgrading").exists()
            assert processes_at(data) == []
            assert list(temporary.rglob("*dump*")) == list(data.glob("*dump*")) == [], "no copy of the catalog is left lying about"
            return came

        struck(strike, every=every, begin=begin)
