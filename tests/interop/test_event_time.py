"""The documentation's own story: a Kafka table with a watermark, a job into a table, bounded streams of it, and windows over it."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from tests.fix_kafka import Broker
from tests.following import streamed
from tests.jobs.test_alignment import restarts, told
from tests.running import Refused, RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.interop
START = pd.Timestamp("2024-05-01")
STREAM = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "200 ms"}
BUSY = re.compile("Processes of Spark lost each other|Spark went away|did not start in time")
"""What a job that starts again may have failed of: on a machine with too much to do Spark loses a task."""
COLUMNS = "id BIGINT, kind STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


def events(count: int, *, seed: int = 3) -> pd.DataFrame:
    """Ten milliseconds apart, up to four seconds out of order, one in a hundred a minute late."""
    chance = random.Random(seed)
    late = [60_000 if chance.random() < 0.01 else 0 for _ in range(count)]
    at = [n * 10 + chance.randrange(-4000, 1) - late[n] for n in range(count)]
    return pd.DataFrame(
        {"id": range(count), "kind": [chance.choice("abc") for _ in range(count)], "ts": START + pd.to_timedelta(at, unit="ms")}
    )


def records(frame: pd.DataFrame, partitions: int = 2) -> Iterator[dict[str, Any]]:
    for row in frame.itertuples():
        value = {"id": row.id, "kind": row.kind, "ts": row.ts.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]}  # type: ignore[union-attr]
        yield {"value": json.dumps(value), "partition": row.id % partitions}  # type: ignore[operator]


def kafka(broker: Broker, topic: str, *more: str) -> str:
    options = [f"'properties.bootstrap.servers' = '{broker.address}'", f"'topic' = '{topic}'", "'format' = 'json'", *more]
    return (
        f"CREATE TEMPORARY TABLE k ({COLUMNS}) WITH ('connector' = 'kafka', {', '.join(options)}, 'scan.startup.mode' = 'earliest-offset')"
    )


def start(server: RunningServer, text: str) -> str:
    answer = httpx.post(
        f"{server.url}/sql", json={"statement": text, "settings": STREAM}, headers={"Accept": "application/json"}, timeout=120
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["rows"][0][0])


def job(server: RunningServer, job_id: str) -> dict[str, Any]:
    return dict(httpx.get(f"{server.url}/jobs/{job_id}", timeout=60).json())


def until(server: RunningServer, job_id: str, rows: int, seconds: float = 120) -> None:
    """Wait until a job has committed so many rows."""
    end = time.monotonic() + seconds
    while (found := job(server, job_id))["rows"] < rows:
        assert time.monotonic() < end, found
        assert found["state"] != "FAILED", found
        assert found["state"] != "RESTARTING" or BUSY.search(found["error"] or ""), found
        time.sleep(0.1)


def millis(at: pd.Timestamp) -> int:
    return at.value // 1_000_000


def story(server: RunningServer, broker: Broker, count: int, waves: int, name: str) -> None:
    frame = events(count)
    broker.create(name, 2)
    server.sql(f"CREATE TABLE {name} ({COLUMNS}) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    job_id = start(server, f"{kafka(broker, name)}; INSERT INTO {name} SELECT * FROM k")
    size = count // waves
    for wave in range(waves):
        broker.produce(name, records(frame.iloc[wave * size : (wave + 1) * size]))
        until(server, job_id, (wave + 1) * size, seconds=300)
    # Every snapshot says how far event time was before it: the latest of the slower partition, less five seconds.
    snapshots = server.sql(f"SELECT snapshot_id, watermark, total_record_count FROM `{name}$snapshots` ORDER BY snapshot_id")
    marks = [int(mark) for _, mark, _ in snapshots if mark is not None]
    assert len(snapshots) >= waves
    assert marks == sorted(marks)

    def slowest(count: int) -> int:
        return min(millis(part.ts.max()) for _, part in frame.iloc[:count].groupby(frame.id % 2)) - 5000

    assert slowest((waves - 1) * size) <= marks[-1] <= slowest(count)
    # A bounded stream ends before the first snapshot beyond its watermark, in the gateway as in Spark.
    earlier = [mark for mark in marks if mark < marks[-1]]  # beyond the last one there is no snapshot that ends a stream
    bound = earlier[len(earlier) // 2]
    within = max(int(rows) for _, mark, rows in snapshots if mark is None or int(mark) <= bound)
    hint = f"/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark' = '{bound}') */"
    assert len(streamed(server.url, f"SELECT id FROM {name} {hint}")) == within
    assert len({row["id"] for row in streamed(server.url, f"SELECT id, upper(kind) AS kind FROM {name} {hint}")}) == within
    # Windows over the table are pandas' windows over the events.
    window = "TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECONDS)"
    query = f"SELECT window_start, kind, count(*), sum(id) FROM TABLE({window.format(table=name)}) GROUP BY window_start, window_end, kind"
    found = {(pd.Timestamp(at), kind): (n, int(total)) for at, kind, n, total in server.sql(query)}
    grouped = frame.groupby([frame.ts.dt.floor("10s"), "kind"])["id"].agg(["count", "sum"])
    expected: dict[Any, Any] = {key: (row["count"], row["sum"]) for key, row in grouped.iterrows()}
    assert found == expected
    # The same as a stream: the windows that the watermark has passed, each once, and then nothing.
    closed = {key: value for key, value in found.items() if millis(key[0]) + 10_000 <= millis(frame.ts.max()) - 5000}
    rows = streamed(server.url, query.replace("count(*), sum(id)", "count(*) AS n, sum(id) AS total"), most=len(closed))
    assert {(pd.Timestamp(row["window_start"]), row["kind"]): (row["n"], int(row["total"])) for row in rows} == closed
    server.sql(f"STOP JOB '{job_id}'")


@pytest.mark.torture
def test_from_a_topic_with_a_watermark_to_windows(kafka_server: RunningServer, broker: Broker) -> None:
    """Part by part it is in the tests below, in `tests/jobs/test_bounded_windows.py` and in `tests/sql/spark/test_windows.py`."""
    story(kafka_server, broker, 6_000, 3, "story")


@pytest.mark.torture
def test_two_million_events(kafka_server: RunningServer, broker: Broker) -> None:
    story(kafka_server, broker, 2_000_000, 20, "millions")


@pytest.mark.torture
def test_a_bound_given_by_hint_ends_streams_and_jobs_with_every_window(kafka_server: RunningServer, broker: Broker) -> None:
    """Sent are eight minutes of event time; the last window's end lies beyond the watermark, and it comes out all the same."""
    broker.create("hinted", 2)
    at = [START + pd.Timedelta(seconds=20 * n) for n in range(24)]
    broker.produce("hinted", records(pd.DataFrame({"id": range(24), "kind": "a", "ts": at})))
    hint = "/*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */"
    windows = f"""SELECT window_start, window_end, COUNT(id) AS n FROM TABLE(
        TUMBLE((SELECT * FROM k {hint}), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"""
    table = kafka(broker, "hinted")

    def ends(text: str) -> list[dict[str, Any]]:
        return streamed(kafka_server.url, text)

    assert len(ends(f"{table}; SELECT id FROM k {hint}")) == 24
    assert [row["n"] for row in ends(f"{table}; {windows}")] == [3] * 8
    kafka_server.sql(table.replace("TEMPORARY ", "").replace("TABLE k", "TABLE hinted_topic"))  # kept in the catalog
    assert len(ends(f"SELECT id FROM hinted_topic {hint}")) == 24
    kafka_server.sql("CREATE TABLE hinted_rows (id BIGINT); CREATE TABLE hinted_windows (s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT)")
    for text in (f"INSERT INTO hinted_rows SELECT id FROM k {hint}", f"INSERT INTO hinted_windows {windows}"):
        job_id = start(kafka_server, f"{table}; {text}")
        end = time.monotonic() + 120
        while (found := job(kafka_server, job_id))["state"] != "FINISHED":
            assert found["state"] != "FAILED", found
            assert time.monotonic() < end, found
            time.sleep(0.1)
    assert kafka_server.sql("SELECT count(*), count(DISTINCT id) FROM hinted_rows") == [[24, 24]]
    assert kafka_server.sql("SELECT n FROM hinted_windows") == [[3]] * 8


