"""Flight SQL through a balancer that gives each connection to the next server: what one server holds, each answers for."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import httpx
import pyarrow as pa
import pytest

from server.flight.service import SERVICE
from server.flight.wire.messages import message, packed, parsed, unpacked
from server.flight.wire.sent import batch_message, schema_message
from tests.balancer import TcpBalancer
from tests.fix_memory import LastingPath
from tests.running import RunningServer
from tests.waiting import eventually

TOKEN = "t0ken-of-both"
ENDLESS = "SET 'execution.runtime-mode' = 'streaming'; SELECT id FROM t /*+ OPTIONS('scan.mode' = 'latest') */"


@pytest.fixture(scope="module")
def pair(module_dsn: str, lasting_path: LastingPath) -> Iterator[tuple[RunningServer, RunningServer]]:
    directory = lasting_path("flight-pair")
    shared = {"SLUICE_CATALOG_DSN": module_dsn, "SLUICE_WAREHOUSE": str(directory / "warehouse"), "SLUICE_TOKEN": TOKEN}
    shared["SLUICE_SPARK_MASTER"] = "spark://127.0.0.1:9"
    servers = [RunningServer(directory / name, **shared) for name in ("first", "second")]
    try:
        for server in servers:
            server.start()
        with httpx.Client(base_url=servers[0].url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120) as http:
            assert http.post("/sql", content="CREATE TABLE t (id INT)").status_code == 200
            assert http.post("/sql", content="INSERT INTO t VALUES (1), (2), (3)").status_code == 200
        yield servers[0], servers[1]
    finally:
        for server in servers:
            server.stop()


@pytest.fixture
def client(pair: tuple[RunningServer, RunningServer]) -> Iterator[Client]:
    addresses = [urlsplit(server.flight_url) for server in pair]
    balancer = TcpBalancer([(address.hostname or "", address.port or 0) for address in addresses])
    yield Client(balancer)
    balancer.close()


class Client:
    """Makes each call over a connection of its own."""

    def __init__(self, balancer: TcpBalancer, token: str = TOKEN) -> None:
        self.balancer = balancer
        self.token = token
        self.cookie: str | None = None

    def call(self, method: str, *requests: bytes) -> list[bytes]:
        """All answers of a call."""
        with self.opened(method, requests) as (answers, _):
            headers = dict(answers.initial_metadata())
            if "set-cookie" in headers:
                self.cookie = headers["set-cookie"].partition(";")[0]
            return list(answers)

    def opened(self, method: str, requests: Sequence[bytes]) -> _Opened:
        """A call whose answers are read by whoever asked."""
        channel = grpc.insecure_channel(f"127.0.0.1:{self.balancer.port}", options=[("grpc.use_local_subchannel_pool", 1)])
        metadata = [("authorization", f"Bearer {self.token}")] + ([("cookie", self.cookie)] if self.cookie else [])
        return _Opened(channel, channel.stream_stream(SERVICE + method)(iter(requests), metadata=metadata, timeout=120))

    def info(self, command: bytes) -> Any:
        """The FlightInfo of a command."""
        (answer,) = self.call("GetFlightInfo", descriptor(command))
        return parsed("FlightInfo", answer)

    def ids(self, info: Any) -> list[int]:
        """The rows of its ticket, one column of whole numbers."""
        (endpoint,) = info.endpoint
        return rows_of(self.call("DoGet", endpoint.ticket.SerializeToString()))

    def act(self, type_: str, body: bytes) -> list[bytes]:
        """The bodies of an action's answer."""
        answers = self.call("DoAction", message("Action", type=type_, body=body).SerializeToString())
        return [parsed("Result", answer).body for answer in answers]

    def prepare(self, text: str) -> bytes:
        """The handle of a text."""
        (body,) = self.act("CreatePreparedStatement", packed("ActionCreatePreparedStatementRequest", query=text))
        return bytes(unpacked(body)[1].prepared_statement_handle)

    def update(self, text: str) -> None:
        """Run a text for what it does."""
        self.call("DoPut", *data(packed("CommandStatementUpdate", query=text), pa.record_batch({"x": [1]})))

    def another(self) -> None:
        """Let the next call go to the other server than it would."""
        self.call("ListActions", b"")


class _Opened:
    def __init__(self, channel: grpc.Channel, answers: Any) -> None:
        self._channel, self._answers = channel, answers

    def __enter__(self) -> tuple[Any, grpc.Channel]:
        return self._answers, self._channel

    def __exit__(self, *_: object) -> None:
        self._answers.cancel()
        self._channel.close()


