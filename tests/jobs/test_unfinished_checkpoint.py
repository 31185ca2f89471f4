"""A job whose Spark was killed while it wrote its first plan begins again, and reads each row once."""

from __future__ import annotations

import pytest

from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_plan_that_was_being_written_stops_no_job(server: RunningServer, database: str) -> None:
    source, target = f"{database}.src", f"{database}.dst"
    for table in (source, target):
        server.sql(f"CREATE TABLE {table} (n INT) WITH ('bucket' = '1', 'bucket-key' = 'n')")
    id_ = start_job(server, f"INSERT INTO {target} SELECT n FROM {source}")
    until(lambda: job(server, id_)["state"] == "RUNNING")
    server.sql(f"STOP JOB '{id_}'")
    until(lambda: job(server, id_)["state"] == "STOPPED", what=lambda: job(server, id_))
    checkpoint = server.warehouse / ".sluice" / "jobs" / id_ / "0"
    assert not list(checkpoint.glob("offsets/[0-9]*")), "there was nothing to read yet"
    for directory in ("offsets", "commits", "state/0/0"):
        (checkpoint / directory).mkdir(parents=True, exist_ok=True)
    for directory in ("offsets", "commits"):
        (checkpoint / directory / ".0.e5c69975-1111-2222-3333-444455556666.tmp").write_bytes(b"")
    server.sql(f"INSERT INTO {source} VALUES (1), (2), (3)")
    server.sql(f"ALTER JOB '{id_}' RESTART")
    until(lambda: sorted(row[0] for row in server.sql(f"SELECT n FROM {target}")) == [1, 2, 3], what=lambda: job(server, id_))
    server.sql(f"STOP JOB '{id_}'")