@pytest.mark.torture
def test_late_rows_are_dropped_and_counted(kafka_server: RunningServer, broker: Broker) -> None:
    """A row is late when all its windows ended at or before the watermark that held when its batch began.

    Those of a table are counted in `tests/jobs/test_bounded_windows.py`.
    """
    broker.create("late")  # one partition: what is sent together is read together
    window = "CUMULATE(TABLE k, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
    kafka_server.sql("CREATE TABLE windows (w TIMESTAMP(3), e TIMESTAMP(3), n BIGINT)")
    job_id = start(
        kafka_server,
        f"""{kafka(broker, "late")};
            INSERT INTO windows SELECT window_start, window_end, count(*) FROM TABLE({window}) GROUP BY window_start, window_end""",
    )

    def send(first: int, *seconds: float) -> None:
        times = [START + pd.Timedelta(seconds=s) for s in seconds]
        broker.produce("late", records(pd.DataFrame({"id": range(first, first + len(times)), "kind": "a", "ts": times}), 1))

    def windows(count: int) -> dict[tuple[int, int], int]:
        end = time.monotonic() + 180
        while len(rows := kafka_server.sql("SELECT w, e, n FROM windows")) < count and time.monotonic() < end:
            time.sleep(0.2)
        return {(int((pd.Timestamp(w) - START).total_seconds()), int((pd.Timestamp(e) - START).total_seconds())): n for w, e, n in rows}

    send(0, 1, 2, 6, 9.999, 16)  # the watermark comes to 11 s: the window of 0 to 10 has ended, that of 10 to 15 has not
    assert windows(2) == {(0, 5): 2, (0, 10): 4}
    send(5, 3, 11, 26)  # 3 s is late in both its windows; 11 s is not
    found = windows(4)
    assert found == {(0, 5): 2, (0, 10): 4, (10, 15): 1, (10, 20): 2}
    assert kafka_server.sql("SELECT max(watermark) FROM `windows$snapshots`")[0][0] is not None
    end = time.monotonic() + 120
    while '"lateRows": 2' not in (described := json.dumps(job(kafka_server, job_id))):
        assert time.monotonic() < end, described
        time.sleep(0.2)
    kafka_server.sql(f"STOP JOB '{job_id}'")