def descriptor(command: bytes) -> bytes:
    return bytes(message("FlightDescriptor", type=2, cmd=command).SerializeToString())


def query(text: str) -> bytes:
    return packed("CommandStatementQuery", query=text)


def rows_of(answers: Sequence[bytes]) -> list[int]:
    parts = [parsed("FlightData", answer) for answer in answers]
    schema = pa.ipc.read_schema(pa.py_buffer(_framed(parts[0].data_header, b"")))
    rows: list[int] = []
    for part in parts[1:]:
        batch = pa.ipc.read_record_batch(pa.py_buffer(_framed(part.data_header, part.data_body)), schema)
        rows += batch.column(0).to_pylist()
    return sorted(rows)


def _framed(header: bytes, body: bytes) -> bytes:
    padded = header + b"\0" * (-len(header) % 8)
    return b"\xff\xff\xff\xff" + len(padded).to_bytes(4, "little") + padded + body


def data(command: bytes, batch: pa.RecordBatch) -> list[bytes]:
    """A DoPut of some rows."""
    begin = parsed("FlightData", schema_message(batch.schema))
    begin.flight_descriptor.CopyFrom(message("FlightDescriptor", type=2, cmd=command))
    return [begin.SerializeToString(), batch_message(batch)]


def test_a_ticket_is_read_at_any_server(client: Client) -> None:
    for extra in range(4):
        if extra % 2:
            client.another()
        info = client.info(query("SELECT id FROM t WHERE id < 4"))
        assert client.ids(info) == [1, 2, 3]
        with pytest.raises(grpc.RpcError) as told:
            client.ids(info)
        assert told.value.code() is grpc.StatusCode.NOT_FOUND, "each is read once, wherever it is asked for"
    assert len(set(client.balancer.given)) == 2


def test_a_prepared_statement_is_bound_run_and_closed_at_any_server(client: Client) -> None:
    for _ in range(2):
        handle = client.prepare("SELECT id FROM t WHERE id < ?")
        command = packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
        for most in (2, 3):
            client.call("DoPut", *data(command, pa.record_batch({"0": pa.array([most], pa.int32())})))
            client.another()
            assert client.ids(client.info(command)) == list(range(1, most))
        client.act("ClosePreparedStatement", packed("ActionClosePreparedStatementRequest", prepared_statement_handle=handle))
        for _ in range(2):
            with pytest.raises(grpc.RpcError, match="no prepared statement"):
                client.info(command)
        client.another()


def test_rows_are_put_by_a_prepared_insert_at_any_server(client: Client) -> None:
    command = packed("CommandPreparedStatementUpdate", prepared_statement_handle=client.prepare("INSERT INTO t VALUES (?)"))
    for number in (10, 11):
        (answer,) = client.call("DoPut", *data(command, pa.record_batch({"0": pa.array([number, number + 10], pa.int32())})))
        assert parsed("PutResult", answer).app_metadata
    assert client.ids(client.info(query("SELECT id FROM t WHERE id > 9"))) == [10, 11, 20, 21]


def test_a_session_is_the_same_at_any_server_for_who_keeps_cookies(client: Client) -> None:
    for name in ("a", "b"):
        client.cookie = None
        client.update(f"CREATE DATABASE IF NOT EXISTS {name}")
        client.update(f"USE {name}")
        assert client.cookie is not None
        for _ in range(3):
            options = parsed("GetSessionOptionsResult", client.act("GetSessionOptions", b"")[0]).session_options
            assert options["schema"].string_value == name
        client.another()


def test_a_statement_is_canceled_through_any_server(client: Client) -> None:
    for _ in range(2):
        info = client.info(query(ENDLESS))
        (endpoint,) = info.endpoint
        with client.opened("DoGet", [endpoint.ticket.SerializeToString()]) as (answers, _):
            assert next(answers)
            (body,) = client.act("CancelFlightInfo", message("CancelFlightInfoRequest", info=info.SerializeToString()).SerializeToString())
            assert parsed("CancelFlightInfoResult", body).status == 1
            with pytest.raises(grpc.RpcError) as told:
                list(answers)
            assert told.value.code() is grpc.StatusCode.CANCELLED
        client.another()


