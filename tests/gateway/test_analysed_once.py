"""What a client that prepares a query had analysed is run as it is, unless anything it rests on has changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from catalog import CatalogStore
from gateway.gateway import Gateway
from gateway.limits import GatewayLimits
from lake import Lake
from model.errors import LakeError
from sql.spark.session.pool import SparkPool
from tests.gateway.held import Held, in_background
from tests.gateway.test_executor import wait_for
from tests.lake.access.test_access import user
from tests.short import short
from tests.sql.tables import make_table

pytestmark = pytest.mark.spark
QUERY = "SELECT sum(id) AS total, max(s) FROM t"


@pytest.fixture
def on_spark(on_spark: Gateway, lake: Lake) -> Gateway:
    """With a table of two rows."""
    make_table(lake, id="INT", s="STRING")
    on_spark.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").close()
    return on_spark


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Spark was given to analyse."""
    found: list[str] = []
    real: Callable[..., Any] = SparkSession.sql

    def sql(session: SparkSession, text: str, *rest: Any, **more: Any) -> Any:
        found.append(text)
        return real(session, text, *rest, **more)

    monkeypatch.setattr(SparkSession, "sql", sql)
    return found


def prepared_and_run(gateway: Gateway, text: str, between: str = "", session: str | None = None) -> list[tuple[Any, ...]]:
    with gateway.run(text, session=session, describe=True) as described:
        kept = described.analysed
    if between:
        gateway.run(between, session=session).close()
    return gateway.run(text, session=session, analysed=kept).collect()


def test_spark_analyses_a_query_once(on_spark: Gateway, texts: list[str]) -> None:
    assert prepared_and_run(on_spark, QUERY) == [(3, "b")]
    assert prepared_and_run(on_spark, "SELECT 0 + 1 AS one") == [(1,)]
    assert len([text for text in texts if "total" in text]) == len([text for text in texts if "one" in text]) == 1


@pytest.mark.parametrize(
    ("between", "rows"),
    [
        ("INSERT INTO t VALUES (10, 'z')", [(13, "z")]),
        ("INSERT OVERWRITE t VALUES (7, 'q')", [(7, "q")]),
        ("DROP TABLE t; CREATE TABLE t (id BIGINT, s STRING)", [(None, None)]),
        ("ALTER TABLE t DROP s; ALTER TABLE t ADD s STRING", [(3, None)]),
        ("CREATE DATABASE other; CREATE TABLE other.t (id INT, s STRING); USE other", [(None, None)]),
    ],
)
def test_what_has_changed_since_is_seen(on_spark: Gateway, texts: list[str], between: str, rows: list[tuple[Any, ...]]) -> None:
    session = on_spark.open_session()
    assert prepared_and_run(on_spark, QUERY, between, session) == rows
    assert len([text for text in texts if "total" in text]) == 2


def test_the_zone_of_the_session_is_seen(on_spark: Gateway) -> None:
    session = on_spark.open_session()
    query = "SELECT hour(CAST(TIMESTAMP_LTZ '2024-01-01 00:00:00Z' AS TIMESTAMP)) AS h"
    assert prepared_and_run(on_spark, query, session=session) == [(0,)]
    assert prepared_and_run(on_spark, query, "SET 'table.local-time-zone' = 'Asia/Tokyo'", session) == [(9,)]


@pytest.mark.parametrize("query", ["SELECT id FROM t$snapshots", "SELECT sum(id) FROM v", "SELECT sum(id) FROM t VERSION AS OF 1"])
def test_what_is_not_a_table_as_it_stands_is_analysed_anew(on_spark: Gateway, query: str) -> None:
    on_spark.run("CREATE VIEW v AS SELECT id FROM t").close()
    if "$" in query:
        query = "SELECT sum(snapshot_id) FROM t$snapshots"
    with on_spark.run(query, describe=True) as described:
        assert described.analysed is None


_CHANGED = {
    "a mask": "CREATE MASKING POLICY m ON t (s) USING (substring(s, 1, 0))",
    "a mask that goes": "DROP MASKING POLICY other ON t",
    "a row policy": "CREATE POLICY p ON t USING (id = 1)",
    "a grant": "REVOKE SELECT ON t FROM ada; GRANT SELECT (id) ON t TO ada",
}


@pytest.mark.parametrize("changed", short(_CHANGED, ["a mask", "a grant"]))
def test_rules_that_another_server_makes_while_it_waits_for_spark_hold(
    catalog: CatalogStore, warehouse: Path, lake: Lake, pool: SparkPool, held: Callable[..., Held], changed: str
) -> None:
    """The answer is what somebody would get who asked now."""
    there = Lake(catalog, str(warehouse))
    one, other = (Gateway(each, pool, limits=GatewayLimits(spark_statements=1)) for each in (lake, there))
    one.start()
    other.start()
    try:
        make_table(lake, id="INT", s="STRING")
        other.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").close()
        secret = user(lake, "ada")
        other.run("GRANT SELECT ON t TO ada; CREATE MASKING POLICY other ON t (s) TO bob USING (NULL)").close()
        there.access.forget()
        lake.access.forget()
        ada = lake.access.caller(secret)
        with one.run(QUERY, caller=ada, describe=True) as described:
            kept = described.analysed
        assert kept is not None
        first = held("first", needs_spark=True)
        before = in_background(lambda: one.run("SELECT first()"))
        assert first.reached.wait(60)
        waiting = in_background(lambda: one.run(QUERY, caller=ada, analysed=kept).collect())
        wait_for(lambda: one.queued()["spark"] == 1)
        other.run(_CHANGED[changed]).close()
        time.sleep(1.1)  # so long a server may not have heard of it
        first.let_go.set()
        got = waiting()
        before().close()
        try:
            now: object = other.run(QUERY, caller=there.access.caller(secret)).collect()
        except LakeError as refused:
            now = refused
        assert got == now if isinstance(now, list) else isinstance(got, type(now)), now
        assert isinstance(now, list) is (changed != "a grant"), now
        assert (now == [(3, "b")]) is (changed == "a mask that goes")
    finally:
        one.close()
        other.close()
        there.close()
