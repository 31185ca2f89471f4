"""Jobs over stored tables of one alignment group: who is too far ahead waits for the slowest."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from tests.running import Refused, RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = "(id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
GROUP = "'scan.watermark.alignment.group' = 'stored', 'scan.watermark.alignment.max-drift' = '1 min'"


def job_of(server: RunningServer, name: str, source: str) -> str:
    """A job that copies a source to ``<name>_copy``."""
    settings = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "200 ms"}
    statement = f"INSERT INTO aligned.{name}_copy SELECT * FROM aligned.{source}"
    answer = httpx.post(f"{server.url}/sql", json={"statement": statement, "settings": settings}, timeout=120)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["rows"][0][0])


def told(server: RunningServer, job: str) -> Any:
    """The watermark a job has told its group."""
    progress = httpx.get(f"{server.url}/jobs/{job}", timeout=60).text
    return '"watermark":' in progress.replace(" ", "") and '"watermark":null' not in progress.replace(" ", "")


def restarts(server: RunningServer, jobs: Iterable[str]) -> int:
    """How often they have started again."""
    return sum(httpx.get(f"{server.url}/jobs/{job}", timeout=60).json()["restarts"] for job in jobs)


@pytest.mark.torture
def test_who_is_too_far_ahead_waits_also_where_tables_are_read(server: RunningServer) -> None:
    server.sql("CREATE DATABASE aligned")
    for name, options in (("slow", f"WITH ({GROUP})"), ("fast", "")):  # said by the table, and by a hint
        server.sql(f"CREATE TABLE aligned.{name} {COLUMNS} {options}; CREATE TABLE aligned.{name}_copy (id BIGINT, ts TIMESTAMP(3))")
    server.sql("CREATE VIEW aligned.seen AS SELECT * FROM aligned.slow")  # whose options are those of the table behind it
    jobs = {"slow": job_of(server, "slow", "seen"), "fast": job_of(server, "fast", f"fast /*+ OPTIONS({GROUP}) */")}

    def send(name: str, id_: int, minute: int) -> None:
        server.sql(f"INSERT INTO aligned.{name} VALUES ({id_}, TIMESTAMP '2024-01-01 00:{minute:02}:00')")

    def rows(name: str) -> int:
        return int(server.value(f"SELECT count(*) FROM aligned.{name}_copy"))

    try:
        for name, minute in (("slow", 0), ("fast", 10)):
            send(name, 1, minute)
            assert eventually(lambda: rows(name) == 1, 120)  # noqa: B023 - asked at once
            assert eventually(lambda: told(server, jobs[name]), 120)  # noqa: B023 - asked at once
        sent, known = 1, restarts(server, jobs.values())
        for minute in (11, 12, 13):  # on a busy machine a job may start again, and holds nobody back until it has told anew
            sent += 1
            send("fast", sent, minute)
            time.sleep(3)
            if held := rows("fast") < sent:  # ten minutes ahead
                break
            assert eventually(lambda: restarts(server, jobs.values()) > known, 60), "nobody was held back"  # noqa: B023 - asked at once
            known = restarts(server, jobs.values())
            assert eventually(lambda: all(told(server, job) for job in jobs.values()), 120)
        assert held, [httpx.get(f"{server.url}/jobs/{job}", timeout=60).text for job in jobs.values()]
        send("slow", 2, 20)
        assert eventually(lambda: (rows("slow"), rows("fast")) == (2, sent), 120)
    finally:
        for job in jobs.values():
            server.sql(f"STOP JOB '{job}'")
        server.sql("DROP DATABASE aligned CASCADE")


def test_an_idle_timeout_without_a_group_is_refused(server: RunningServer) -> None:
    server.sql("CREATE TABLE idle_alone (id BIGINT)")
    with pytest.raises(Refused, match=r"needs 'scan\.watermark\.alignment\.group'"):
        server.sql(
            "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM idle_alone /*+ OPTIONS('scan.watermark.idle-timeout' = '1 s') */"
        )
    server.sql("DROP TABLE idle_alone")
