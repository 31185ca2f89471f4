"""Jobs whose failure somebody has to mend: they stop and say why, and go on where they were when they are told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.following import patiently
from tests.running import RunningServer
from tests.torture.job_campaign import start_job
from tests.waiting import eventually

pytestmark = pytest.mark.spark
DATABASE = "failed_jobs"
Run = Callable[[str], str]
"""Starts a job and gives its id."""


@pytest.fixture
def run(server: RunningServer) -> Iterator[Run]:
    server.sql(f"CREATE DATABASE {DATABASE}")
    yield partial(start_job, server, database=DATABASE)
    for job_id, *_ in server.sql("SHOW JOBS"):
        if server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] in ("CREATED", "RUNNING", "RESTARTING"):
            server.sql(f"STOP JOB '{job_id}'")
    server.sql(f"DROP DATABASE {DATABASE} CASCADE")


def failed(server: RunningServer, job_id: str) -> str:
    """Wait until the job has failed for good; what it says."""
    assert eventually(lambda: server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] == "FAILED", 300), server.sql(f"DESCRIBE JOB '{job_id}'")
    with httpx.Client() as client:
        return str(client.get(f"{server.url}/jobs/{job_id}").json()["error"])


def arrived(server: RunningServer, expected: list[int]) -> bool:
    """Asked without Spark, which the job has to itself that way."""
    return eventually(lambda: sorted(row[0] for row in server.sql(f"SELECT n FROM {DATABASE}.dst")) == expected, 300)


@pytest.mark.torture
def test_a_value_that_will_not_do_stops_its_job(server: RunningServer, run: Run) -> None:
    """As one inside an array does, below."""
    server.sql(f"CREATE TABLE {DATABASE}.src (n INT, s STRING)")
    server.sql(f"CREATE TABLE {DATABASE}.dst (n INT)")
    server.sql(f"INSERT INTO {DATABASE}.src VALUES (1, '1')")
    job_id = run("INSERT INTO dst SELECT CAST(s AS INT) FROM src")
    assert arrived(server, [1])
    server.sql(f"INSERT INTO {DATABASE}.src VALUES (2, 'two')")
    told = failed(server, job_id)
    assert "CAST_INVALID_INPUT" in told
    assert "two" in told
    assert "\tat " not in told, "no stack of Java's"
    assert arrived(server, [1])


def test_rows_that_do_not_fit_are_put_aside(server: RunningServer, run: Run) -> None:
    """With the batch that had them, in one commit of both tables; the job goes on."""
    server.sql(f"CREATE TABLE {DATABASE}.src (s STRING, t STRING); CREATE TABLE {DATABASE}.dst (n INT NOT NULL, t VARCHAR(5))")
    aside = "(job STRING, batch BIGINT, source STRING, reason STRING, `row` STRING)"
    server.sql(f"CREATE TABLE {DATABASE}.aside {aside}")
    rows = "('1', 'fine'), ('two', 'fine'), ('3', 'far too long'), (NULL, 'x'), ('5000000000', 'y')"
    server.sql(f"INSERT INTO {DATABASE}.src VALUES {rows}")
    job_id = run("SET 'job.bad-rows' = 'aside'; INSERT INTO dst SELECT CAST(s AS INT) AS n, t FROM src")
    assert arrived(server, [1]), httpx.get(f"{server.url}/jobs/{job_id}").text
    found = server.sql(f"SELECT job, batch, source, reason, `row` FROM {DATABASE}.aside")
    assert {(reason, row) for *_, reason, row in found} == {
        ("Column n: 'two' is no INT.", '{"n":"two","t":"fine"}'),
        ("Column t: 'far too long' does not fit VARCHAR(5).", '{"n":"3","t":"far too long"}'),
        ("Column n: NULL, but the column is NOT NULL.", '{"n":null,"t":"x"}'),
        ("Column n: '5000000000' is no INT.", '{"n":"5000000000","t":"y"}'),
    }
    assert {(job, batch) for job, batch, *_ in found} == {(job_id, 0)}
    assert '"to": ' in found[0][2]
    commits = [server.sql(f"SELECT commit_user, commit_identifier FROM {DATABASE}.`{name}$snapshots`") for name in ("dst", "aside")]
    assert commits[0] == commits[1]
    server.sql(f"INSERT INTO {DATABASE}.src VALUES ('6', 'fine')")
    assert arrived(server, [1, 6])
    assert server.sql(f"SELECT count(*) FROM {DATABASE}.aside") == [[4]]
    server.sql(f"STOP JOB '{job_id}'")
    for name, says in (("nowhere", "job STRING, batch BIGINT"), ("src", "job STRING, batch BIGINT")):
        text = f"SET 'job.bad-rows' = '{name}'; INSERT INTO dst SELECT 1, t FROM src"
        answer = patiently(lambda: httpx.post(f"{server.url}/sql?mode=streaming&database={DATABASE}", content=text))  # noqa: B023
        assert answer.status_code in (400, 404)
        assert says in answer.text


def test_an_element_that_does_not_fit_stops_its_job(server: RunningServer, run: Run) -> None:
    """Also where bad rows are put aside: it must not become NULL within its array."""
    server.sql(f"CREATE TABLE {DATABASE}.src (n INT, a ARRAY<STRING>); CREATE TABLE {DATABASE}.dst (n INT, a ARRAY<INT>)")
    server.sql(f"CREATE TABLE {DATABASE}.aside (job STRING, batch BIGINT, source STRING, reason STRING, `row` STRING)")
    server.sql(f"INSERT INTO {DATABASE}.src VALUES (1, ARRAY['1', '2'])")
    job_id = run("SET 'job.bad-rows' = 'aside'; INSERT INTO dst SELECT n, CAST(a AS ARRAY<INT>) AS a FROM src")
    assert arrived(server, [1]), httpx.get(f"{server.url}/jobs/{job_id}").text
    server.sql(f"INSERT INTO {DATABASE}.src VALUES (2, ARRAY['1', 'two'])")
    told = failed(server, job_id)
    assert "CAST_INVALID_INPUT" in told
    assert "two" in told
    assert "\tat " not in told, "no stack of Java's"
    assert arrived(server, [1])


def test_a_damaged_table_stops_its_job_until_it_is_mended(server: RunningServer, run: Run) -> None:
    server.sql(f"CREATE TABLE {DATABASE}.torn (n INT)")
    server.sql(f"CREATE TABLE {DATABASE}.dst (n INT)")
    server.sql(f"INSERT INTO {DATABASE}.torn VALUES (1)")
    place = server.warehouse / f"{DATABASE}.db" / "torn"
    (file,) = place.rglob("*.parquet")
    aside = Path(f"{file}.aside")
    file.rename(aside)
    job_id = run("INSERT INTO dst SELECT n FROM torn")
    told = failed(server, job_id)
    assert f"{DATABASE}.torn is damaged: {file.name}" in told
    assert "CALL sys.check_table(" in told
    other = run("INSERT INTO dst SELECT n + 1 FROM torn")
    assert failed(server, other) == told
    assert sum(f"{DATABASE}.torn is damaged" in line for line in server.log.read_text().splitlines()) == 1
    aside.rename(file)
    server.sql(f"ALTER JOB '{job_id}' RESTART")
    assert arrived(server, [1])
