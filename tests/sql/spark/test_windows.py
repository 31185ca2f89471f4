"""Windowing table functions give the windows Flink's definitions give, worked out here by hand."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from zoneinfo import ZoneInfo

import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import AnalysisError, LakeError
from sql.spark.session.pool import SparkPool

pytestmark = pytest.mark.spark
EPOCH = dt.datetime(1970, 1, 1)
BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = 60_000

Span = tuple[int, int]


def floor(at: int, size: int, offset: int) -> int:
    return at - (at - offset) % size


def tumble(at: int, size: int, offset: int = 0) -> list[Span]:
    return hop(at, size, size, offset)


def hop(at: int, slide: int, size: int, offset: int = 0) -> list[Span]:
    last = floor(at, slide, offset)
    return [(start, start + size) for start in range(last, at - size, -slide)]


def cumulate(at: int, step: int, size: int, offset: int = 0) -> list[Span]:
    start = floor(at, size, offset)
    return [(start, end) for end in range(floor(at, step, offset) + step, start + size + 1, step)]


def sessions(times: list[int], gap: int) -> list[Span]:
    """The session of each time: windows [t, t + gap) are merged while they touch."""
    merged: list[list[int]] = []
    for at in sorted(times):
        if merged and at <= merged[-1][1]:
            merged[-1][1] = at + gap
        else:
            merged.append([at, at + gap])
    return [next((a, b) for a, b in merged if a <= at <= b - gap) for at in times]


def millis(at: dt.datetime) -> int:
    return (at - EPOCH) // dt.timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def events() -> list[tuple[int, str, dt.datetime | None]]:
    """Times around the epoch, before it, in our days and around a change of clocks; some on the edge of a window, some none."""
    chance = random.Random(7)
    found: list[tuple[int, str, dt.datetime | None]] = []
    for number in range(240):
        start = chance.choice([EPOCH - dt.timedelta(hours=3), dt.datetime(1902, 5, 4), dt.datetime(2024, 3, 31, 0, 30)])
        at = start + dt.timedelta(milliseconds=chance.choice([chance.randrange(4 * 3_600_000), 600_000 * chance.randrange(24)]))
        found.append((number, chance.choice("ab"), None if number % 60 == 59 else at))
    return found


@pytest.fixture
def gateway(lake: Lake, pool: SparkPool, events: list[tuple[int, str, dt.datetime | None]]) -> Iterator[Gateway]:
    made = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1))
    made.start()
    made.run("CREATE TABLE e (id INT, k STRING, ts TIMESTAMP(3), at TIMESTAMP_LTZ(3), s STRING)").close()
    rows = ", ".join(
        f"({n}, '{k}', NULL, NULL, 'x')" if at is None else f"({n}, '{k}', TIMESTAMP '{at}', TIMESTAMP_LTZ '{at}', 'x')"
        for n, k, at in events
    )
    made.run(f"INSERT INTO e VALUES {rows}").close()
    yield made
    made.close()


CASES: list[tuple[str, Callable[[int], list[Span]]]] = [
    ("TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' MINUTES)", lambda at: tumble(at, 10 * MINUTE)),
    ("TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '-90' SECOND)", lambda at: tumble(at, 7 * MINUTE, -90_000)),
    ("TUMBLE(SIZE => INTERVAL '1' DAY, TIMECOL => DESCRIPTOR(ts), DATA => TABLE e, OFFSET => INTERVAL '8:00' HOUR TO MINUTE)",
     lambda at: tumble(at, 1440 * MINUTE, 480 * MINUTE)),
    ("HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '20' MINUTES)", lambda at: hop(at, 5 * MINUTE, 20 * MINUTE)),
    ("HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '3' MINUTES)", lambda at: hop(at, 10 * MINUTE, 3 * MINUTE)),
    ("HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '4' MINUTES, INTERVAL '10' MINUTES, INTERVAL '1' MINUTE)",
     lambda at: hop(at, 4 * MINUTE, 10 * MINUTE, MINUTE)),
    ("CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)", lambda at: cumulate(at, 2 * MINUTE, 10 * MINUTE)),
    ("CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '30' MINUTES, INTERVAL '1' HOUR, INTERVAL '-15' MINUTES)",
     lambda at: cumulate(at, 30 * MINUTE, 60 * MINUTE, -15 * MINUTE)),
]  # fmt: skip


@pytest.mark.parametrize("every", [pytest.param(2, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_every_row_is_in_flinks_windows(gateway: Gateway, events: list[tuple[int, str, dt.datetime | None]], every: int) -> None:
    for call, windows in CASES[1 % every :: every]:
        rows = gateway.run(f"SELECT id, window_start, window_end, window_time FROM TABLE({call})").collect()
        expected = [(n, start, end, end - 1) for n, _, at in events if at is not None for start, end in windows(millis(at))]
        assert sorted((n, millis(a), millis(b), millis(c)) for n, a, b, c in rows) == sorted(expected), call
    for keys, part in (("", lambda k: ""), ("PARTITION BY k", lambda k: k)):
        expected = []
        for key in {part(k) for _, k, _ in events}:
            mine = [(n, millis(at)) for n, k, at in events if at is not None and part(k) == key]
            spans = sessions([at for _, at in mine], 10 * MINUTE)
            expected += [(n, start, end, end - 1) for (n, _), (start, end) in zip(mine, spans, strict=True)]
        rows = gateway.run(
            f"SELECT id, window_start, window_end, window_time FROM TABLE(SESSION(TABLE e {keys}, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
        ).collect()
        assert sorted((n, millis(a), millis(b), millis(c)) for n, a, b, c in rows) == sorted(expected), keys


def test_windows_of_instants_lie_on_the_sessions_clock(gateway: Gateway, events: list[tuple[int, str, dt.datetime | None]]) -> None:
    session = gateway.open_session(None, {"table.local-time-zone": "Europe/Berlin"})
    found = gateway.run(
        "SELECT id, window_start, window_time FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(at), INTERVAL '1' HOUR)) "
        "WHERE window_start >= TIMESTAMP '2024-01-01'",
        session=session,
    )
    assert ["LOCAL" in c.type.sql() for c in found.columns] == [False, False, True]
    expected = {}
    for number, _, at in events:
        if at is not None and at.year == 2024:
            clock = at.replace(tzinfo=dt.UTC).astimezone(BERLIN).replace(tzinfo=None)
            start = EPOCH + dt.timedelta(milliseconds=floor(millis(clock), 60 * MINUTE, 0))
            last = (start + dt.timedelta(minutes=60, milliseconds=-1)).replace(tzinfo=BERLIN).astimezone(dt.UTC)
            expected[number] = (start, last)
    assert {n: (start, time) for n, start, time in found.collect()} == expected
    assert len(expected) > 50


def test_windows_are_grouped_joined_ranked_and_nested(gateway: Gateway, events: list[tuple[int, str, dt.datetime | None]]) -> None:
    window = "TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
    counted = gateway.run(f"SELECT window_start, window_end, k, count(*) FROM {window} GROUP BY window_start, window_end, k").collect()
    expected = Counter((*tumble(millis(at), 10 * MINUTE)[0], k) for _, k, at in events if at is not None)
    assert {(millis(a), millis(b), k): n for a, b, k, n in counted} == expected
    top = gateway.run(
        f"""SELECT window_start, id FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY id DESC) AS n
            FROM {window}) WHERE n = 1"""
    ).collect()
    assert {millis(a): n for a, n in top} == {tumble(millis(at), 10 * MINUTE)[0][0]: n for n, _, at in events if at is not None}
    joined = gateway.run(
        f"""WITH l AS (SELECT * FROM {window} WHERE k = 'a'), r AS (SELECT * FROM {window} WHERE k = 'b')
            SELECT count(*) FROM l JOIN r ON l.window_start = r.window_start AND l.window_end = r.window_end"""
    ).collect()
    of: Counter[tuple[int, str]] = Counter((tumble(millis(at), 10 * MINUTE)[0][0], k) for _, k, at in events if at is not None)
    assert joined == [(sum(n * of[start, "b"] for (start, k), n in of.items() if k == "a"),)]
    nested = gateway.run(
        f"""SELECT window_start, sum(n) FROM TABLE(TUMBLE((SELECT window_time AS t, count(*) AS n FROM {window}
            GROUP BY window_start, window_end, window_time), DESCRIPTOR(t), INTERVAL '1' DAY)) GROUP BY window_start, window_end"""
    ).collect()
    assert {millis(a): n for a, n in nested} == Counter(tumble(millis(at), 1440 * MINUTE)[0][0] for _, _, at in events if at is not None)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("TUMBLE(TABLE e, DESCRIPTOR(s), INTERVAL '1' HOUR)", "no TIMESTAMP"),
        ("TUMBLE(TABLE e, DESCRIPTOR(gone), INTERVAL '1' HOUR)", "gone"),
        ("CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '1' HOUR)", "whole multiple"),
        ("TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "days, hours, minutes and seconds"),
        ("TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '0' SECOND)", "longer than nothing"),
        ("TUMBLE(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' DAY)", "no PARTITION BY"),
        ("HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '1' DAY)", "SIZE is expected"),
    ],
)
def test_what_is_no_window_is_refused(gateway: Gateway, call: str, says: str) -> None:
    with pytest.raises(LakeError, match=says):
        gateway.run(f"SELECT * FROM TABLE({call})").collect()


def test_the_old_form_names_the_new_one(gateway: Gateway) -> None:
    with pytest.raises(LakeError, match=r"stands in FROM: FROM TABLE\(TUMBLE"):
        gateway.run("SELECT count(*) FROM e GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)")
    with pytest.raises(AnalysisError):
        gateway.run("SELECT nothing FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR))").collect()
