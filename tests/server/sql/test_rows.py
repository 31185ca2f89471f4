"""`POST /tables/{database}/{table}/rows`: bodies in four formats, each one commit."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gateway.gateway import Gateway
from lake.access.callers import EVERYBODY
from sql.execution.cancellation import Cancellation
from table.format.formats import FileFormat
from table.format.store import TableFiles
from table.write import data_file
from tests.running import ARROW
from tests.server.http.conftest import rest
from tests.server.sql.test_statements import assert_problem, run
from tests.waiting import eventually
from tests.workers.damaged import reaching, stream
from workers.spool import owner_of

TABLE = pa.table({"word": ["a", None], "id": pa.array([1, 2], pa.int32())})


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    return sink.getvalue()


def arrow() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue()


BODIES = {
    "application/vnd.apache.parquet": parquet(),
    "application/vnd.apache.arrow.stream": arrow(),
    "text/csv": b"word,id\na,1\n,2\n",
    "application/x-ndjson": b'{"word":"a","id":1}\n{"id":2,"word":null}\n',
}


@pytest.fixture
def words(client: FlaskClient) -> FlaskClient:
    assert run(client, "CREATE TABLE words (id BIGINT, word STRING)").status_code == 200
    return client


def post(client: FlaskClient, body: bytes, content_type: str, **headers: str) -> TestResponse:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return client.post("/tables/default/words/rows", data=body, content_type=content_type, headers=sent)


def rows(client: FlaskClient) -> list[list[object]]:
    found: list[list[object]] = json.loads(run(client, "SELECT * FROM words").data)["rows"]
    return found


def test_large_rows_are_their_senders_as_the_request_is(words: FlaskClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were another owner's, so that one principal had twice what one may have."""
    opened: list[str] = []
    held = gateway.bodies._held
    count = held.open

    def noting(owner: str, *, comes: bool) -> object:
        opened.append(owner)
        return count(owner, comes=comes)

    monkeypatch.setattr(held, "open", noting)
    answer = post(words, b"word,id\n" + b"a,1\n" * (2 << 20), "text/csv")
    assert answer.json["rows"] == 2 << 20  # type: ignore[index]
    assert opened == [owner_of(EVERYBODY.principal)] == ["principal anonymous"]


@pytest.mark.parametrize("content_type", BODIES)
def test_each_format_appends_by_column_name(words: FlaskClient, content_type: str) -> None:
    response = post(words, BODIES[content_type], content_type)
    assert json.loads(response.data) == {"rows": 2, "snapshotId": 1, "replayed": False}
    assert rows(words) == [[1, "a"], [2, None]]


def test_a_key_makes_a_body_repeatable(words: FlaskClient) -> None:
    body = BODIES["text/csv"]
    assert json.loads(post(words, body, "text/csv", Idempotency_Key="k").data)["replayed"] is False
    assert json.loads(post(words, body, "text/csv", Idempotency_Key="k").data) == {"rows": 2, "snapshotId": 1, "replayed": True}
    assert_problem(post(words, body + b"b,3\n", "text/csv", Idempotency_Key="k"), 422, "IdempotencyMismatch")
    assert len(rows(words)) == 2


@pytest.mark.parametrize(
    ("content_type", "body", "status", "error_class"),
    [
        ("application/vnd.apache.parquet", b"PAR1 not really PAR1", 400, "InvalidData"),
        ("application/vnd.apache.parquet", b"", 400, "InvalidData"),
        ("application/vnd.apache.arrow.stream", arrow()[:-40], 400, "InvalidData"),
        ("application/x-ndjson", b'{"id":"x"}\n', 400, "InvalidData"),
        ("text/html", b"<p>", 415, "UnsupportedMediaType"),
        ("", b"x", 415, "UnsupportedMediaType"),
    ],
)
def test_bodies_that_cannot_be_read_change_nothing(
    words: FlaskClient, content_type: str, body: bytes, status: int, error_class: str
) -> None:
    assert_problem(post(words, body, content_type), status, error_class)
    assert rows(words) == []


def maps(of_words: list[tuple[str, int]], of_rows: list[tuple[int, str]]) -> bytes:
    """An Arrow body of two rows: the first is fine."""
    type_ = pa.schema({"m": pa.map_(pa.string(), pa.int32()), "a": pa.list_(pa.struct([("x", pa.map_(pa.int32(), pa.string()))]))})
    rows = {"m": [[("a", 1)], of_words], "a": [[{"x": [(1, "a")]}], [None, {"x": of_rows}]]}
    return stream(pa.RecordBatch.from_pydict(rows, schema=type_))


def as_parquet(body: bytes) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.ipc.open_stream(body).read_all(), sink)
    return sink.getvalue()


WORD_TWICE, ROW_TWICE = maps([("a", 1), ("b", 2), ("a", 3)], []), maps([("a", 1), ("b", 2)], [(1, "a"), (1, "b")])


