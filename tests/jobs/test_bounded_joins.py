"""Joins over streams that end: at the end rows of an outer join that found no partner come out, as with Flink's last watermark."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import httpx
import pytest

from tests.following import patiently, streamed
from tests.running import RunningServer
from tests.short import short
from tests.torture.job_campaign import start_job
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DATABASE = "bounded_joins"
START = dt.datetime(2024, 1, 1)
BOUND = "1000"
"""The watermark of each table's last snapshot that its streams give; one more snapshot lies beyond it."""
HINT = f"/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark' = '{BOUND}') */"
KINDS = ("INNER", "LEFT", "RIGHT", "FULL")
Row = tuple[int, int | None, int]
"""``id, k, ts``: the time in seconds since the start."""
Pair = tuple[int | None, int | None]


def rows_of(seed: int) -> list[Row]:
    """Rows in the order of their time, some of them at one time, and some without a key."""
    rng = random.Random(seed)
    times = sorted(rng.choices(range(600), k=40))
    return [(seed * 100 + n, rng.choice([0, 1, 2, 3, None]), at) for n, at in enumerate(times)]


ROWS = {name: rows_of(number) for number, name in enumerate(("l", "r"), start=1)}


def join(kind: str, matches: Callable[[Row, Row], bool]) -> Counter[Pair]:
    """The ids of the pairs, and of rows without a partner where the kind of the join gives them."""
    left, right = ROWS["l"], ROWS["r"]
    pairs: list[Pair] = [(a[0], b[0]) for a in left for b in right if a[1] is not None and a[1] == b[1] and matches(a, b)]
    if kind in ("LEFT", "FULL"):
        pairs += [(a[0], None) for a in left if a[0] not in {pair[0] for pair in pairs}]
    if kind in ("RIGHT", "FULL"):
        pairs += [(None, b[0]) for b in right if b[0] not in {pair[1] for pair in pairs}]
    return Counter(pairs)


def values(rows: Sequence[Row]) -> str:
    return ", ".join(f"({id_}, {'NULL' if k is None else k}, TIMESTAMP '{START + dt.timedelta(seconds=at)}')" for id_, k, at in rows)


@pytest.fixture(scope="module")
def joined(server: RunningServer) -> Iterator[RunningServer]:
    """Two tables of four snapshots, the last of them beyond the bound."""
    server.sql(f"CREATE DATABASE {DATABASE}")
    for name, rows in ROWS.items():
        table = f"{DATABASE}.{name}"
        server.sql(
            f"CREATE TABLE {table} (id BIGINT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
            " WITH ('bucket' = '1', 'bucket-key' = 'id')"
        )
        last = [(-1, 0, 10_000)]
        parts: list[tuple[Sequence[Row], int]] = [(rows[:15], 100), (rows[15:30], 500), (rows[30:], int(BOUND)), (last, int(BOUND) + 1)]
        for part, watermark in parts:
            server.sql(f"INSERT INTO {table} /*+ OPTIONS('end-input.watermark' = '{watermark}') */ VALUES {values(part)}")
    yield server
    server.sql(f"DROP DATABASE {DATABASE} CASCADE")


def interval_join(kind: str) -> str:
    return f"""SELECT l.id AS a, r.id AS b FROM l {HINT} AS l {kind} JOIN r {HINT} AS r
        ON l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL '10' SECOND AND l.ts + INTERVAL '20' SECOND"""


def window_join(kind: str) -> str:
    sides = [f"(SELECT * FROM TABLE(TUMBLE((SELECT * FROM {t} {HINT}), DESCRIPTOR(ts), INTERVAL '1' MINUTES))) AS {t}" for t in "lr"]
    return f"""SELECT l.id AS a, r.id AS b FROM {sides[0]} {kind} JOIN {sides[1]}
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"""


def keys_join(kind: str) -> str:
    return f"""SELECT l.id AS a, r.id AS b FROM l {HINT} AS l {kind} JOIN r {HINT} AS r
        ON nullif(l.k, 3) = nullif(r.k, 3) AND l.ts >= r.ts - INTERVAL '10' SECOND AND r.ts > l.ts"""


