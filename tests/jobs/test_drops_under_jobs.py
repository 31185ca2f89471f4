"""A job that runs while its source, and then its target, is dropped and brought back: it goes on where it was, each row once.

Also where an older copy of its checkpoint lies there by then.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_job_goes_on_where_it_was_once_its_table_is_back(server: RunningServer, database: str, tmp_path: Path) -> None:
    src, dst = f"{database}.src", f"{database}.dst"
    for table in (src, dst):
        server.sql(f"CREATE TABLE {table} (n INT) WITH ('bucket' = '1')")
    sent: list[int] = []

    def insert() -> None:
        number = len(sent)
        server.sql(f"INSERT INTO {src} VALUES ({2 * number}), ({2 * number + 1})")
        sent.append(number)

    insert()
    hint = "/*+ OPTIONS('scan.mode' = 'latest-full') */"
    job_id = start_job(server, f"INSERT INTO {dst} SELECT n FROM {src} {hint}")

    checkpoint, older = server.warehouse / ".sluice" / "jobs" / job_id, tmp_path / "older"

    def arrived() -> list[int]:
        return [row[0] for row in server.sql(f"SELECT n FROM {dst}")]

    def all_of_it() -> list[int]:
        return list(range(2 * len(sent)))

    def failed() -> bool:
        return bool(job(server, job_id)["state"] == "FAILED")

    until(lambda: arrived() == all_of_it(), what=lambda: job(server, job_id))
    for dropped, while_gone in ((src, False), (dst, True)):
        insert()
        server.sql(f"DROP TABLE {dropped}")
        if while_gone:
            insert()
        until(failed, what=lambda: job(server, job_id))
        if while_gone:
            shutil.rmtree(checkpoint)
            shutil.copytree(older, checkpoint)
        else:
            shutil.copytree(checkpoint, older)
        assert ["job", job_id] in server.sql(f"UNDROP TABLE {dropped} RESTART JOBS")
        insert()
        until(lambda: arrived() == all_of_it(), what=lambda: (arrived(), job(server, job_id)))
        until(lambda: job(server, job_id)["state"] == "RUNNING")
    server.sql(f"STOP JOB '{job_id}'")
    assert arrived() == all_of_it()
