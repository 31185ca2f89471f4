"""Every SQL example of the jobs page is run, block by block; a block is one text, and `{id}` the job of the first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fix_server import StartServer
from tests.torture.job_campaign import until

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.spark
def test_the_examples_run_from_top_to_bottom(start_server: StartServer) -> None:
    server = start_server(SLUICE_JOBS_MOST="2")
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    first, both, steering, aside, connectors = blocks
    ((job_id,),) = server.sql(first)
    ((set_id,),) = server.sql(both)
    server.sql("INSERT INTO trips VALUES (1, 'Rome', 99), (2, 'Oslo', 101)")
    until(lambda: server.sql("SELECT * FROM long_trips") == [[2, "Oslo"]], what=lambda: server.sql("SHOW JOBS"))
    assert server.sql(steering.replace("{id}", job_id)) == [["OK"]]
    states = [["long trips", "FINISHED"], ["near and far", "RUNNING"]]  # on a busy machine Spark may lose a task, and the job restarts
    until(lambda: sorted(row[1:3] for row in server.sql("SHOW JOBS")) == states, what=lambda: server.sql("SHOW JOBS"))
    near_and_far = "SELECT id, city, 'near' FROM near_trips UNION ALL SELECT id, city, 'far' FROM far_trips ORDER BY id"
    until(lambda: server.sql(near_and_far) == [[1, "Rome", "near"], [2, "Oslo", "far"]], what=lambda: server.sql("SHOW JOBS"))
    until(lambda: server.sql(f"DESCRIBE JOB '{set_id}'")[0][10] == "0 snapshots, 0 snapshots", what=lambda: server.sql("SHOW JOBS"))
    server.sql(f"STOP JOB '{set_id}' WITH DRAIN")
    ((job_id,),) = server.sql(aside)
    server.sql("INSERT INTO raw_trips VALUES ('1', 'Rome'), ('one', 'Oslo')")
    until(lambda: server.sql("SELECT * FROM checked_trips") == [[1, "Rome"]], what=lambda: server.sql(f"DESCRIBE JOB '{job_id}'"))
    assert server.sql("SELECT batch, reason, `row` FROM bad_trips") == [[0, "Column id: 'one' is no BIGINT.", '{"id":"one","city":"Oslo"}']]
    server.sql(f"STOP JOB '{job_id}'")
    ((job_id,),) = server.sql(connectors)
    until(lambda: server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] == "FINISHED", what=lambda: server.sql(f"DESCRIBE JOB '{job_id}'"))
    assert server.sql("SELECT COUNT(*), COUNT(DISTINCT id) FROM trips WHERE id <= 1000 AND km <= 500") == [[1002, 1000]]
    printed = [line for line in server.words().splitlines() if line.startswith("trip> +I[")]
    assert sorted(line.split(",")[0] for line in printed) == ["trip> +I[1", "trip> +I[2", "trip> +I[3"]
