"""Rows sent in one go are stored as the same rows sent one by one, or are refused as they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sluice
from sluice.columns import column
from tests.running import RunningServer

BERLIN = dt.timezone(dt.timedelta(hours=2))
VALUES: tuple[Any, ...] = (
    True, 5, 2**53 + 1, 1.5, -2.5, 1e300, float("inf"), Decimal("1.005"), Decimal("-1.005"), "text", b"bytes",
    dt.date(2024, 2, 29), dt.time(1, 2, 3, 4567), dt.datetime(2024, 7, 1, 12), dt.datetime(1960, 7, 1, 12, 0, 0, 1999),
    dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30, fold=1), dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC),
    dt.datetime(1960, 7, 1, 12, 0, 0, 1999, tzinfo=BERLIN), dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC),
)  # fmt: skip
TYPES = {
    "BOOLEAN": pa.bool_(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    "DECIMAL(10, 2)": pa.decimal128(10, 2), "STRING": pa.string(), "BYTES": pa.binary(), "DATE": pa.date32(), "TIME(3)": pa.time32("ms"),
    "TIMESTAMP(3)": pa.timestamp("ms"), "TIMESTAMP(6)": pa.timestamp("us"), "TIMESTAMP_LTZ(3)": pa.timestamp("ms", "UTC"),
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("every", [pytest.param(3, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_rows_in_one_go_are_what_each_would_be_alone(server: RunningServer, database: str, zone: str, every: int) -> None:
    # The other pairs go as a statement by either way, and in one zone only times can differ from the other.
    pairs = [
        (number, value)
        for number, (name, type_) in enumerate(TYPES.items())
        for value in VALUES
        if column([value], type_, zone) is not None and (zone == "UTC" or name.startswith("TIMESTAMP"))
    ]
    assert len(pairs) > 15
    pairs = pairs[::every]
    differ = []
    with sluice.connect(server.url, database=database, settings={"table.local-time-zone": zone}) as conn:
        conn.execute(f"CREATE TABLE t (id INT, {', '.join(f'c{number} {name}' for number, name in enumerate(TYPES))})")
        for id_, (number, value) in enumerate(pairs, 1):
            text = f"INSERT INTO t (id, c{number}) VALUES (?, ?)"
            alone = taken(lambda text=text, row=[id_, value]: conn.execute(text, row))  # type: ignore[misc]
            together = taken(lambda text=text, row=[-id_, value]: conn.cursor().executemany(text, [row, [0, None]]))  # type: ignore[misc]
            differ += [(pairs[id_ - 1], alone, together)] * (alone != together)
        rows = {row[0]: row[1:] for row in conn.execute("SELECT * FROM t").fetchall()}
    assert differ == []
    assert [(pair, rows.get(at), rows.get(-at)) for at, pair in enumerate(pairs, 1) if repr(rows.get(at)) != repr(rows.get(-at))] == []


def taken(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except sluice.DatabaseError:
        return False
    return True


@pytest.mark.spark
def test_one_value_that_needs_the_server_changes_no_other(server: RunningServer, database: str) -> None:
    moment = dt.datetime(2024, 7, 1, 12)
    with sluice.connect(server.url, database=database, settings={"table.local-time-zone": "Europe/Berlin"}) as conn:
        conn.execute("CREATE TABLE t (id INT, z TIMESTAMP_LTZ(3), t TIMESTAMP(3))")
        text = "INSERT INTO t VALUES (?, ?, ?)"
        conn.execute(text, [1, moment, moment.replace(tzinfo=dt.UTC)])
        conn.cursor().executemany(text, [(2, moment, moment.replace(tzinfo=dt.UTC))])
        conn.cursor().executemany(
            text, [(3, moment, moment.replace(tzinfo=dt.UTC)), (4, None, sluice.Typed("TIMESTAMP", "2024-07-01T14:00:00"))]
        )
        rows = conn.execute("SELECT z, t FROM t WHERE id < 4").fetchall()
    assert [(z.astimezone(dt.UTC), t) for z, t in rows] == [(moment.replace(hour=10, tzinfo=dt.UTC), moment.replace(hour=14))] * 3


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.date32(), 5), (pa.date32(), dt.datetime(2024, 2, 29)), (pa.timestamp("ms"), 1_700_000_000), (pa.time32("ms"), 5),
        (pa.string(), b"x"), (pa.binary(), "x"), (pa.float64(), True), (pa.bool_(), 1), (pa.int64(), True),
        (pa.timestamp("us"), dt.date(2024, 2, 29)),
        (pa.int32(), 2**31), (pa.decimal128(4, 2), Decimal(100)), (pa.float32(), 2**53 + 1), (pa.int64(), float("nan")),
        (pa.list_(pa.date32()), [5]), (pa.struct([("a", pa.int32())]), {"b": 1}), (pa.map_(pa.string(), pa.string()), {"a": b"x"}),
        (pa.time32("ms"), dt.time(1, tzinfo=dt.UTC)), (pa.string(), "\ud800"), (pa.duration("s"), dt.timedelta(1)),
    ],
)  # fmt: skip
def test_what_is_of_another_kind_than_its_column_is_the_server_s_to_judge(type_: pa.DataType, value: Any) -> None:
    assert column([None, value], type_, "UTC") is None


def test_times_are_read_in_the_session_s_zone_also_inside_of_others() -> None:
    noon = dt.datetime(2024, 7, 1, 12)
    zoned = pa.list_(pa.timestamp("us", "UTC"))
    made = column([[noon, None], None], zoned, "Europe/Berlin")
    assert made is not None
    assert made.cast(pa.list_(pa.timestamp("us"))).to_pylist() == [[noon.replace(hour=10), None], None]
    assert column([noon], pa.timestamp("us", "UTC"), "GMT+2 of some kind") is None
    assert column([noon.replace(tzinfo=dt.UTC)], pa.timestamp("us", "UTC"), "GMT+2 of some kind") is not None


@pytest.mark.spark
def test_a_row_that_fails_says_how_many_took_effect(conn: sluice.Connection) -> None:
    conn.execute("CREATE TABLE t (id INT)")
    cursor = conn.cursor()
    with pytest.raises(sluice.DatabaseError, match=r"the first 2 of 4 rows of values") as failed:
        cursor.executemany("INSERT INTO t SELECT ?", [[1], [2], ["three"], [4]])
    assert (cursor.rowcount, failed.value.error_class is not None) == (2, True)
    assert conn.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)
    cursor.executemany(f"/* many */ INSERT INTO sluice.`{conn.database}`.t VALUES (?)", [[3], [4]])
    assert conn.execute("SELECT COUNT(*) FROM t$snapshots").fetchone() == (3,)