@pytest.mark.torture
def test_the_slowest_partition_counts_until_it_is_idle(kafka_server: RunningServer, broker: Broker) -> None:
    """Two jobs read one topic; the one that lets go of idle partitions closes a window that the other keeps open for the slow one."""
    broker.create("uneven", 2)
    query = """SELECT window_start, count(*) FROM TABLE(TUMBLE((SELECT * FROM k {hint}), DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end"""
    jobs = []
    for name, hint in (("patient", ""), ("brisk", "/*+ OPTIONS('scan.watermark.idle-timeout' = '1 s') */")):
        kafka_server.sql(f"CREATE TABLE {name} (w TIMESTAMP(3), n BIGINT)")
        jobs.append(start(kafka_server, f"{kafka(broker, 'uneven')}; INSERT INTO {name} {query.format(hint=hint)}"))

    def send(id_: int, second: float) -> None:
        at = [START + pd.Timedelta(seconds=second)]
        broker.produce("uneven", records(pd.DataFrame({"id": [id_], "kind": ["a"], "ts": at})))

    def windows(name: str) -> list[list[Any]]:
        found = kafka_server.sql(f"SELECT w, n FROM {name}")
        return sorted([int((pd.Timestamp(at) - START).total_seconds()), n] for at, n in found)

    def consumed(job_id: str, offset: int) -> bool:
        return f'"0": {offset}' in json.dumps(job(kafka_server, job_id))

    for number, second in enumerate((1, 2)):
        send(2 * number, second)
    sent, end = 2, time.monotonic() + 180
    while not windows("brisk"):  # its second partition has given nothing yet, and does not count by and by
        assert time.monotonic() < end, [job(kafka_server, job_id) for job_id in jobs]
        send(2 * sent, 30 + sent / 1000)
        sent += 1
        time.sleep(0.5)
    while not consumed(jobs[0], sent):
        assert time.monotonic() < end, job(kafka_server, jobs[0])
        time.sleep(0.2)
    assert windows("patient") == []
    send(1, 3)  # far behind the other partition, and no row is late
    send(3, 16)
    while not windows("patient"):
        assert time.monotonic() < end, job(kafka_server, jobs[0])
        time.sleep(0.2)
    assert windows("patient") == [[0, 3]]
    assert windows("brisk") == [[0, 2]]
    assert kafka_server.sql("SELECT max(watermark) FROM `patient$snapshots`") == [[millis(START) + 11_000]]
    for job_id in jobs:
        kafka_server.sql(f"STOP JOB '{job_id}'")


def test_several_stages_over_several_partitions_are_refused(kafka_server: RunningServer, broker: Broker) -> None:
    """Rows of the slow one would be late by the watermark of the other; with one partition there is no other."""
    broker.create("staged", 2)
    broker.create("alone")
    query = "SELECT a.id FROM (SELECT DISTINCT id, ts FROM k) a"
    for text in (f"SELECT count(*) FROM ({query})", f"INSERT INTO staged_rows {query}"):
        with pytest.raises(Refused, match=r"k has 2 partitions, .* Write the first stage into a table"):
            kafka_server.sql(
                f"CREATE TABLE IF NOT EXISTS staged_rows (id BIGINT); {kafka(broker, 'staged')}; "
                f"SET 'execution.runtime-mode' = 'streaming'; {text}"
            )
    job_id = start(kafka_server, f"{kafka(broker, 'alone')}; INSERT INTO staged_rows {query}")
    kafka_server.sql(f"STOP JOB '{job_id}'")


