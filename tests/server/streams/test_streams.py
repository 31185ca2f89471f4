"""Streaming SELECTs as clients meet them: a real HTTP server on a real gateway, without Spark."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from model.schema.schema import column
from model.snapshot import CommitKind
from model.view import View
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest, everything
from tests.following import Follower
from tests.waiting import eventually

T = Identifier("default", "t")
QUEUE = "CREATE TABLE t (id BIGINT, word STRING) WITH ('bucket' = '1')"
NO_POLL = "/*+ OPTIONS('scan.mode' = 'latest', 'continuous.discovery-interval' = '1 h') */"


@pytest.fixture
def lake(gateway: Gateway) -> Lake:
    return gateway.lake


def sql(url: str, text: str) -> Any:
    answer = httpx.post(f"{url}/sql", content=text.encode(), timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def refusal(url: str, text: str) -> str:
    answer = httpx.post(f"{url}/sql", params={"mode": "streaming"}, content=text.encode(), timeout=120)
    assert answer.status_code >= 400, answer.text
    return str(answer.json()["detail"])


def insert(url: str, *ids: int, word: str = "w", table: str = "t") -> None:
    sql(url, f"INSERT INTO {table} VALUES " + ", ".join(f"({number}, '{word}')" for number in ids))


def overwrite(lake: Lake, url: str, *ids: int) -> None:
    """Replace everything by rows written to a table beside it."""
    sql(url, "DROP TABLE IF EXISTS other; CREATE TABLE other (id BIGINT, word STRING) WITH ('bucket' = '1')")
    insert(url, *ids, word="over", table="other")
    other, table = lake.open(Identifier("default", "other")), lake.open(T)
    from table.format.manifests.entries import NewFile

    adds = []
    for entry in other.files.live_entries(other.latest()):
        target = f"{table.files.layout.bucket_dir(table.schema, (), 0)}/{entry.file.file_name}"
        lake.file_io.write(target, lake.file_io.read(f"{other.files.layout.bucket_dir(other.schema, (), 0)}/{entry.file.file_name}"))
        adds.append(NewFile(partition=entry.partition, bucket=0, file=entry.file))
    request = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, adds=tuple(adds), commit_user=str(uuid4()))
    lake.commit(table, request)


def test_an_answer_of_so_many_rows_ends_with_the_last_of_them(url: str) -> None:
    """It stayed open until somebody committed another row."""
    sql(url, QUEUE)
    insert(url, 1, 2)
    answer = httpx.post(f"{url}/sql", params={"mode": "streaming", "max_rows": "2"}, content=b"SELECT id FROM t", timeout=120)
    assert (answer.status_code, answer.text.split()) == (200, ['{"id":1}', '{"id":2}'])


def test_rows_come_as_they_are_committed_and_before_them_the_headers(url: str) -> None:
    sql(url, QUEUE)
    with Follower(url, f"SELECT id, word AS w FROM t {NO_POLL} WHERE id > 1") as stream:
        assert stream.response.headers["content-type"] == "application/x-ndjson"
        assert stream.silent()
        insert(url, 1, 2)
        insert(url, 3)
        assert stream.rows(2) == [{"id": 2, "w": "w"}, {"id": 3, "w": "w"}]


@pytest.mark.parametrize("way", ["parameter", "member", "settings", "text"])
def test_every_way_to_say_streaming(url: str, way: str) -> None:
    sql(url, QUEUE)
    insert(url, 1, 2)
    select = "SELECT id FROM t LIMIT 2"
    body: dict[str, Any] = {"statement": select}
    if way == "text":
        body["statement"] = f"SET 'execution.runtime-mode' = 'streaming'; {select}"
    elif way != "parameter":
        body |= {"mode": "streaming"} if way == "member" else {"settings": {"execution.runtime-mode": "streaming"}}
    answer = httpx.post(f"{url}/sql", json=body, params={"mode": "streaming"} if way == "parameter" else None, timeout=120)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text.split() == ['{"id":1}', '{"id":2}']
    assert httpx.post(f"{url}/sql", params={"mode": "endless"}, content=select.encode()).status_code == 400


def test_server_sent_events_arrow_and_csv(url: str) -> None:
    sql(url, QUEUE)
    insert(url, 1)
    statement = "SELECT id FROM t LIMIT 2"
    with Follower(url, statement, accept="text/event-stream") as events:
        assert events.rows(1) == [{"id": 1}]
        with httpx.stream(
            "POST", f"{url}/sql?mode=streaming", content=statement, headers={"Accept": "application/vnd.apache.arrow.stream"}
        ) as arrow:
            insert(url, 2)
            assert pa.ipc.open_stream(arrow.read()).read_all().to_pylist() == [{"id": 1}, {"id": 2}]
        assert events.rows(1) == [{"id": 2}]
        assert events.lines.get(timeout=60)[1] == "event: end"
    answer = httpx.post(f"{url}/sql?mode=streaming", content=statement, headers={"Accept": "text/csv"})
    assert answer.text == "id\n1\n2\n"
    answer = httpx.post(f"{url}/sql?mode=streaming", content=statement, headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["errorClass"]) == (406, "NotAcceptable")


def test_pages_by_token_in_the_flink_protocol(url: str, gateway: Gateway) -> None:
    sql(url, QUEUE)
    insert(url, 1)
    session = httpx.post(f"{url}/v2/sessions", json={"properties": {"execution.runtime-mode": "streaming"}}).json()["sessionHandle"]
    statement = {"statement": "SELECT id FROM t"}
    operation = httpx.post(f"{url}/v2/sessions/{session}/statements", json=statement).json()["operationHandle"]
    at, found, sent = f"/v2/sessions/{session}/operations/{operation}/result/0?rowFormat=JSON", [], False
    for _ in range(100):
        page = httpx.get(f"{url}{at}", timeout=120).json()
        assert page == httpx.get(f"{url}{at}", timeout=120).json() or page["resultType"] == "NOT_READY"
        assert page["resultType"] in ("PAYLOAD", "NOT_READY"), page
        found += [row["fields"][0] for row in page.get("results", {"data": []})["data"]]
        if found == [1] and not sent:
            insert(url, 2)
            sent = True
        if found == [1, 2]:
            break
        at = page["nextResultUri"]
    assert found == [1, 2]
    assert gateway.streams() == 1
    httpx.delete(f"{url}/v2/sessions/{session}/operations/{operation}/close")
    assert gateway.streams() == 0


def test_pages_that_wait_for_rows_hold_no_thread(url: str, gateway: Gateway) -> None:
    sql(url, QUEUE)
    streaming = {"properties": {"execution.runtime-mode": "streaming"}}
    session = httpx.post(f"{url}/v2/sessions", json=streaming).json()["sessionHandle"]
    places = []
    for _ in range(24):
        statement = {"statement": f"SELECT id FROM t {NO_POLL}"}
        handle = httpx.post(f"{url}/v2/sessions/{session}/statements", json=statement).json()["operationHandle"]
        places.append(f"{url}/v2/sessions/{session}/operations/{handle}/result/")
    assert httpx.get(f"{places[0]}0", timeout=120).json()["results"]["data"] == []  # after a while, without rows

    async def ask() -> list[Any]:
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(timeout=120, limits=limits) as client:
            secret = re.search('name="_csrf" value="([^"]+)"', (await client.get(f"{url}/ui/sql")).text)
            assert secret is not None
            form = {"statement": f"SELECT id FROM t {NO_POLL}", "live": "yes", "_csrf": secret[1]}
            asked = [client.get(f"{place}{int(number == 0)}") for number, place in enumerate(places)]
            pages = [client.post(f"{url}/ui/sql", data=form) for _ in range(6)]
            coming = [asyncio.ensure_future(one) for one in (*asked, *pages)]
            assert await asyncio.to_thread(eventually, lambda: gateway.streams() == 30)  # who begins later does not see the row
            assert await asyncio.to_thread(eventually, lambda: steps() == [], pause=0.01)
            await asyncio.to_thread(insert, url, 7)
            return list(await asyncio.gather(*coming))

    answers = asyncio.run(ask())
    found = [answer.json()["results"]["data"] for answer in answers[:24]]
    late = [number for number, rows in enumerate(found) if not rows]  # where a second was over before the row came
    for number in late:
        token = 2 if number == 0 else 1
        while not found[number]:
            found[number] = httpx.get(f"{places[number]}{token}", timeout=120).json()["results"]["data"]
            token += 1
    assert [[row["fields"] for row in rows] for rows in found] == [[[7]]] * 24
    assert all(answer.status_code == 200 and "<td" in answer.text for answer in answers[24:]), answers[24].text
    assert eventually(lambda: gateway.streams() == 24)
    statement = {"statement": f"SELECT id FROM t {NO_POLL.replace('1 h', '200 ms')}"}
    handle = httpx.post(f"{url}/v2/sessions/{session}/statements", json=statement).json()["operationHandle"]
    place = f"{url}/v2/sessions/{session}/operations/{handle}/result/"
    assert httpx.get(f"{place}0", timeout=120).json()["results"]["data"] == []
    sql(url, "DROP TABLE t")
    token = 1
    while (gone := httpx.get(f"{place}{token}", timeout=120)).status_code == 200:  # a page without rows, where it had not heard of it yet
        token += 1
    assert gone.status_code == 500  # as all failures of statements in this protocol
    assert "Table default.t does not exist." in gone.json()["errors"][1]
    assert gone.headers["X-Request-Id"]


def steps() -> list[str]:
    """What threads of this process do that look for the next snapshot of a table."""
    stacks = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
    return [line.name for stack in stacks for line in stack if line.filename.endswith("lake/streams/snapshot_steps.py")]


def test_a_client_that_goes_away_leaves_nothing_behind(url: str, gateway: Gateway, lake: Lake) -> None:
    sql(url, QUEUE)
    streams = [Follower(url, f"SELECT * FROM t {NO_POLL}", accept=accept) for accept in ("application/x-ndjson", "text/event-stream") * 3]
    assert eventually(lambda: (gateway.streams(), lake.catalog.notices.waiters) == (6, 1))  # one follower for all
    threads = threading.active_count()
    for stream in streams:
        stream.close()
    assert eventually(lambda: gateway.streams() == lake.catalog.notices.waiters == 0)
    assert eventually(lambda: threading.active_count() <= threads)
    assert gateway.running() == []
    sql(url, "DROP TABLE t")


def test_streams_of_one_text_read_a_commit_once_and_hold_no_thread(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(url, QUEUE)
    read: list[object] = []

    def counted(*args: Any) -> Any:
        read.append(args)
        return read_batches(*args)

    monkeypatch.setattr("sql.local.tail.read_batches", counted)
    with ExitStack() as opened:
        streams = [opened.enter_context(Follower(url, f"SELECT id FROM t {NO_POLL}")) for _ in range(12)]
        other = opened.enter_context(Follower(url, f"SELECT id FROM t {NO_POLL} WHERE id > 1"))
        assert all(stream.silent(0.1) for stream in streams)
        assert eventually(lambda: steps() == [])
        for number in (1, 2):
            insert(url, number)
            assert [stream.rows(1) for stream in streams] == [[{"id": number}]] * 12
        assert other.rows(1) == [{"id": 2}]
    assert len(read) == 3  # two commits for the one text; of the other the first holds nothing, as its statistics tell


def test_a_commit_wakes_without_polling_and_polling_finds_what_was_not_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(url, QUEUE)
    with Follower(url, f"SELECT id FROM t {NO_POLL}") as stream:
        assert stream.silent(1.0)
        for number in range(5):
            insert(url, number)
            assert stream.rows(1) == [{"id": number}]
    monkeypatch.setattr("lake.commit.notifier.Notifier.note", lambda *_: None)
    hint = NO_POLL.replace("1 h", "300 ms")
    with Follower(url, f"SELECT id FROM t {NO_POLL}") as deaf, Follower(url, f"SELECT id FROM t {hint}") as polling:
        assert polling.silent(1.0)
        insert(url, 9)
        assert polling.rows(1) == [{"id": 9}]
        assert deaf.silent(0.5)


def test_a_lost_connection_of_the_listener_is_made_anew(url: str, dsn: str) -> None:
    sql(url, QUEUE)
    with Follower(url, f"SELECT id FROM t {NO_POLL}") as stream:
        assert stream.silent(0.5)
        listens = "datname = current_database() AND query LIKE 'LISTEN %'"
        with psycopg.connect(dsn, autocommit=True) as conn:
            assert eventually(lambda: conn.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {listens}").fetchone() == (1,))
            gone = conn.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listens}").fetchall()
        assert gone == [(True,)]
        insert(url, 1)  # while nobody listens: the new connection looks at once
        assert stream.rows(1) == [{"id": 1}]


@pytest.mark.parametrize(
    ("writers", "commits"), [pytest.param(4, 10, id="short"), pytest.param(6, 25, id="whole", marks=pytest.mark.torture)]
)
def test_order_of_each_bucket_under_writers_and_overwrites(url: str, lake: Lake, writers: int, commits: int) -> None:
    sql(url, "CREATE TABLE t (id BIGINT, writer BIGINT, n BIGINT) WITH ('bucket' = '4', 'bucket-key' = 'id')")

    def write(writer: int) -> None:
        for number in range(commits):
            rows = ", ".join(f"({at}, {writer}, {number * 4 + at})" for at in range(4))
            sql(url, f"INSERT INTO t VALUES {rows}")

    with Follower(url, f"SELECT * FROM t {NO_POLL}") as stream:
        with ThreadPoolExecutor(writers + 1) as pool:
            waiting = [pool.submit(write, writer) for writer in range(writers)]
            for _ in range(5):
                lake.commit(lake.open(T), CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user=str(uuid4())))
                time.sleep(0.05)
            for one in waiting:
                one.result()
        found = stream.rows(writers * commits * 4, seconds=120)
        assert stream.silent()
    assert len({(row["writer"], row["n"]) for row in found}) == len(found)
    for at in range(4):
        for writer in range(writers):
            numbers = [row["n"] for row in found if row["writer"] == writer and row["id"] == at]
            assert numbers == sorted(numbers)
    table = lake.open(T)  # what the last overwrite left is, bucket by bucket, the end of what the stream saw
    with httpx.stream("POST", f"{url}/sql", content="SELECT * FROM t", headers={"Accept": "application/vnd.apache.arrow.stream"}) as answer:
        left = pa.ipc.open_stream(answer.read()).read_all().to_pylist()
    assert table.latest() is not None
    for at in range(4):
        here = [row for row in left if row["id"] == at]
        assert [row for row in found if row["id"] == at][len([r for r in found if r["id"] == at]) - len(here) :] == here


def test_overwrites_are_new_rows_only_where_asked(url: str, lake: Lake) -> None:
    sql(url, QUEUE)
    insert(url, 1)
    shown = NO_POLL.replace("OPTIONS(", "OPTIONS('streaming-read-append-overwrite' = 'true', ")
    with Follower(url, f"SELECT id FROM t {NO_POLL}") as plain, Follower(url, f"SELECT id FROM t {shown}") as all_:
        overwrite(lake, url, 7, 8)
        insert(url, 2)
        assert plain.rows(1) == [{"id": 2}]
        assert all_.rows(3) == [{"id": 7}, {"id": 8}, {"id": 2}]
    assert sql(url, "SELECT id FROM t") == [[7], [8], [2]]


def test_a_schema_that_changes_meanwhile(url: str) -> None:
    sql(url, "CREATE TABLE t (id BIGINT, word STRING, n INT, gone STRING) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    sql(url, "INSERT INTO t VALUES (1, 'a', 1, 'x')")
    with Follower(url, "SELECT * FROM t") as stream:
        assert stream.rows(1) == [{"id": 1, "word": "a", "n": 1, "gone": "x"}]
        sql(url, "ALTER TABLE t ADD more STRING")
        sql(url, "ALTER TABLE t RENAME word TO text")
        sql(url, "ALTER TABLE t DROP gone")
        sql(url, "INSERT INTO t (id, text, n, more) VALUES (2, 'b', 2, 'm')")
        assert stream.rows(1) == [{"id": 2, "word": "b", "n": 2, "gone": None}]
        sql(url, "ALTER TABLE t MODIFY n BIGINT")
        sql(url, "INSERT INTO t (id, text, n) VALUES (3, 'c', 5000000000)")
        (told,) = stream.rows(1)
        assert "Column n of table default.t was INT when the stream began and is BIGINT" in told["$error"]["detail"]
        assert stream.ended.wait(60)


def test_a_table_renamed_dropped_or_rolled_back_meanwhile(url: str, lake: Lake) -> None:
    sql(url, QUEUE)
    with Follower(url, "SELECT id FROM t") as stream:
        insert(url, 1)
        assert stream.rows(1) == [{"id": 1}]
        sql(url, "ALTER TABLE t RENAME TO u")
        insert(url, 2, table="u")
        assert stream.rows(1) == [{"id": 2}]
        lake.history.rollback_to_snapshot(lake.open(Identifier("default", "u")), 1)
        insert(url, 3, table="u")
        (told,) = stream.rows(1)
        assert "was rolled back to before snapshot 2" in told["$error"]["detail"]
    with Follower(url, "SELECT id FROM u /*+ OPTIONS('continuous.discovery-interval' = '200 ms') */") as stream:
        stream.rows(2)
        sql(url, "DROP TABLE u")
        (told,) = stream.rows(1)
        assert told["$error"]["errorClass"] == "TableNotExist"


def test_a_consumer_goes_on_where_it_was(url: str, lake: Lake) -> None:
    sql(url, QUEUE)
    insert(url, 1)
    statement = "SELECT id FROM t /*+ OPTIONS('consumer-id' = 'me') */"
    with Follower(url, statement) as stream:
        insert(url, 2)
        assert stream.rows(2) == [{"id": 1}, {"id": 2}]
        assert eventually(lambda: lake.consumers(lake.open(T)) == {"me": 3})
    insert(url, 3)
    with Follower(url, statement) as first:
        assert first.rows(1) == [{"id": 3}]
        assert eventually(lambda: lake.consumers(lake.open(T)) == {"me": 4})
        with Follower(url, statement) as second:  # takes the name over
            insert(url, 4)
            assert second.rows(1) == [{"id": 4}]
            (told,) = first.rows(1)
            assert told["$error"]["errorClass"] == "ConsumerTaken"
            assert eventually(lambda: lake.consumers(lake.open(T)) == {"me": 5})  # what it notes later would undo the reset
    lake.reset_consumer(lake.open(T), "me", 2)
    with Follower(url, statement) as again:
        assert again.rows(3) == [{"id": 2}, {"id": 3}, {"id": 4}]
    ignoring = "SELECT id FROM t /*+ OPTIONS('consumer-id' = 'me', 'consumer.ignore-progress' = 'true') */"
    with Follower(url, ignoring) as anew:
        assert anew.rows(1) == [{"id": 1}]


def test_a_slow_client_slows_only_itself(url: str) -> None:
    sql(url, QUEUE)
    big = "x" * 400_000  # more in all than the sockets between them hold
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as slow:
        body = f"SELECT id, word FROM t {NO_POLL}".encode()
        head = f"POST /sql?mode=streaming HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        slow.sendall(head.encode() + body)
        assert slow.recv(20).startswith(b"HTTP/1.1 200")
        with Follower(url, f"SELECT id FROM t {NO_POLL}") as quick:
            assert quick.silent()
            before = pa.total_allocated_bytes()
            for number in range(50):
                rows = json.dumps({"id": number, "word": big})
                headers = {"Content-Type": "application/x-ndjson"}
                assert httpx.post(f"{url}/tables/default/t/rows", content=rows, headers=headers, timeout=120).status_code == 200
            assert [row["id"] for row in quick.rows(50)] == list(range(50))
            # Of the 20 MB the slow client has not read, and reads none of meanwhile.
            assert eventually(lambda: pa.total_allocated_bytes() - before < 8_000_000, 60)
        slow.settimeout(60)
        received = b""
        while b'{"id":49,' not in received[-800_000:]:
            part = slow.recv(1 << 20)
            assert part
            received += part


def test_a_server_that_stops_says_so(url: str, gateway: Gateway) -> None:
    sql(url, QUEUE)
    with Follower(url, "SELECT id FROM t") as stream:
        assert eventually(lambda: gateway.streams() == 1)
        gateway.drain(0)
        (told,) = stream.rows(1)
        assert told["$error"]["errorClass"] == "StreamEnded"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t",
        "SELECT DISTINCT id FROM t",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id",
        "SELECT id FROM t UNION ALL SELECT id FROM t",
        "SELECT id FROM (SELECT id FROM t)",
        "SELECT id + 1 FROM t",
        "SELECT id FROM t WHERE upper(word) = 'A'",
        "SELECT id FROM v",
        "SELECT id FROM t LIMIT 1 + 1",
    ],
)
def test_what_is_more_than_a_tail_is_for_spark(url: str, lake: Lake, query: str) -> None:
    sql(url, QUEUE)
    view = View(fields=(column("id", "BIGINT"),), query="SELECT id FROM t")
    lake.views.create(Identifier("default", "v"), view, replace=False, if_not_exists=False)
    assert "There is no Spark in this test." in refusal(url, query)


def test_a_plan_is_not_explained_as_a_stream(url: str) -> None:
    sql(url, QUEUE)
    assert "EXPLAIN in streaming mode" in refusal(url, "EXPLAIN SELECT * FROM t")