JOINS: dict[str, tuple[Callable[[str], str], Callable[[Row, Row], bool]]] = {
    "interval": (interval_join, lambda a, b: -10 <= b[2] - a[2] <= 20),
    "window": (window_join, lambda a, b: a[2] // 60 == b[2] // 60),
    "keys": (keys_join, lambda a, b: a[1] != 3 and 0 < b[2] - a[2] <= 10),
}
SHORT = {("interval", "FULL"), ("keys", "LEFT")}
EVERY = [pytest.param(name, kind, marks=[] if (name, kind) in SHORT else pytest.mark.torture) for name in JOINS for kind in KINDS]


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_a_join_of_streams_that_end_gives_the_rows_without_a_partner(joined: RunningServer, name: str, kind: str) -> None:
    text, matches = JOINS[name]
    found = Counter((row["a"], row["b"]) for row in streamed(joined.url, text(kind), database=DATABASE))
    assert found == join(kind, matches)


def counted(table: str) -> str:
    rows = f"TABLE(TUMBLE((SELECT * FROM {table} {HINT} WHERE k = 1), DESCRIPTOR(ts), INTERVAL '10' SECONDS))"
    return f"(SELECT window_start, window_end, count(*) AS n FROM {rows} GROUP BY window_start, window_end) AS {table}"


def test_what_a_stage_gives_at_the_end_reaches_the_next(joined: RunningServer) -> None:
    """A join of groups."""
    text = f"""SELECT l.n AS a, r.n AS b FROM {counted("l")} FULL JOIN {counted("r")}
        ON l.window_start = r.window_start AND l.window_end = r.window_end"""
    left, right = (Counter(at // 10 for _, k, at in ROWS[name] if k == 1) for name in "lr")
    expected = Counter((left.get(window), right.get(window)) for window in left.keys() | right.keys())
    assert Counter((row["a"], row["b"]) for row in streamed(joined.url, text, database=DATABASE)) == expected


@pytest.mark.parametrize(("name", "kind"), short(product(JOINS, KINDS), [("interval", "FULL")]))
def test_a_job_of_a_join_of_streams_that_end_writes_them(joined: RunningServer, name: str, kind: str) -> None:
    text, matches = JOINS[name]
    joined.sql(f"DROP TABLE IF EXISTS {DATABASE}.pairs PURGE; CREATE TABLE {DATABASE}.pairs (a BIGINT, b BIGINT)")
    job_id = start_job(joined, f"INSERT INTO pairs {text(kind)}", database=DATABASE)
    assert eventually(lambda: joined.sql(f"DESCRIBE JOB '{job_id}'")[0][2] in ("FINISHED", "FAILED"), 300)
    told = joined.sql(f"DESCRIBE JOB '{job_id}'")
    assert told[0][2] == "FINISHED", told
    assert Counter((a, b) for a, b in joined.sql(f"SELECT a, b FROM {DATABASE}.pairs")) == join(kind, matches)


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("SELECT k FROM l FULL JOIN r USING (k)", {}, "FULL JOIN … USING"),
        ("SELECT l.id FROM l NATURAL FULL JOIN r", {}, "NATURAL FULL JOIN of streams"),
        (interval_join("LEFT"), {"table.local-time-zone": "Europe/Berlin"}, "A LEFT JOIN of streams .* zone Europe/Berlin"),
    ],
)
def test_what_spark_would_answer_wrongly_is_refused(joined: RunningServer, text: str, settings: dict[str, str], told: str) -> None:
    asked = {"statement": text, "mode": "streaming", "database": DATABASE, "settings": settings}
    answer = patiently(lambda: httpx.post(f"{joined.url}/sql", json=asked, timeout=120))
    assert answer.status_code == 400, answer.text
    assert re.search(told, answer.json()["detail"])


def refused(server: RunningServer, text: str) -> httpx.Response:
    """What is answered to a stream that is to be refused."""
    return patiently(lambda: httpx.post(f"{server.url}/sql?mode=streaming&database={DATABASE}", content=text.encode(), timeout=120))


APART = "SELECT l.id, r.id FROM l {hint} l {kind} JOIN r {hint} r ON r.ts BETWEEN l.ts - INTERVAL '2' MINUTE AND l.ts"


@pytest.mark.parametrize("kind", short(["INNER", "LEFT"], ["LEFT"]))
def test_a_join_of_streams_without_an_equality_is_refused_before_there_is_a_job(joined: RunningServer, kind: str) -> None:
    joined.sql(f"CREATE TABLE IF NOT EXISTS {DATABASE}.apart (a BIGINT, b BIGINT)")
    query = APART.format(hint=HINT, kind=kind)
    before = joined.sql("SHOW JOBS")
    for text in (query, f"INSERT INTO apart {query}", f"INSERT INTO apart WITH x AS (SELECT id, ts FROM l {HINT}) {query}"):
        answer = refused(joined, text)
        assert answer.status_code == 400, text
        assert answer.json()["errorClass"] == "UnsupportedStatement", answer.text
        assert "needs an equality" in answer.text
    assert joined.sql("SHOW JOBS") == before


ELSEWHERE = f"{APART.format(hint=HINT, kind='INNER')} WHERE l.k = 1"


@pytest.mark.torture
def test_an_equality_elsewhere_leaves_the_join_to_sparks_planner(joined: RunningServer) -> None:
    answer = refused(joined, ELSEWHERE)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errorClass"] == "AnalysisError", answer.text
    assert "without equality predicate" in answer.text


def test_a_join_that_sparks_planner_refuses_ends_its_job(joined: RunningServer) -> None:
    """In the first micro-batch, for good: the job does not begin again and again."""
    joined.sql(f"CREATE TABLE IF NOT EXISTS {DATABASE}.apart (a BIGINT, b BIGINT)")
    job_id = start_job(joined, f"INSERT INTO apart {ELSEWHERE}", database=DATABASE)
    assert eventually(lambda: joined.sql(f"DESCRIBE JOB '{job_id}'")[0][2] == "FAILED", 300), joined.sql(f"DESCRIBE JOB '{job_id}'")
    assert "without equality predicate" in httpx.get(f"{joined.url}/jobs/{job_id}").json()["error"]


@pytest.mark.parametrize("condition", short(["ON l.k = r.k", "ON TRUE WHERE l.k = r.k", "USING (k)"], ["ON TRUE WHERE l.k = r.k"]))
def test_an_equality_in_any_place_of_a_join_will_do(joined: RunningServer, condition: str) -> None:
    found = streamed(joined.url, f"SELECT l.id AS a, r.id AS b FROM l {HINT} l JOIN r {HINT} r {condition}", database=DATABASE)
    assert Counter((row["a"], row["b"]) for row in found) == join("INNER", lambda a, b: True)