def examples() -> list[str]:
    """The page's: windows, a join of streams, a bounded stream, and a topic."""
    page = (Path(__file__).parents[2] / "docs" / "event-time.md").read_text()
    return re.findall(r"^```sql\n(.*?)^```$", page, re.M | re.S)


@pytest.mark.torture
def test_the_pages_join_runs(kafka_server: RunningServer) -> None:
    """`tests/jobs/test_bounded_joins.py` has others of its kind."""
    windows, joined, _, _ = examples()
    made, _, _ = windows.partition("SET ")
    more = "INSERT INTO clicks {hint} VALUES ({id}, 'home', TIMESTAMP '2024-05-01 10:00:00');"
    beyond = "/*+ OPTIONS('end-input.watermark' = '1714557615000') */"
    kafka_server.sql(f"CREATE DATABASE joined; USE joined; {made} {more.format(hint='', id=1)} {more.format(hint=beyond, id=9)}")
    pairs = [(row["id"], row["before"]) for row in streamed(kafka_server.url, joined, database="joined")]
    assert sorted(pairs, key=str) == [(1, 1), (1, None), (2, None), (3, None)]
    kafka_server.sql("DROP DATABASE joined CASCADE")


def test_the_pages_examples_run(kafka_server: RunningServer, broker: Broker) -> None:
    windows, _, bounded, topic = examples()
    topic = topic.replace("127.0.0.1:9092", broker.address)
    broker.create("page_views")

    def come(text: str, holds: Callable[[list[list[Any]]], bool]) -> None:
        end = time.monotonic() + 180
        while not holds(rows := kafka_server.sql(text)):
            assert time.monotonic() < end, rows
            time.sleep(0.2)

    every = "SET 'execution.checkpointing.interval' = '200 ms';"
    ((first,),) = kafka_server.sql(every + windows)
    come("SELECT * FROM clicks_by_minute", lambda rows: rows == [["2024-05-01T10:00:00.000", "home", 2]])
    ((second,),) = kafka_server.sql(every + topic)
    come("SELECT count(*) FROM clicks", lambda rows: rows == [[4]])
    broker.produce("page_views", [{"value": json.dumps({"id": 9, "page": "x", "ts": "2024-05-01 10:00:20"})}])
    assert sorted(row["id"] for row in streamed(kafka_server.url, bounded)) == [1, 1, 2, 3]
    for job_id in (first, second):
        kafka_server.sql(f"STOP JOB '{job_id}'")


def test_who_is_too_far_ahead_waits(kafka_server: RunningServer, broker: Broker) -> None:
    kafka_server.sql(
        "CREATE TABLE slow (id BIGINT, kind STRING, ts TIMESTAMP(3)); CREATE TABLE fast (id BIGINT, kind STRING, ts TIMESTAMP(3))"
    )
    group = "'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min'"
    jobs = {}
    for name in ("slow", "fast"):
        broker.create(name)
        jobs[name] = start(kafka_server, f"{kafka(broker, name, group)}; INSERT INTO {name} SELECT * FROM k")

    def send(name: str, id_: int, minutes: float) -> None:
        frame = pd.DataFrame({"id": [id_], "kind": ["a"], "ts": [START + pd.Timedelta(minutes=minutes)]})
        broker.produce(name, records(frame, 1))

    send("slow", 1, 0)
    until(kafka_server, jobs["slow"], 1)
    send("fast", 1, 10)
    until(kafka_server, jobs["fast"], 1)
    assert eventually(lambda: all(told(kafka_server, job_id) for job_id in jobs.values()), 120)
    sent, known = 1, restarts(kafka_server, jobs.values())
    for minute in (11, 12, 13):  # on a busy machine a job may start again, and holds nobody back until it has told anew
        sent += 1
        send("fast", sent, minute)
        time.sleep(3)
        if held := job(kafka_server, jobs["fast"])["rows"] < sent:  # ten minutes ahead
            break
        assert eventually(lambda: restarts(kafka_server, jobs.values()) > known, 60), "nobody was held back"  # noqa: B023 - asked at once
        known = restarts(kafka_server, jobs.values())
        assert eventually(lambda: all(told(kafka_server, job_id) for job_id in jobs.values()), 120)
    assert held, [job(kafka_server, job_id) for job_id in jobs.values()]
    send("slow", 2, minute - 1.5)
    until(kafka_server, jobs["fast"], sent)
    for job_id in jobs.values():
        kafka_server.sql(f"STOP JOB '{job_id}'")