@pytest.mark.parametrize(
    ("content_type", "body", "column"),
    [
        (ARROW, WORD_TWICE, "m"),
        (ARROW, ROW_TWICE, "a.element.x"),
        ("application/vnd.apache.parquet", as_parquet(WORD_TWICE), "m"),
        ("application/vnd.apache.parquet", as_parquet(ROW_TWICE), "a.element.x"),
        ("application/x-ndjson", b'{"m":{"a":1}}\n{"m":[["a",1],["b",2],["a",3]]}\n', "m"),
        ("application/x-ndjson", b'{"a":[]}\n{"a":[null,{"x":{"1":"a","01":"b"}}]}\n', "a.element.x"),
        ("text/csv", b'm\n"[[""a"",1]]"\n"[[""a"",1],[""a"",1]]"\n', "m"),
        ("text/csv", b'a\n[]\n"[{""x"":{""1"":""a"",""01"":""b""}}]"\n', "a.element.x"),
    ],
)
def test_a_map_with_one_key_twice_changes_nothing(words: FlaskClient, content_type: str, body: bytes, column: str) -> None:
    """Both entries were stored, of which each reader finds another."""
    assert run(words, "CREATE TABLE maps (m MAP<STRING, INT>, a ARRAY<ROW<x MAP<INT, STRING>>>) WITH ('bucket' = '-1')").status_code == 200
    answer = words.post("/tables/default/maps/rows", data=body, content_type=content_type)
    key = "'a'" if column == "m" else "1"
    assert assert_problem(answer, 400, "InvalidData")["detail"] == f"Column {column}, row 2: the MAP has the key {key} twice."
    assert json.loads(run(words, "SELECT * FROM maps").data)["rows"] == []
    fine = words.post("/tables/default/maps/rows", data=maps([("a", 1), ("b", 2)], [(1, "a"), (2, "b")]), content_type=ARROW)
    assert fine.json["rows"] == 2  # type: ignore[index]


def test_an_unknown_table_is_told(words: FlaskClient) -> None:
    response = words.post("/tables/default/nowhere/rows", data=b"a\n1\n", content_type="text/csv")
    assert_problem(response, 404, "TableNotExist")


@pytest.mark.parametrize("size", [100, 1 << 20, 2_000_000_000])
def test_a_value_that_reaches_past_its_buffer_is_refused_and_named(words: FlaskClient, size: int) -> None:
    """320 bytes whose one BYTES column says that it is longer than they are: the server's own memory would be stored."""
    assert run(words, "CREATE TABLE reached (v BYTES)").status_code == 200
    response = words.post("/tables/default/reached/rows", data=stream(reaching(size)), content_type=ARROW)
    assert "Column v (binary) is damaged" in assert_problem(response, 400, "InvalidData")["detail"]
    assert json.loads(run(words, "SELECT * FROM reached").data)["rows"] == []


def test_a_damaged_arrow_message_is_the_clients(words: FlaskClient) -> None:
    body = bytearray(arrow())
    body[8:40] = b"\xff" * 32
    assert_problem(post(words, bytes(body), ARROW), 400, "InvalidData")


@pytest.mark.parametrize("wholly", [True, False])
def test_a_body_whose_client_leaves_writes_no_further_file(
    url: str, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wholly: bool
) -> None:
    """Each of its rows may have a file of its own: it wrote on for minutes, for nobody.

    A client that closes only the side it sends on looks the same until something is sent to it; it is told what became of its rows.
    """
    gateway.run("CREATE TABLE wide (a BIGINT, k BIGINT) PARTITIONED BY (k)").close()
    address, made, paths = httpx.URL(url), list[Cancellation](), set[str]()
    client = socket.create_connection((address.host, address.port or 0))

    def canceled() -> Cancellation:
        made.append(Cancellation())
        return made[-1]

    def open_file(files: TableFiles, format_: FileFormat, path: str, *more: Any) -> data_file.OpenFile:
        if path not in paths and len(paths) == 2:
            client.close() if wholly else client.shutdown(socket.SHUT_WR)
            assert eventually(lambda: made[0].canceled)
        paths.add(path)
        return data_file.open_file(files, format_, path, *more)

    monkeypatch.setattr("sql.execution.cancellation.Cancellation", canceled)
    monkeypatch.setattr("table.write.writer.open_file", open_file)
    body = "a,k\n" + "\n".join(f"{number},{number}" for number in range(12))
    headers = f"Host: {address.host}\r\nContent-Type: text/csv\r\nContent-Length: {len(body)}"
    client.sendall(f"POST /tables/default/wide/rows HTTP/1.1\r\n{headers}\r\n\r\n{body}".encode())
    assert eventually(lambda: len(paths) == 3 and not gateway._executor._unfinished)
    if not wholly:
        client.settimeout(60)
        assert b"StatementCanceled" in rest(client)
        client.close()
    assert not [path for path in tmp_path.rglob("data-*") if path.is_file()]
    assert gateway.run("SELECT COUNT(*) FROM wide").collect() == [(0,)]
