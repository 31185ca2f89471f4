"""An embedded Postgres of an older major version: brought to this one with all it holds, the old one kept."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from migrations import newest, upgrade
from model.errors import Unavailable
from server.process import postgres as embedded
from server.process import postgres_upgrade
from server.process.postgres import EmbeddedPostgres

OLD = "16"


def binaries() -> Path:
    return postgres_upgrade.binaries_by_version(embedded._binaries().parent.parent)[OLD]


@pytest.fixture
def old_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory whose catalog an older Postgres made, with rows."""
    with monkeypatch.context() as patched:
        older = tmp_path / f"pginstall{OLD}"
        older.symlink_to(binaries().parent)
        patched.setattr(embedded, "_binaries", lambda: older / "bin")
        postgres = EmbeddedPostgres(tmp_path / "data")
        dsn = postgres.start()
        upgrade(dsn, "0003")
        with psycopg.connect(dsn) as conn:
            assert conn.info.server_version // 10000 == int(OLD)
            conn.execute("INSERT INTO sluice_database (name) VALUES ('kept')")
        postgres.stop()
    return tmp_path / "data"


def kept_row(dsn: str) -> tuple[int, bool]:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT count(*) FROM sluice_database WHERE name = 'kept'").fetchone()
        return conn.info.server_version // 10000, row == (1,)


@pytest.mark.slow
def test_it_is_brought_to_this_version_and_kept(old_cluster: Path) -> None:
    postgres = EmbeddedPostgres(old_cluster)
    dsn = postgres.start()
    upgrade(dsn)
    assert kept_row(dsn) == (int(embedded._binaries().parent.name.removeprefix("pginstall")), True)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT version_num FROM alembic_version").fetchone() == (newest(),)
    postgres.stop()
    assert (old_cluster / f"postgres.{OLD}/PG_VERSION").read_text().strip() == OLD
    (old_cluster / "postgres").rename(old_cluster / "postgres.upgrading")  # as where the power went between the two renames
    again = EmbeddedPostgres(old_cluster)
    assert kept_row(again.start())[1]
    again.stop()


@pytest.mark.slow
def test_what_fails_leaves_the_old_one_as_it_was(old_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_upgrade, "_others", lambda dsn: ["somebody's"])
    postgres = EmbeddedPostgres(old_cluster)
    with pytest.raises(Unavailable, match="run pg_upgrade 16"):
        postgres.start()
    postgres.stop()
    assert (old_cluster / "postgres/PG_VERSION").read_text().strip() == OLD
    assert not (old_cluster / "postgres.upgrading").exists()
    assert not (old_cluster / f"postgres.{OLD}").exists()
    monkeypatch.undo()
    monkeypatch.setattr(embedded, "binaries_by_version", lambda root: {})
    with pytest.raises(Unavailable, match="sluice backup"):
        EmbeddedPostgres(old_cluster).start()


@pytest.mark.slow
def test_one_that_a_killed_server_had_begun_to_start_is_ended(old_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `pg_ctl` goes on: the Postgres that it starts is up after the next start has looked for one."""
    run = postgres_upgrade._run

    def later(command: list[str], runner: Mapping[str, Any]) -> None:
        if command[-1] == "start":
            monkeypatch.setattr(postgres_upgrade, "_run", run)
            run([word.replace(str(Path(command[7]).parent), str(socket)) for word in command], runner)
        run(command, runner)

    socket = Path(tempfile.mkdtemp(prefix="k"))
    socket.chmod(0o777)
    (socket / "hba.conf").write_text(postgres_upgrade._LOCAL_ONLY)
    monkeypatch.setattr(postgres_upgrade, "_run", later)
    postgres = EmbeddedPostgres(old_cluster)
    try:
        assert kept_row(postgres.start())[1]
    finally:
        postgres.stop()
        shutil.rmtree(socket)
    assert postgres_upgrade._run is run


@pytest.fixture
def strangers(old_cluster: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes of whoever Postgres runs as, which have got the pids of postmasters that a crash of the machine ended."""
    owner = (old_cluster / "postgres").stat().st_uid
    started = [subprocess.Popen(["sleep", "600"], user=owner) for _ in range(2)]
    for one in started:
        threading.Thread(target=one.wait, daemon=True).start()  # else one that is killed stays a zombie, for which pg_ctl waits
    yield started
    for one in started:
        one.kill()


@pytest.mark.slow
def test_who_has_the_pid_of_a_dead_postmaster_gets_no_signal(old_cluster: Path, strangers: list[subprocess.Popen[bytes]]) -> None:
    half_made = old_cluster / "postgres.upgrading"
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18\n")
    for cluster, stranger in zip((half_made, old_cluster / "postgres"), strangers, strict=True):
        (cluster / "postmaster.pid").write_text(f"{stranger.pid}\n{cluster}\n")
    postgres = EmbeddedPostgres(old_cluster)
    assert kept_row(postgres.start())[1]
    postgres.stop()
    assert [stranger.poll() for stranger in strangers] == [None, None]


def test_an_operators_own_dump_is_left_alone(tmp_path: Path) -> None:
    """At each start, whether there is anything to be upgraded or not."""
    cluster, own, ours = tmp_path / "postgres", tmp_path / "postgres.dump", tmp_path / "postgres.upgrading.dump"
    own.write_bytes(b"mine")
    ours.write_bytes(b"of a killed server")
    postgres_upgrade.finish_upgrade(cluster)
    assert own.read_bytes() == b"mine"
    assert not ours.exists()
    for place in (own, ours):
        place.unlink(missing_ok=True)
        place.mkdir()
        (place / "toc.dat").touch()
    postgres_upgrade.finish_upgrade(cluster)
    assert (own / "toc.dat").exists()
    assert (ours / "toc.dat").exists()
