"""How far a job's tables are ahead of it: from its sources' offsets, which say nothing of what is there beside them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.gateway import Gateway
from jobs.run import lag_of
from lake import Lake
from model.identifier import Identifier
from model.work.job_lag import JobLag
from sql.dialect import parse_one
from sql.spark.streaming.source_tables import SourceTables
from sql.statements.base import ExecutionContext
from tests.sql.tables import context_of


@pytest.fixture
def context(lake: Lake) -> ExecutionContext:
    return context_of(lake)


def _told(context: ExecutionContext, query: str, *ends: dict[str, Any]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [{"description": "PythonMicroBatchStream@1", "endOffset": end} for end in ends]
    SourceTables(context, parse_one(query)).complete(told)
    return told


def test_unread_commits_count_and_merges_do_not(context: ExecutionContext, gateway: Gateway) -> None:
    for text in ("CREATE TABLE t (id INT)", *(f"INSERT INTO t VALUES ({n})" for n in range(4)), "CALL sys.compact('t')"):
        gateway.run(text).close()
    (told,) = _told(context, "SELECT * FROM t", {"snapshot": 3})
    assert (told["description"], told["latestOffset"], lag_of({"0": [told]})) == ("default.t", {"snapshot": 6}, JobLag(snapshots=2))
    assert lag_of({"0": _told(context, "SELECT * FROM t", {"snapshot": 5})}) == JobLag(snapshots=0)


def test_of_several_tables_each_offset_finds_its_own(context: ExecutionContext, gateway: Gateway) -> None:
    for name in ("t", "u"):
        gateway.run(f"CREATE TABLE {name} (id INT)").close()
        for n in range(3):
            gateway.run(f"INSERT INTO {name} VALUES ({n})").close()
    keys = {}
    for name in ("t", "u"):
        snapshot = context.lake.open(Identifier("default", name)).latest()
        assert snapshot is not None
        keys[name] = snapshot.key
    told = _told(context, "SELECT * FROM t JOIN u USING (id)", {"snapshot": 4, "after": keys["u"]}, {"snapshot": 4, "after": keys["t"]})
    assert [one["description"] for one in told] == ["default.u", "default.t"]
    (unknown,) = _told(context, "SELECT * FROM t JOIN u USING (id)", {"snapshot": 2, "after": "somebody else's"})
    assert "latestOffset" not in unknown
    assert lag_of({"0": [unknown]}) is None


def test_a_dropped_table_tells_nothing(context: ExecutionContext, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)").close()
    tables = SourceTables(context, parse_one("SELECT * FROM t"))
    gateway.run("DROP TABLE t").close()
    told: list[dict[str, Any]] = [{"endOffset": {"snapshot": 2}}, {"endOffset": {"topic": {"0": 4}}}]
    tables.complete(told)
    assert lag_of({"0": told}) in (None, JobLag(snapshots=0))
