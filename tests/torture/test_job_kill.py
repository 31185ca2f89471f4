"""Jobs under kill -9 of their server and of Postgres: exactly once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.torture.job_campaign import Feeder, check_arrived, count, job, run, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))


def _kill(server: RunningServer, number: int) -> None:
    server.kill()
    server.start()


def _kill_postgres(server: RunningServer, number: int) -> None:
    pid = server.postgres_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.torture
def test_a_kill_and_what_users_say_to_a_job(start_server: StartServer) -> None:
    server = start_server()
    run(server, lambda number: _kill(server, number), kills=1, seed=SEED, longest=0.5, pause=0.2)
    ((job_id, name, state, _),) = server.sql("SHOW JOBS")
    assert (name, state) == ("insert-into_dst", "RUNNING")
    assert server.sql(f"DESCRIBE JOB '{job_id}'")[0][12] == 1, "restarts"
    server.sql(f"STOP JOB '{job_id}'")
    assert job(server, job_id)["state"] == "STOPPED"
    server.sql("INSERT INTO src VALUES (-5, -1)")
    top = server.value("SELECT MAX(n) FROM src")
    server.sql(f"INSERT INTO src VALUES ({top + 1}, 0)")
    server.sql(f"ALTER JOB '{job_id}' RESTART")
    until(lambda: server.value("SELECT MAX(n) FROM dst") == top + 1, what=lambda: job(server, job_id))
    server.sql(f"INSERT INTO src VALUES ({top + 2}, 0)")
    server.sql(f"STOP JOB '{job_id}' WITH DRAIN")
    assert job(server, job_id)["state"] == "FINISHED"
    assert server.value("SELECT MAX(n) FROM dst") == top + 2, "all that was there has been processed"
    assert server.terminate() == 0


def _checkpoint(server: RunningServer, job_id: str) -> Path:
    return server.warehouse / ".sluice" / "jobs" / job_id / "0"


def _first_batch_is_planned(server: RunningServer, job_id: str) -> bool:
    return (_checkpoint(server, job_id) / "offsets" / "0").exists()


def _first_batch_has_written(server: RunningServer, job_id: str) -> bool:
    return _first_batch_is_planned(server, job_id) and any((server.warehouse / "default.db" / "dst").rglob("*.parquet"))


def _first_batch_is_done(server: RunningServer, job_id: str) -> bool:
    return (_checkpoint(server, job_id) / "commits" / "0").exists()


def _killed_in_its_first_batch(server: RunningServer, at: Callable[[RunningServer, str], bool], *, mode: str = "default") -> None:
    """Kill the server at a moment of the job's first batch, add rows before its Spark is back, and find each row once."""
    rows = ", ".join(f"({n}, 0)" for n in range(1000))
    server.sql("CREATE TABLE src (n BIGINT, batch BIGINT)")
    server.sql("CREATE TABLE dst (n BIGINT, batch BIGINT)")
    server.sql(f"INSERT INTO src VALUES {rows}")
    server.wait_for_spark()
    job_id = start_job(server, f"INSERT INTO dst SELECT n, batch FROM src /*+ OPTIONS('scan.mode' = '{mode}') */")
    if mode == "latest":
        server.sql("INSERT INTO src VALUES (-1, 0)")
    until(lambda: at(server, job_id), pause=0.001, what=lambda: job(server, job_id))
    server.kill()
    server.start()
    server.sql("INSERT INTO src VALUES (1000, 1)")
    server.sql("INSERT INTO src VALUES (1001, 1)")
    if mode == "latest":
        until(lambda: count(server, "dst") >= 3, what=lambda: (job(server, job_id), server.words()))
        assert sorted(server.arrow("SELECT n FROM dst").column("n").to_pylist()) == [-1, 1000, 1001]
    else:
        check_arrived(server, job_id, "src", "dst")
    server.sql(f"STOP JOB '{job_id}'")


def test_a_kill_in_the_first_batch(start_server: StartServer) -> None:
    """The batch is planned and not committed: what the source held when the job was made is still to come."""
    _killed_in_its_first_batch(start_server(), _first_batch_is_planned)


@pytest.mark.torture
@pytest.mark.parametrize("mode", ["default", "latest"])
@pytest.mark.parametrize("at", [_first_batch_is_planned, _first_batch_has_written, _first_batch_is_done])
def test_a_kill_between_two_writes_of_the_first_batch(
    start_server: StartServer, at: Callable[[RunningServer, str], bool], mode: str
) -> None:
    _killed_in_its_first_batch(start_server(), at, mode=mode)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_fifty_kills(start_server: StartServer) -> None:
    server = start_server()
    run(server, lambda number: _kill(server, number), kills=50, seed=SEED + 1, longest=3.0)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_five_kills_of_postgres(start_server: StartServer) -> None:
    server = start_server()
    run(server, lambda number: _kill_postgres(server, number), kills=5, seed=SEED + 2, longest=3.0)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_server_that_slept_cannot_commit_for_the_job_another_took(start_server: StartServer, dsn: str) -> None:
    """SIGSTOP: the sleeper wakes in the middle of its batch, long after its lease."""
    first = start_server("first", SLUICE_CATALOG_DSN=dsn)
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(first.warehouse)}
    first.sql("CREATE TABLE src (n BIGINT, batch BIGINT)")
    first.sql("CREATE TABLE dst (n BIGINT, batch BIGINT)")
    job_id = start_job(first, "INSERT INTO dst SELECT n, batch FROM src")
    until(lambda: job(first, job_id)["startedAt"] is not None)
    second = start_server("second", **shared)
    second.wait_for_spark()
    with Feeder([second], "src"):
        _grown(second, job_id)
        first.process.suspend()
        until(lambda: job(second, job_id)["restarts"] == 1, what=lambda: job(second, job_id))
        _grown(second, job_id)
        first.process.resume()
        _grown(second, job_id)
        time.sleep(3)
        second.kill()
        second.start()
    check_arrived(second, job_id, "src", "dst")


def _grown(server: RunningServer, job_id: str) -> None:
    before = server.value("SELECT COUNT(*) FROM dst")
    until(lambda: server.value("SELECT COUNT(*) FROM dst") > before, what=lambda: job(server, job_id))
