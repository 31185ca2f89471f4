"""Columns as Spark writes them for every reader."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from sql.spark.session.pool import SparkPool
from sql.spark.write.assign import physical
from sql.spark.write.sorting import Order, sort_files
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.short import diagonal
from tests.sql.spark.conftest import Run
from tests.sql.tables import make_table

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


VALUES: dict[str, tuple[str, Any]] = {
    "TINYINT": ("CAST(7 AS TINYINT)", 7),
    "BIGINT": ("7L", 7),
    "DECIMAL(20, 2)": ("1.25", Decimal("1.25")),
    "STRING": ("'a'", "a"),
    "VARCHAR(3)": ("'a'", "a"),
    "BYTES": ("X'00ff'", b"\x00\xff"),
    "BOOLEAN": ("TRUE", True),
    "DATE": ("DATE '2024-02-29'", dt.date(2024, 2, 29)),
    "TIME(0)": ("TIME '10:00:00.567'", dt.time(10)),
    "TIME(3)": ("TIME '10:00:00.567'", dt.time(10, microsecond=567_000)),
    "TIMESTAMP(0)": ("TIMESTAMP '2024-02-29 10:00:00.567891'", dt.datetime(2024, 2, 29, 10)),
    "TIMESTAMP(3)": ("TIMESTAMP '2024-02-29 10:00:00.567891'", dt.datetime(2024, 2, 29, 10, microsecond=567_000)),
    "TIMESTAMP(5)": ("TIMESTAMP '2024-02-29 10:00:00.567891'", dt.datetime(2024, 2, 29, 10, microsecond=567_890)),
    "TIMESTAMP_LTZ(3)": ("TIMESTAMP_LTZ '2024-02-29 10:00:00.567891'", dt.datetime(2024, 2, 29, 10, microsecond=567_000, tzinfo=dt.UTC)),
    "TIMESTAMP_LTZ(6)": ("TIMESTAMP_LTZ '2024-02-29 10:00:00.567891'", dt.datetime(2024, 2, 29, 10, microsecond=567_891, tzinfo=dt.UTC)),
}
"""By type: an expression that Spark stores, and the value that the column has then."""


WAYS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "column": ("{}", "x", lambda value: value),
    "element": ("ARRAY<{}>", "ARRAY(x)", lambda value: [value]),
    "field": ("ROW<x {}>", "STRUCT(x)", lambda value: {"x": value}),
    "key and value": ("MAP<{0}, {0}>", "MAP(x, x)", lambda value: [(value, value)]),
    "key": ("MAP<{}, INT>", "MAP(x, 1)", lambda value: [(value, 1)]),
    "key inside": ("ARRAY<ROW<m MAP<{}, INT>>>", "ARRAY(STRUCT(MAP(x, 1)))", lambda value: [{"m": [(value, 1)]}]),
}
"""Where a type stands in others: the type, an expression of it, and its value."""


@pytest.mark.parametrize(("way", "format_"), diagonal(WAYS, ["orc", "parquet"]))
def test_types_are_stored_alike_wherever_they_stand_in_others(run: Run, way: str, format_: str) -> None:
    """They lie in files by rules of their own, and what Spark and what Arrow writes is read with Spark and without it."""
    spelled, made, value_of = WAYS[way]
    in_orc = format_ == "orc" and way != "column"  # whose writer has no TIME inside others
    values = {type_: value for type_, value in VALUES.items() if not (in_orc and type_.startswith("TIME("))}
    columns = ", ".join(f"c{at} {spelled.format(type_)}" for at, type_ in enumerate(values))
    run(f"CREATE TABLE t (id INT, {columns}) WITH ('bucket' = '-1', 'file.format' = '{format_}')")
    query = ", ".join(made.replace("x", f"x{at}") for at in range(len(values)))
    query = query if way != "field" else ", ".join(f"STRUCT(x{at} AS x)" for at in range(len(values)))
    given = ", ".join(f"{expression} AS x{at}" for at, (expression, _) in enumerate(values.values()))
    run(f"INSERT INTO t SELECT 1, {query} FROM (SELECT {given}) UNION ALL SELECT CAST(NULL AS INT){', NULL' * len(values)}")
    wanted = {type_: value_of(value) for type_, (_, value) in values.items()}
    for where in ("id = 1", "id + 0 = 1"):
        ((_, *row),) = run(f"SELECT * FROM t WHERE {where}")
        assert dict(zip(values, row, strict=True)) == wanted
    assert run("SELECT * FROM t WHERE id + 0 IS NULL") == [(None,) * (len(values) + 1)]


def test_rows_lie_in_the_bucket_of_what_is_stored(run: Run) -> None:
    """A filter on the bucket key looks into one bucket only."""
    for type_, literal in (("TIMESTAMP(0)", "TIMESTAMP"), ("TIMESTAMP(5)", "TIMESTAMP"), ("TIME(1)", "TIME")):
        run(f"CREATE TABLE t (at {type_}) WITH ('bucket' = '16', 'bucket-key' = 'at')")
        day = "2024-02-29 " if literal == "TIMESTAMP" else ""
        texts = [f"{day}10:00:{second:02}.567891" for second in range(4)]
        rows = ", ".join(f"({literal} '{text}')" for text in texts)
        run(f"INSERT INTO t SELECT * FROM (VALUES {rows}) AS v (x) WHERE x IS NOT NULL")
        digits = int(type_[-2])
        found = [run(f"SELECT count(1) FROM t WHERE at = {literal} '{text[: len(text) - 6 + digits].rstrip('.')}'") for text in texts]
        assert found == [[(1,)]] * len(texts), type_
        run("DROP TABLE t")


def test_rows_of_an_earlier_version_stay_what_and_where_they_are(lake: Lake, pool: SparkPool) -> None:
    """A rewrite cuts nothing: the row would belong to another bucket, whose files are not its own to change."""
    table = make_table(lake, options={"bucket": "16", "bucket-key": "at"}, at="TIME(0)")
    times = [dt.time(10, 0, second, 567_000) for second in range(9)]
    batch = pa.RecordBatch.from_arrays([pa.array(times, pa.time32("ms"))], schema=arrow_schema(table.schema.fields))
    written = tuple(write_batches(table.files, table.schema, [batch]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))
    entries = list(table.files.live_entries(table.latest()))
    with pool.lease().running("statement") as session:
        files = sort_files(session, table, entries, Order(columns=("at",), strategy="order", text_bytes=8, local=True))
    rows = [pq.read_table(f"{table.location}/bucket-{new.bucket}/{new.file.file_name}").column("at").to_pylist() for new in files]
    assert sorted(time for of_file in rows for time in of_file) == times
    assert sorted(new.bucket for new in files) == sorted({entry.bucket for entry in entries})


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("MAP<FLOAT, INT>", "MAP[16777217, 1, 16777216, 2]"),
        ("ARRAY<MAP<INT, INT>>", "ARRAY[MAP[1.5, 1, 1.2, 2]]"),
        (
            "ROW<x MAP<STRING, MAP<DATE, INT>>>",
            "ROW(MAP['', MAP[TIMESTAMP '2024-01-01 00:00:00', 1, TIMESTAMP '2024-01-01 01:00:00', 2]])",
        ),
    ],
)
def test_no_map_is_stored_whose_keys_become_one(run: Run, type_: str, value: str) -> None:
    run(f"CREATE TABLE t (a {type_}) WITH ('bucket' = '-1')")
    with pytest.raises(LakeError, match=r"^\[DUPLICATED_MAP_KEY\] A MAP would have the key .* twice\.$"):
        run(f"INSERT INTO t SELECT {value}")
    run(f"INSERT INTO t SELECT {value.replace('16777216', '3').replace('1.2', '3').replace('01-01 01', '01-02 01')}")
    assert run("SELECT count(a) FROM t") == [(1,)]
