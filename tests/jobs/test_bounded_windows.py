"""Windows over a stream that ends: at its end every open window comes out, as with Flink's last watermark."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.following import patiently, streamed
from tests.running import RunningServer
from tests.torture.job_campaign import start_job
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = "(id BIGINT, kind STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
MINUTES = range(4)


def finished(server: RunningServer, database: str, text: str) -> None:
    """Run a statement as a job, to its end."""
    job_id = start_job(server, text, database=database)
    assert eventually(lambda: server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] in ("FINISHED", "FAILED"), 300)
    assert server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] == "FINISHED"


@pytest.fixture(scope="module")
def bounded(server: RunningServer) -> Any:
    """A table whose snapshots carry watermarks, one a minute of event time, each with rows of two kinds; its last watermark."""
    name = "bounded_windows"
    server.sql(f"CREATE DATABASE {name}")
    server.sql(f"CREATE TABLE {name}.source {COLUMNS} WITH ('bucket' = '1', 'bucket-key' = 'id')")
    server.sql(f"CREATE TABLE {name}.t {COLUMNS} WITH ('bucket' = '1', 'bucket-key' = 'id')")
    hint = "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */"
    job_id = start_job(server, f"INSERT INTO t SELECT * FROM source {hint}", database=name)
    for minute in MINUTES:
        values = ", ".join(f"({minute * 10 + n}, '{'ab'[n % 2]}', TIMESTAMP '2024-01-01 00:{minute:02}:{10 * n:02}')" for n in range(5))
        server.sql(f"INSERT INTO {name}.source VALUES {values}")
        rows = 5 * (minute + 1)
        assert eventually(lambda: bool(server.value(f"SELECT count(*) FROM {name}.t") == rows), 300)  # noqa: B023 - asked at once
    server.sql(f"STOP JOB '{job_id}'")
    yield name
    server.sql(f"DROP DATABASE {name} CASCADE")


def minute_of(text: str) -> int:
    return dt.datetime.fromisoformat(text).minute


@pytest.mark.parametrize(
    "where",
    [pytest.param("", id="all"), pytest.param("WHERE kind = 'a' AND upper(kind) <> 'C'", id="filtered", marks=pytest.mark.torture)],
)
def test_a_stream_that_ends_gives_every_window(server: RunningServer, bounded: str, where: str) -> None:
    snapshots = server.sql(f"SELECT watermark, total_record_count FROM {bounded}.`t$snapshots` ORDER BY snapshot_id")
    bound, within = snapshots[len(snapshots) // 2]
    hint = f"/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark' = '{bound}') */"
    query = f"""
        SELECT window_start, kind, count(*) AS n FROM TABLE(
            TUMBLE((SELECT * FROM t {hint} {where}), DESCRIPTOR(ts), INTERVAL '1' MINUTES)) GROUP BY window_start, window_end, kind
    """
    expected = Counter((i // 5, "ab"[i % 5 % 2]) for i in range(within) if not where or i % 5 % 2 == 0)
    found = {(minute_of(row["window_start"]), row["kind"]): int(row["n"]) for row in streamed(server.url, query, database=bounded)}
    assert found == expected


def test_a_job_over_a_stream_that_ends_writes_every_window(server: RunningServer, bounded: str) -> None:
    server.sql(f"CREATE TABLE {bounded}.w (window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT)")
    bound = server.value(f"SELECT max(watermark) FROM {bounded}.`t$snapshots`")
    hint = f"/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark' = '{int(bound) - 1}') */"
    finished(
        server,
        bounded,
        f"""INSERT INTO w SELECT window_start, window_end, COUNT(id) FROM TABLE(
            TUMBLE((SELECT * FROM t {hint}), DESCRIPTOR(ts), INTERVAL '1' MINUTES)) GROUP BY window_start, window_end""",
    )
    found = server.sql(f"SELECT window_start, n FROM {bounded}.w ORDER BY window_start")
    assert [(minute_of(at), n) for at, n in found] == [(minute, 5) for minute in MINUTES[:-1]]
    marks = [mark for (mark,) in server.sql(f"SELECT watermark FROM {bounded}.`w$snapshots`")]
    assert all(mark is None or int(mark) < int(bound) for mark in marks), "the end of time is no watermark of a table"


def test_a_drained_job_writes_every_window_and_does_not_go_on(server: RunningServer, bounded: str) -> None:
    """As Flink's `stop --drain`, which sends the last watermark; rows that come later are a new job's."""
    hint = "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */"
    server.sql(f"CREATE TABLE {bounded}.drained (window_start TIMESTAMP(3), n BIGINT)")
    text = f"""INSERT INTO drained SELECT window_start, COUNT(id) FROM TABLE(
        TUMBLE((SELECT * FROM t {hint}), DESCRIPTOR(ts), INTERVAL '1' MINUTES)) GROUP BY window_start, window_end"""
    job_id = start_job(server, text, database=bounded)

    def found() -> list[tuple[int, int]]:
        return sorted((minute_of(at), n) for at, n in server.sql(f"SELECT window_start, n FROM {bounded}.drained"))

    assert eventually(lambda: found() == [(minute, 5) for minute in MINUTES[:-1]], 300), "the last window is open"
    server.sql(f"STOP JOB '{job_id}' WITH DRAIN")
    assert server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] == "FINISHED"
    assert found() == [(minute, 5) for minute in MINUTES]
    marks = [mark for (mark,) in server.sql(f"SELECT watermark FROM {bounded}.`drained$snapshots`")]
    newest = int(server.value(f"SELECT max(watermark) FROM {bounded}.`t$snapshots`"))
    assert all(mark is None or int(mark) <= newest for mark in marks), "the end of time is no watermark of a table"
    restart = httpx.post(f"{server.url}/jobs/{job_id}/restart")
    assert restart.status_code == 409
    assert "was stopped WITH DRAIN" in restart.text


def test_a_job_over_a_view_of_files_ends_with_them(server: RunningServer, bounded: str, import_dir: Path) -> None:
    """The view hides both that its source is bounded and that windows hold its rows back."""
    (import_dir / "timed.csv").write_text("".join(f"{n},2024-01-01 00:{n // 5:02}:{n % 5 * 10:02}\n" for n in range(20)))
    options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{import_dir}/timed.csv'"
    server.sql(f"CREATE TABLE {bounded}.f (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({options})")
    window = f"TABLE(TUMBLE(TABLE {bounded}.f, DESCRIPTOR(ts), INTERVAL '1' MINUTES))"
    server.sql(
        f"CREATE VIEW {bounded}.minutes AS SELECT window_start, COUNT(id) AS n FROM {window} GROUP BY window_start, window_end;"
        f"CREATE TABLE {bounded}.of_files (window_start TIMESTAMP(3), n BIGINT)"
    )
    finished(server, bounded, "INSERT INTO of_files SELECT window_start, n FROM minutes")
    found = server.sql(f"SELECT window_start, n FROM {bounded}.of_files ORDER BY window_start")
    assert [(minute_of(at), n) for at, n in found] == [(minute, 5) for minute in MINUTES]


def test_two_inserts_of_a_job_over_files_into_one_table_both_land(server: RunningServer, bounded: str, import_dir: Path) -> None:
    """Both end at once and are one batch each, of the same number."""
    server.sql(f"CREATE TABLE {bounded}.counted (k STRING, n BIGINT)")
    for name, rows in (("one", "a\na\n"), ("two", "b\nb\nb\n")):
        (import_dir / f"{name}.csv").write_text(rows)
        options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{import_dir}/{name}.csv'"
        server.sql(f"CREATE TABLE {bounded}.{name} (k STRING) WITH ({options})")
    inserts = "".join(f"INSERT INTO counted SELECT k, COUNT(*) FROM {name} GROUP BY k; " for name in ("one", "two"))
    finished(server, bounded, f"EXECUTE STATEMENT SET BEGIN {inserts}END")
    assert server.sql(f"SELECT k, n FROM {bounded}.counted ORDER BY k") == [["a", 2], ["b", 3]]


def test_where_it_starts_it_is_read_whole_though_its_bound_has_passed(server: RunningServer, bounded: str) -> None:
    hint = "/*+ OPTIONS('scan.bounded.watermark' = '1') */"
    assert len(streamed(server.url, f"SELECT id FROM t {hint}", database=bounded)) == 5 * len(MINUTES)
    assert len(streamed(server.url, f"SELECT id, upper(kind) AS kind FROM t {hint}", database=bounded)) == 5 * len(MINUTES)
    newest = "/*+ OPTIONS('scan.bounded.watermark' = '1', 'scan.mode' = 'latest') */"
    assert streamed(server.url, f"SELECT id FROM t {newest}", database=bounded) == []
    assert streamed(server.url, f"SELECT id, upper(kind) AS kind FROM t {newest}", database=bounded) == []


NOW = "/*+ OPTIONS('scan.bounded' = 'true') */"
COUNTED = "SELECT window_start, COUNT(id) FROM {window} GROUP BY window_start, window_end"
OF_ALL = {
    "table": COUNTED.format(window=f"TABLE(TUMBLE(TABLE t {NOW}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"),
    "query": COUNTED.format(window=f"TABLE(TUMBLE((SELECT * FROM t {NOW}), DESCRIPTOR(ts), INTERVAL '1' MINUTE))"),
    "with": f"WITH q AS (SELECT * FROM t {NOW}) " + COUNTED.format(window="TABLE(TUMBLE(TABLE q, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"),
    "session": COUNTED.format(window=f"TABLE(SESSION(TABLE t {NOW}, DESCRIPTOR(ts), INTERVAL '15' SECOND))"),
}
"""Windows of a table that is read as it is now; a session of this one ends each minute, too."""


def test_an_insert_over_tables_that_end_now_gives_every_window(server: RunningServer, bounded: str) -> None:
    """As the same SELECT does; it runs at once, and is no job."""
    server.sql(f"CREATE TABLE {bounded}.of_all (window_start TIMESTAMP(3), n BIGINT)")
    for kind, query in OF_ALL.items():
        body = f"INSERT INTO of_all {query}".encode()
        answer = patiently(lambda: httpx.post(f"{server.url}/sql?mode=streaming&database={bounded}", content=body, timeout=120))  # noqa: B023
        assert answer.status_code == 200, (kind, answer.text)
        found = server.sql(f"SELECT window_start, n FROM {bounded}.of_all ORDER BY window_start")
        assert [(minute_of(at), n) for at, n in found] == [(minute, 5) for minute in MINUTES], kind
        server.sql(f"TRUNCATE TABLE {bounded}.of_all")


def test_inserts_over_tables_that_end_now_beside_those_that_go_on(server: RunningServer, bounded: str) -> None:
    """With windows and without: each is one batch of the job."""
    hint = "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark' = '1') */"
    server.sql(f"CREATE TABLE {bounded}.beside (window_start TIMESTAMP(3), n BIGINT); CREATE TABLE {bounded}.ids (id BIGINT)")
    inserts = f"INSERT INTO beside {OF_ALL['table']}; INSERT INTO ids SELECT id FROM t {NOW}; INSERT INTO ids SELECT -id FROM t {hint}; "
    finished(server, bounded, f"EXECUTE STATEMENT SET BEGIN {inserts}END")
    found = server.sql(f"SELECT window_start, n FROM {bounded}.beside ORDER BY window_start")
    assert [(minute_of(at), n) for at, n in found] == [(minute, 5) for minute in MINUTES]
    assert server.sql(f"SELECT count(*) FROM {bounded}.ids WHERE id > 0") == [[5 * len(MINUTES) - 1]]


def test_a_window_of_a_table_that_ends_now_is_joined_with_a_stream(server: RunningServer, bounded: str) -> None:
    hint = "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark' = '9999999999999') */"
    windows = f"SELECT window_start AS w, COUNT(id) AS n {OF_ALL['table'].partition('COUNT(id)')[2]}"
    query = f"SELECT s.id, w.n FROM t {hint} s JOIN ({windows}) w ON date_trunc('MINUTE', s.ts) = w.w"
    found = streamed(server.url, query, database=bounded, most=5 * len(MINUTES))
    assert Counter(int(row["n"]) for row in found) == {5: 5 * len(MINUTES)}


def test_late_rows_are_counted_over_all_starts_of_a_job(server: RunningServer, bounded: str) -> None:
    """A restart and a drain are new starts of Spark's query, which counts anew."""
    server.sql(f"CREATE TABLE {bounded}.src {COLUMNS}; CREATE TABLE {bounded}.in_time (window_start TIMESTAMP(3), n BIGINT)")
    query = COUNTED.format(window="TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '10' MINUTE))")
    job_id = start_job(server, f"INSERT INTO in_time {query}", database=bounded)

    def told() -> Any:
        return httpx.get(f"{server.url}/jobs/{job_id}").json()

    def late() -> int:
        return sum(source.get("lateRows", 0) for part in told()["source"].values() for source in part)

    def windows() -> int:
        return int(server.value(f"SELECT count(*) FROM {bounded}.in_time"))

    def insert(id_: int, *minutes: int) -> None:
        rows = ", ".join(f"({id_}, 'a', TIMESTAMP '2024-01-01 {10 + at // 60}:{at % 60:02}:00')" for at in minutes)
        server.sql(f"INSERT INTO {bounded}.src VALUES {rows}")

    insert(1, 0, 60)
    assert eventually(lambda: windows() == 1, 300), told()
    insert(2, 1, 31)
    assert eventually(lambda: late() == 2, 300), told()
    server.sql(f"ALTER JOB '{job_id}' RESTART")
    assert eventually(lambda: told()["restarts"] > 0 and told()["state"] == "RUNNING", 300), told()
    assert late() == 2
    insert(3, 2)
    assert eventually(lambda: late() == 3, 300), told()
    server.sql(f"STOP JOB '{job_id}' WITH DRAIN")
    assert (told()["state"], late(), windows()) == ("FINISHED", 3, 2)
