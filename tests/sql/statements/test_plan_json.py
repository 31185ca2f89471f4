"""EXPLAIN as data, and what the gateway remembers of statements that ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.gateway import Gateway
from jobs.points import JobPoint, rate
from jobs.run import lag_of
from lake import Caller
from model.errors import LakeError, OperationNotExist
from model.work.job_lag import JobLag, farthest
from server.pages.rendering.sparklines import lag_line, lag_unit


def explained(gateway: Gateway, query: str) -> dict[str, Any]:
    with gateway.run(f"EXPLAIN JSON_EXECUTION_PLAN {query}") as result:
        ((text,),) = result.collect()
    return dict(json.loads(text))


@pytest.fixture
def trips(gateway: Gateway) -> Gateway:
    gateway.run("CREATE TABLE trips (day STRING, id INT) PARTITIONED BY (day) WITH ('bucket' = '2', 'bucket-key' = 'id')").close()
    for day in ("mon", "tue", "wed"):
        for n in (1, 2):
            gateway.run(f"INSERT INTO trips VALUES ('{day}', {n}), ('{day}', {n + 10})").close()
    return gateway


def test_every_file_is_told_with_what_decided_its_fate(trips: Gateway) -> None:
    (table,) = explained(trips, "SELECT id FROM trips WHERE day IN ('mon', 'tue') AND id = 1")["tables"]
    fates = table["fates"]
    assert len(fates) == table["files"]["total"]
    kept = [one for one in fates if one["fate"] == "kept"]
    assert len(kept) == table["files"]["kept"] > 0
    assert {one["partition"] for one in kept} == {"day=mon", "day=tue"}
    assert {one["partition"] for one in fates if one["fate"] == "partition"} == {"day=wed"}
    assert sum(one["bytes"] for one in fates) == table["bytes"]["total"]
    assert sum(one["rows"] for one in kept) == table["rowsToRead"]
    wanted = {one["bucket"] for one in kept}
    assert len(wanted) == 1
    assert all(one["bucket"] not in wanted for one in fates if one["fate"] == "bucket")
    assert [one for one in fates if one["fate"] == "statistics"], "a bucket's other file cannot hold the value"


def test_what_metadata_answers_reads_no_file(trips: Gateway) -> None:
    assert explained(trips, "SELECT COUNT(*) FROM trips") == {"answeredIn": "metadata", "tables": [], "plan": None}
    assert explained(trips, "SELECT * FROM trips")["answeredIn"] == "gateway"


def test_statements_that_ended_are_remembered_with_their_errors_and_without_secrets(gateway: Gateway) -> None:
    ann, bob = Caller(principal="ann", administrator=True), Caller(principal="bob", administrator=True)
    gateway.run("CREATE TABLE t (a INT)", caller=ann).close()
    gateway.run("INSERT INTO t VALUES (1), (2)", caller=ann).close()
    with pytest.raises(LakeError):
        gateway.run("SELECT * FROM nowhere WHERE 'password' = 'hush'", caller=bob)
    failed, inserted, created = gateway.recent.newest()
    assert (created.principal, inserted.rows, inserted.state) == ("ann", 2, "FINISHED")
    assert failed.error_class == "TableNotExist"
    assert (failed.line, failed.column) == (1, 15)
    assert "nowhere" in (failed.error or "")
    assert "hush" not in failed.text
    assert [one.principal for one in gateway.recent.newest(bob.owner)] == ["bob"]
    assert gateway.recent.find(failed.handle) is failed


def test_sessions_and_statements_are_their_owners_and_administrators_to_see(gateway: Gateway) -> None:
    ann, bob, root = Caller(principal="ann"), Caller(principal="bob"), Caller(principal="root", administrator=True)
    mine = gateway.open_session("mine", caller=ann)
    gateway.open_session("other", caller=bob)
    assert [one.handle for one in gateway.sessions(ann)] == [mine]
    assert len(gateway.sessions(root)) == 2
    with pytest.raises(OperationNotExist):
        gateway.running_statement("no-such", caller=root)


def test_completion_needs_no_session(trips: Gateway) -> None:
    assert trips.complete(None, "SELECT * FROM tr", 16) == ["trips"]
    assert trips.complete(None, "SELECT i FROM trips", 8)[0] == "id"


def test_a_jobs_rate_and_lag_come_from_its_points() -> None:
    points = [JobPoint(float(at), at, at * 10, None) for at in range(0, 100, 5)]
    assert rate(points) == 10.0
    assert rate(points[:1]) is None
    lags = [JobLag(snapshots=8, records=120), JobLag(snapshots=3, records=60)]
    points = [JobPoint(float(at), at, at, lag) for at, lag in enumerate(lags)]
    assert lag_unit(points) == "records"
    drawn = lag_line(points, "records")
    assert drawn is not None
    assert (drawn.most, drawn.last) == (120.0, 60.0)
    assert lag_unit([JobPoint(0.0, 0, 0, JobLag(snapshots=8))]) == "snapshots"


def test_a_lag_is_one_sum_for_each_unit_however_it_was_written() -> None:
    """The page took the largest number of the text, whatever its unit, and the metric added what the sources told."""
    assert JobLag.parse("5 snapshots, 120 records, 3 snapshots") == JobLag(snapshots=8, records=120)
    assert str(JobLag(snapshots=8, records=120)) == "8 snapshots, 120 records"
    assert JobLag.parse("0 snapshots") == JobLag(snapshots=0)
    assert JobLag.parse(None) is JobLag.parse("") is None
    two_tables: dict[str, list[dict[str, object]]] = {
        "0": [{"snapshotsBehind": 5}, {"snapshotsBehind": 3}],
        "1": [{"metrics": {"maxOffsetsBehindLatest": "40"}}, {}],
    }
    assert lag_of(two_tables) == JobLag(snapshots=8, records=40)
    assert farthest([JobLag(snapshots=8), JobLag(records=4), JobLag(snapshots=2, records=9)]) == JobLag(snapshots=8, records=9)
    assert farthest([]) is None
