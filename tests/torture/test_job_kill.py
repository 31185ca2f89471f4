"""Jobs under kill -9 of their server and of Postgres: exactly once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.torture.job_campaign import Feeder, check_arrived, job, run, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))


def _kill(server: RunningServer, number: int) -> None:
    server.kill()
    server.start()


def _kill_postgres(server: RunningServer, number: int) -> None:
    pid = server.postgres_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_three_kills_and_what_users_say_to_a_job(start_server: StartServer) -> None:
    server = start_server()
    run(server, lambda number: _kill(server, number), kills=3, seed=SEED, longest=0.5, pause=0.2)
    ((job_id, name, state, _),) = server.sql("SHOW JOBS")
    assert (name, state) == ("insert-into_dst", "RUNNING")
    assert server.sql(f"DESCRIBE JOB '{job_id}'")[0][12] == 3, "restarts"
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
