"""The embedded Postgres: started, taken over, never left behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from model.errors import Unavailable
from server.process.data_directory import DataDirectoryLock, make_private
from server.process.postgres import EmbeddedPostgres
from tests import new_cluster
from tests.running import runs
from tests.waiting import eventually

HOLD = """
import sys
from pathlib import Path
from server.process.postgres import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1])).start(), flush=True)
sys.stdin.read()
"""


def ask(dsn: str) -> object:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT COUNT(*) FROM pg_database").fetchone()
    assert row is not None
    return row[0]


def answers(dsn: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        return ask(dsn) == 3
    return False


def postmaster(data: Path) -> int:
    return int((data / "postgres" / "postmaster.pid").read_text().split()[0])


def holder(data: Path) -> subprocess.Popen[str]:
    """A process of its own with a Postgres of its own."""
    new_cluster.copy_to(data)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("postgresql://")
    return process


def bury(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_it_starts_stops_and_starts_again(tmp_path: Path) -> None:
    first = EmbeddedPostgres(tmp_path)
    assert ask(first.start()) == 3
    pid = postmaster(tmp_path)
    first.stop()
    assert not runs(pid)
    assert not (tmp_path / "postgres" / "postmaster.pid").exists()
    second = EmbeddedPostgres(tmp_path)
    assert ask(second.start()) == 3
    second.stop()


def test_it_and_its_guard_are_told_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "for-stores-only")
    postgres = new_cluster.made(tmp_path)
    try:
        postgres.start()
        process = psutil.Process(postmaster(tmp_path))
        guard = postgres._guard  # of the guards that this process has
        assert guard is not None
        for pid in (process.pid, guard.pid):
            assert b"for-stores-only" not in Path(f"/proc/{pid}/environ").read_bytes()
    finally:
        postgres.stop()


def test_clusters_starting_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    def live(number: int) -> object:
        postgres = EmbeddedPostgres(tmp_path / str(number))
        try:
            return ask(postgres.start())
        finally:
            postgres.stop()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(live, range(4))) == [3] * 4


def test_it_ends_with_a_server_that_was_killed_and_a_new_server_starts_at_once(tmp_path: Path) -> None:
    process = holder(tmp_path)
    pid = postmaster(tmp_path)
    bury(process)
    again = EmbeddedPostgres(tmp_path)  # waits until the old one's guard lets go
    assert not runs(pid), "Postgres outlived its server"
    assert ask(again.start()) == 3
    again.stop()


def test_one_that_was_left_running_is_taken_over(tmp_path: Path) -> None:
    process = holder(tmp_path)
    pid = postmaster(tmp_path)
    guards = [child for child in psutil.Process(process.pid).children() if child.pid != pid]
    assert len(guards) == 1
    guards[0].kill()
    bury(process)
    again = EmbeddedPostgres(tmp_path)
    assert ask(again.start()) == 3
    assert postmaster(tmp_path) == pid
    again.stop()
    assert not runs(pid)


def test_a_terminals_signal_does_not_reach_it(tmp_path: Path) -> None:
    process = holder(tmp_path)
    pid = postmaster(tmp_path)
    assert os.getsid(pid) == pid
    assert os.getsid(process.pid) != os.getsid(pid)
    bury(process)


def test_a_killed_postmaster_is_replaced(tmp_path: Path) -> None:
    process = holder(tmp_path)
    pid = postmaster(tmp_path)
    os.kill(pid, signal.SIGKILL)
    bury(process)
    again = EmbeddedPostgres(tmp_path)
    assert ask(again.start()) == 3
    assert postmaster(tmp_path) != pid
    again.stop()


def test_one_that_ends_before_its_server_comes_back_at_the_same_place(tmp_path: Path) -> None:
    postgres = new_cluster.made(tmp_path)
    dsn = postgres.start()
    for number in (signal.SIGKILL, signal.SIGINT):
        pid = postmaster(tmp_path)
        os.kill(pid, number)
        assert eventually(lambda pid=pid: not runs(pid) and answers(dsn))  # type: ignore[misc]
        assert postmaster(tmp_path) != pid
    pid = postmaster(tmp_path)
    os.kill(pid, signal.SIGKILL)
    postgres.stop()  # in the midst of it
    assert [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(tmp_path / "postgres")] == []


def test_one_whose_directory_is_gone_is_told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself it would notice within a minute, and its server would wait for it."""
    postgres = new_cluster.made(tmp_path / "data")
    postgres.start()
    pid = postmaster(tmp_path / "data")
    family = [pid, *(child.pid for child in psutil.Process(pid).children())]
    told: list[int] = []
    send = psutil.Process.send_signal

    def telling(process: psutil.Process, number: int) -> None:
        told.append(process.pid)
        send(process, number)

    monkeypatch.setattr(psutil.Process, "send_signal", telling)
    shutil.rmtree(tmp_path / "data")
    postgres.stop()
    assert pid in told
    assert not any(runs(member) for member in family)


