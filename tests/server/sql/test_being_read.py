"""A SELECT whose rows are made as they are read keeps its time limit, and can be canceled, until its result is closed; so can a stream."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from gateway.operation import Operation, OperationState
from lake import LakeTable
from model.errors import OperationNotExist, StatementCanceled, StreamEnded
from server.flink import statements
from sql.execution.writing import append_batches
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import Selection, read_batches
from tests.sql.tables import make_table
from tests.waiting import eventually

LONG = "SELECT s FROM big WHERE s LIKE '%nomatch%'"


@pytest.fixture
def big(gateway: Gateway) -> LakeTable:
    """A table that takes a second or more to look through, also on a fast machine."""
    table = make_table(gateway.lake, "big", options={"bucket": "-1"}, s="STRING")
    batch = pa.RecordBatch.from_arrays([pa.array(["abcdefgh" * 40] * 100_000)], ["s"])
    append_batches(gateway.lake, table, [batch] * 60)
    return table


def being_read(gateway: Gateway, name: str) -> Operation:
    """The statement of this name, once its rows are being made."""
    found: list[Operation] = []

    def look() -> bool:
        try:
            operation = gateway.running_statement(name)
        except OperationNotExist:
            return False
        found.append(operation)
        return operation.being_read

    assert eventually(look, pause=0.01)
    return found[-1]


@pytest.mark.usefixtures("big")
def test_the_limit_holds_while_no_row_matches(url: str) -> None:
    answer = httpx.post(f"{url}/sql?timeout=0.3", content=LONG, timeout=120)
    assert (answer.status_code, answer.json()["errorClass"]) == (408, "StatementTimeout")


@pytest.mark.usefixtures("big")
def test_it_can_be_deleted_while_it_is_read(url: str, gateway: Gateway) -> None:
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{url}/sql", content=LONG, headers={"X-Request-Id": "mine"}, timeout=120))
    )
    asking.start()
    being_read(gateway, "mine")
    assert httpx.delete(f"{url}/statements/mine", timeout=120).json()["state"] == "CLOSED"
    asking.join()
    assert answers[0].json()["errorClass"] == "StatementCanceled"
    with pytest.raises(OperationNotExist):
        gateway.running_statement("mine")


@pytest.mark.usefixtures("big")
def test_its_pages_come_without_rows_while_no_row_matches(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page was held until its rows were there, longer than whoever asks through another server waits."""
    for name in ("PAGE_SECONDS", "_SHORTLY"):
        monkeypatch.setattr(statements, name, 0.01)
    with httpx.Client(base_url=url, timeout=120) as http:
        session = f"/v2/sessions/{http.post('/v2/sessions', json={}).json()['sessionHandle']}"
        operation = f"{session}/operations/{http.post(f'{session}/statements', json={'statement': LONG}).json()['operationHandle']}"
        pages = [http.get(f"{operation}/result/0").json()]
        while [page["resultType"] for page in pages[-2:]] != ["PAYLOAD"] * 2:
            pages.append(http.get(pages[-1]["nextResultUri"]).json())
        assert [(page["resultType"], page["results"]["data"]) for page in pages[-2:]] == [("PAYLOAD", [])] * 2
        assert pages[-1]["nextResultUri"] != pages[-2]["nextResultUri"]
        assert http.delete(f"{operation}/close").status_code == 200
        assert http.delete(session).status_code == 200
    assert eventually(lambda: not any(thread.name == "sluice-result-page" for thread in threading.enumerate()), pause=0.01)


@pytest.mark.usefixtures("big")
def test_it_ends_when_its_client_hangs_up(url: str, gateway: Gateway) -> None:
    place = urlsplit(url)
    with socket.create_connection((str(place.hostname), place.port)) as client:
        head = f"POST /sql HTTP/1.1\r\nHost: {place.netloc}\r\nX-Request-Id: mine\r\nContent-Length: {len(LONG)}\r\n\r\n"
        client.sendall(head.encode() + LONG.encode())
        operation = being_read(gateway, "mine")
    assert eventually(lambda: operation.state is OperationState.CLOSED, pause=0.01)
    assert operation.result is not None
    assert operation.result.closed


def test_a_scan_that_keeps_nothing_asks_at_each_batch_whether_it_goes_on(gateway: Gateway, big: LakeTable) -> None:
    import pyarrow.compute as pc

    asked: list[str] = []

    def check() -> None:
        asked.append("")
        if len(asked) == 5:
            raise StatementCanceled("That is enough.")

    plan = plan_scan(big.files, big.schema, big.latest())
    selection = Selection(columns=["s"], filter=pc.match_like(pc.field("s"), "%nomatch%"), filter_columns=frozenset({"s"}))
    with pytest.raises(StatementCanceled, match="enough"):
        list(read_batches(big.files, big.schema, plan.files, selection, check))
    assert len(asked) == 5


@contextmanager
def stream_of(url: str, name: str, query: str = "") -> Iterator[Iterator[str]]:
    """The lines of a streaming query of this name over a table with one row, which has come."""
    headers = {"X-Request-Id": name, "Accept": "application/x-ndjson"}
    asked = httpx.stream("POST", f"{url}/sql?mode=streaming{query}", content="SELECT * FROM s", headers=headers, timeout=120)
    with asked as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert json.loads(next(line for line in lines if "id" in json.loads(line))) == {"id": 1}
        yield lines


@pytest.fixture
def streamed(gateway: Gateway) -> None:
    table = make_table(gateway.lake, "s", options={"bucket": "-1"}, id="INT")
    append_batches(gateway.lake, table, [pa.RecordBatch.from_arrays([pa.array([1], pa.int32())], ["id"])])


ENDS: dict[str, Callable[[str, str], httpx.Response]] = {
    "by the request's id": lambda url, handle: httpx.delete(f"{url}/statements/mine", timeout=120),
    "by the statement's id": lambda url, handle: httpx.delete(f"{url}/statements/{handle}", timeout=120),
}


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("way", ENDS)
def test_a_stream_is_seen_and_ended_by_its_id(url: str, gateway: Gateway, way: str) -> None:
    """Its statement had ended for all lists when its first row came, and nobody could end it."""
    with stream_of(url, "mine") as lines:
        shown = httpx.get(f"{url}/statements/mine", timeout=120).json()
        assert shown["state"] == "RUNNING"
        assert shown["statementId"] in httpx.get(f"{url}/ui/statements", timeout=120).text
        assert ENDS[way](url, shown["statementId"]).status_code in (200, 303)
        assert "StatementCanceled" in list(lines)[-1]
    with pytest.raises(OperationNotExist):
        gateway.running_statement("mine")
    assert gateway.at_work() == []
    assert httpx.get(f"{url}/statements/mine", timeout=120).status_code == 404


@pytest.mark.usefixtures("streamed")
def test_a_stream_that_has_begun_has_no_limit_and_is_forgotten_with_its_client(url: str, gateway: Gateway) -> None:
    with stream_of(url, "mine", "&timeout=30"):
        operation = gateway.running_statement("mine")
        operation._limit = operation._limit and operation._limit._replace(seconds=0.0)
        assert not operation.overdue()
    assert eventually(lambda: gateway.at_work() == [], pause=0.01)


@pytest.mark.usefixtures("streamed")
def test_a_server_that_ends_says_so_to_its_streams(gateway: Gateway) -> None:
    rows = gateway.run("SELECT * FROM s", settings={"execution.runtime-mode": "streaming"}).batches()
    next(rows)
    gateway.close()
    with pytest.raises(StreamEnded, match="server is stopping"):
        list(rows)
