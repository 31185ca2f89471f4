"""Columns as Spark writes them for every reader."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from gateway.gateway import Gateway
from model.schema.schema import column, new_schema
from sql.spark.write.assign import physical
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("called", ["TIMESTAMP_NTZ", "TIMESTAMP_LTZ"])
def test_a_timestamps_unit_does_not_hang_on_whose_session_is_active(spark: SparkSession, called: str) -> None:
    """Java Paimon takes TIMESTAMP(3) for milliseconds; of a name like "timestamp" the active session's settings say what it is."""
    schema = new_schema([column(f"t{precision}", f"TIMESTAMP({precision})") for precision in (0, 3, 6)])
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", called)
    sessions = spark._jvm.SparkSession  # type: ignore[union-attr] # a JVM runs
    frame = session.sql(
        "SELECT TIMESTAMP_NTZ '2024-02-29 12:34:56' AS t0, TIMESTAMP_NTZ '2024-02-29 12:34:56.123' AS t3, current_date AS t6"
    )
    sessions.setActiveSession(session._jsparkSession)
    try:
        types = [field.dataType for field in frame.select(*physical(frame, schema)).schema.fields]
    finally:
        sessions.clearActiveSession()
    assert types == [st.TimestampType(), st.TimestampType(), st.TimestampNTZType()]


@pytest.mark.parametrize("way", ["INSERT INTO t SELECT 1, x, x, x, ARRAY(x), MAP('k', x), STRUCT(x) FROM s", "update", "merge"])
def test_a_time_has_as_many_digits_as_its_column(run: Run, way: str) -> None:
    """Rows that show the same time are the same time to GROUP BY and to `=`."""
    columns = "a TIME(0), b TIME(1), c TIME(3), l ARRAY<TIME(0)>, m MAP<STRING, TIME(0)>, r ROW<x TIME(2)>"
    run(f"CREATE TABLE t (id INT, {columns}) WITH ('bucket' = '-1', 'rows.erasable' = 'true')")
    run("CREATE TABLE s (x TIME(3)) WITH ('bucket' = '-1')")
    run("INSERT INTO s VALUES (TIME '10:00:00.567')")
    if way.startswith("INSERT"):
        run(way)
    else:
        run("INSERT INTO t VALUES (1, TIME '10:00:00', TIME '10:00:00', TIME '10:00:00', ARRAY[TIME '10:00:00'], NULL, NULL)")
        cast = "CAST('10:00:00.567' AS TIME)"
        changes = f"a = {cast}, b = {cast}, c = {cast}, l = ARRAY({cast}), m = MAP('k', {cast}), r = STRUCT({cast})"
        if way == "update":
            run(f"UPDATE t SET {changes} WHERE id = 1")
        else:
            run(f"MERGE INTO t USING s ON t.id = 1 WHEN MATCHED THEN UPDATE SET {changes}")
    cut = {digits: dt.time(10, 0, 0, int("567"[:digits].ljust(6, "0"))) for digits in range(4)}
    assert run("SELECT a, b, c, l[0], m['k'], r.x FROM t") == [(cut[0], cut[1], cut[3], cut[0], cut[0], cut[2])]
    assert run("SELECT count(1) FROM t WHERE a = TIME '10:00:00' AND l[0] = a AND b = TIME '10:00:00.5'") == [(1,)]


def test_times_given_as_literals_are_the_same_to_every_way(run: Run) -> None:
    run("CREATE TABLE t (a TIME(0)) WITH ('bucket' = '-1')")
    run("INSERT INTO t VALUES (TIME '10:00:00.5'), (TIME '10:00:00')")
    run("INSERT INTO t VALUES (CAST('10:00:00.9' AS TIME(3)))")
    assert run("SELECT a, count(1) FROM t GROUP BY a") == [(dt.time(10), 3)]
    assert run("SELECT count(1) FROM t WHERE a = TIME '10:00:00'") == [(3,)]


def test_clock_times_that_a_zone_has_not_are_cut_as_they_are(run: Run, on_spark: Gateway) -> None:
    """At 02:30 of 2024-03-31 there was no such time in Berlin."""
    run("CREATE TABLE t (id INT, at TIMESTAMP(3)) WITH ('bucket' = '-1')")
    session = on_spark.open_session(None, {"table.local-time-zone": "Europe/Berlin"})
    moment = "TIMESTAMP '2024-03-31 02:30:00.123456'"
    run(f"INSERT INTO t SELECT 1, CAST({moment} AS TIMESTAMP(3))", session=session)
    run(f"INSERT INTO t SELECT 2, {moment} + INTERVAL '0' SECOND", session=session)
    wanted = dt.datetime(2024, 3, 31, 2, 30, 0, 123000)
    assert run("SELECT id, at FROM t ORDER BY id") == [(1, wanted), (2, wanted)]