def test_a_client_that_hangs_up_ends_what_another_server_reads(client: Client, pair: tuple[RunningServer, RunningServer]) -> None:
    for _ in range(2):
        info = client.info(query(ENDLESS))
        (endpoint,) = info.endpoint
        with client.opened("DoGet", [endpoint.ticket.SerializeToString()]) as (answers, _):
            assert next(answers)
        client.another()

    def open_streams() -> float:
        return sum(float(line.split()[-1]) for server in pair for line in _metrics(server) if line.startswith("sluice_streams"))

    assert eventually(lambda: open_streams() == 0), [line for line in _metrics(pair[0]) if "stream" in line]


def _metrics(server: RunningServer) -> list[str]:
    return httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60).text.splitlines()


def test_rows_of_a_client_that_hangs_up_are_not_kept(client: Client) -> None:
    command = packed("CommandPreparedStatementUpdate", prepared_statement_handle=client.prepare("INSERT INTO t VALUES (?)"))
    for _ in range(2):
        sent, over = threading.Event(), threading.Event()

        def requests() -> Iterator[bytes]:
            yield from data(command, pa.record_batch({"0": pa.array([-1, -2], pa.int32())}))
            sent.set()  # noqa: B023 - used in this round
            over.wait(60)  # noqa: B023 - the same

        with client.opened("DoPut", requests()) as (answers, _):  # type: ignore[arg-type]
            assert sent.wait(60)
            time.sleep(0.5)
            answers.cancel()
        time.sleep(1)
        over.set()
    assert client.ids(client.info(query("SELECT id FROM t WHERE id < 0"))) == []


def test_another_principal_reads_none_of_it_through_any_server(client: Client, pair: tuple[RunningServer, RunningServer]) -> None:
    with httpx.Client(base_url=pair[0].url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120) as http:
        token = http.post("/tokens", json={"name": "eve", "principal": "eve"}).json()["token"]
    info = client.info(query("SELECT id FROM t WHERE id < 4"))
    for other in (token, "wrong"):
        for _ in range(2):
            with pytest.raises(grpc.RpcError) as told:
                Client(client.balancer, other).ids(info)
            assert told.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAUTHENTICATED)
    assert client.ids(info) == [1, 2, 3]


def test_adbc_reads_at_one_server_what_it_ran_at_another(client: Client) -> None:
    options = {"adbc.flight.sql.authorization_header": f"Bearer {TOKEN}"}
    url = f"grpc://127.0.0.1:{client.balancer.port}"
    given = len(client.balancer.given)
    with dbapi.connect(url, db_kwargs=options, autocommit=True) as one, dbapi.connect(url, db_kwargs=options, autocommit=True) as other:
        for writer, reader in itertools.permutations((one, other)):
            with writer.cursor() as ran, reader.cursor() as reads:
                partitions, _ = ran.adbc_execute_partitions("SELECT id FROM t WHERE id < 4")
                reads.adbc_read_partition(partitions[0])
                assert sorted(reads.fetchall()) == [(1,), (2,), (3,)]
    assert len(set(client.balancer.given[given:])) == 2


def test_what_a_server_held_that_is_gone_is_told_so(client: Client, pair: tuple[RunningServer, RunningServer]) -> None:
    infos = [client.info(query("SELECT id FROM t WHERE id < 4")) for _ in range(2)]
    prepared = [client.prepare("SELECT id FROM t WHERE id < ?") for _ in range(2)]
    pair[1].stop()
    client.balancer.stay_at(_port(pair[0]))
    told = []
    for info in infos:
        try:
            assert client.ids(info) == [1, 2, 3]
        except grpc.RpcError as problem:
            told.append((info, problem))
    ((info, refused),) = told
    assert refused.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND), refused

    def is_gone() -> bool:  # what is known of others is good for two seconds
        with pytest.raises(grpc.RpcError) as now:
            client.ids(info)
        return "ServerGone" in str(now.value.details())

    assert eventually(is_gone)
    for handle in prepared:  # as every client does at the end of its work, wherever that was
        assert not client.act("ClosePreparedStatement", packed("ActionClosePreparedStatementRequest", prepared_statement_handle=handle))
    (body,) = client.act("CancelFlightInfo", message("CancelFlightInfoRequest", info=info.SerializeToString()).SerializeToString())
    assert parsed("CancelFlightInfoResult", body).status == 3, "there is nothing to cancel"


def _port(server: RunningServer) -> int:
    return urlsplit(server.flight_url).port or 0