def test_a_half_made_cluster_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "postgres.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    postgres = EmbeddedPostgres(tmp_path)
    assert ask(postgres.start()) == 3
    postgres.stop()
    assert not half.exists()


def test_a_directory_that_is_no_cluster_or_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "mine").write_text("precious")
    other = EmbeddedPostgres(tmp_path)
    with pytest.raises(Unavailable, match="is there and is no Postgres: move it away"):
        other.start()
    other.stop()
    assert (tmp_path / "postgres" / "mine").read_text() == "precious"
    (tmp_path / "postgres" / "PG_VERSION").write_text("9\n")
    older = EmbeddedPostgres(tmp_path)
    with pytest.raises(Unavailable, match="is of Postgres 9, and this is Postgres"):
        older.start()
    older.stop()


def test_settings_postgres_does_not_take_are_told_in_its_own_words(tmp_path: Path) -> None:
    new_cluster.copy_to(tmp_path)
    with (tmp_path / "postgres" / "postgresql.conf").open("a") as conf:
        conf.write("max_connections = many\n")
    broken = EmbeddedPostgres(tmp_path)
    with pytest.raises(Unavailable, match="max_connections"):
        broken.start()
    broken.stop()


def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    postgres = new_cluster.made(deep)
    dsn = postgres.start()
    assert ask(dsn) == 3
    place = Path(str(psycopg.conninfo.conninfo_to_dict(dsn)["host"]))
    assert place != deep / "postgres"
    postgres.stop()
    assert not place.exists()


def test_a_directory_in_use_is_refused_at_once(tmp_path: Path) -> None:
    lock = DataDirectoryLock(tmp_path)
    with pytest.raises(Unavailable, match=f"in use by another server \\(process {os.getpid()}\\)"):
        DataDirectoryLock(tmp_path)
    lock.release()
    DataDirectoryLock(tmp_path).release()


def test_who_removes_the_locks_file_removes_no_lock(tmp_path: Path) -> None:
    lock = DataDirectoryLock(tmp_path)
    (tmp_path / ".lock").unlink()
    with pytest.raises(Unavailable, match="in use by another server"):
        DataDirectoryLock(tmp_path)
    lock.release()
    DataDirectoryLock(tmp_path).release()


@pytest.mark.parametrize("unlocked", ["directories", "files"])
def test_where_files_cannot_be_locked_a_catalog_elsewhere_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, unlocked: str
) -> None:
    """As on some network file systems; an embedded Postgres there would have nothing to keep a second one out."""
    real = fcntl.flock

    def flock(file: int, operation: int) -> None:
        if unlocked == "files" or stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    DataDirectoryLock(tmp_path, needed=False).release()
    assert ("nothing keeps a second server out" in caplog.text) == (unlocked == "files")
    if unlocked == "files":
        with pytest.raises(Unavailable, match=r"cannot be locked .*: set SLUICE_DATA to a directory on a disk of this machine"):
            DataDirectoryLock(tmp_path)
    else:
        DataDirectoryLock(tmp_path).release()


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can be another user: the embedded Postgres is not tried as one.")
def test_no_other_user_of_the_machine_gets_in(tmp_path: Path) -> None:
    """Neither by the socket, should its directory be open, nor to the files."""
    place = Path(tempfile.mkdtemp(prefix="sluice-other-user-"))  # pytest's own directory is closed already
    place.chmod(0o755)
    postgres = EmbeddedPostgres(place / "data")
    dsn = postgres.start()
    try:
        (place / "data" / "postgres").chmod(0o755)
        refused = _as_nobody(f"import psycopg; psycopg.connect({dsn!r})")
        assert "peer authentication failed" in refused.lower(), refused
        for part in (".", "warehouse", "logs", "spark", "cache"):
            assert "PermissionError" in _as_nobody(f"import os; os.listdir({str(place / 'data' / part)!r})"), part
        assert ask(dsn) == 3
    finally:
        postgres.stop()
        shutil.rmtree(place)


def _as_nobody(code: str) -> str:
    nobody = pwd.getpwnam("nobody")
    program = f"import os; os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid}); {code}"
    # What is imported must be imported as root, whose files they may be.
    done = subprocess.run([sys.executable, "-c", f"import psycopg; {program}"], capture_output=True, text=True, check=False)
    return done.stderr


def test_a_data_directory_that_was_open_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "warehouse").mkdir(parents=True)
    data.chmod(0o777)
    make_private(data)
    assert data.stat().st_mode & 0o066 == 0
    if os.geteuid() == 0:
        assert (data / "warehouse").stat().st_mode & 0o077 == 0
    else:
        assert data.stat().st_mode & 0o077 == 0
