"""Clients of Arrow Flight SQL and what they hold: sessions, tokens, TLS; those who cancel, hang up, stall or are left by the server."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path
from uuid import UUID

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import OperationalError, ProgrammingError
from adbc_driver_manager.dbapi import Connection, Cursor

from model.errors import InvalidOption
from server.access.tls import TlsFiles
from server.flight.server import FlightEndpoint
from server.flight.wire.messages import message, packed, unpacked
from server.observe.metrics import metrics_of
from server.process.services import Services
from server.settings.settings import read_settings
from tests.server.access.test_tls import Files
from tests.server.flight.conftest import Endpoint, rows
from tests.server.flight.raw import begun, ended, greet
from tests.short import one_in
from tests.waiting import eventually


def test_a_session_is_its_clients_own_and_ends_with_it(endpoint: Endpoint, connection: Connection, cursor: Cursor) -> None:
    cursor.execute("CREATE DATABASE IF NOT EXISTS mine")
    before = set(endpoint.gateway._sessions._sessions)  # those of the tests before end in their own time

    def opened() -> int:
        return len(set(endpoint.gateway._sessions._sessions) - before)

    assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("sluice", "default")
    cursor.execute("USE mine")
    cursor.execute("CREATE TABLE here (a INT)")
    assert connection.adbc_current_db_schema == "mine"
    with dbapi.connect(endpoint.url, autocommit=True) as other:
        assert other.adbc_current_db_schema == "default"
        other.adbc_current_db_schema = "mine"
        with other.cursor() as theirs:
            assert rows(theirs, "SHOW TABLES") == [("here",)]
        with pytest.raises(ProgrammingError):
            other.adbc_current_db_schema = "nowhere"
        with pytest.raises(ProgrammingError):
            other.adbc_current_catalog = "nowhere"
        assert opened() == 2
    assert eventually(lambda: opened() == 1)
    cursor.adbc_ingest("there", pa.table({"a": [1]}), mode="create")
    assert rows(cursor, "SELECT * FROM mine.there") == [(1,)]


def test_a_session_ended_by_being_idle_is_told_once(endpoint: Endpoint, connection: Connection, cursor: Cursor) -> None:
    cursor.execute("CREATE DATABASE IF NOT EXISTS idle")
    before = set(endpoint.gateway._sessions._sessions)
    cursor.execute("USE idle")
    (mine,) = set(endpoint.gateway._sessions._sessions) - before
    endpoint.gateway.close_session(mine)
    with pytest.raises(ProgrammingError, match=r"SessionNotExist.*has ended"):
        cursor.execute("SHOW CURRENT DATABASE")
    assert rows(cursor, "SHOW CURRENT DATABASE") == [("default",)]


def test_cookies_name_a_session_from_any_connection(endpoint: Endpoint) -> None:
    options = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
    with dbapi.connect(endpoint.url, db_kwargs=options, autocommit=True) as made, made.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS baked")
        cursor.execute("USE baked")
        assert rows(cursor, "SHOW CURRENT DATABASE") == [("baked",)]
    with fl.connect(endpoint.url) as client:
        wrong = fl.FlightCallOptions(headers=[(b"cookie", b"sluice-session=nobodys")])
        command = fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query="SHOW CURRENT DATABASE"))
        with pytest.raises(pa.ArrowKeyError, match="has ended"):
            client.get_flight_info(command, wrong)


def test_the_sessions_of_clients_that_hang_up_without_a_word_end(endpoint: Endpoint) -> None:
    before = set(endpoint.gateway._sessions._sessions)
    client = fl.connect(endpoint.url)
    request = message("SetSessionOptionsRequest")
    request.session_options["schema"].string_value = "default"
    request.session_options["no.such"].int64_value = 3
    (answer,) = client.do_action(fl.Action("SetSessionOptions", request.SerializeToString()))
    assert b"no.such" in answer.body.to_pybytes()
    (mine,) = set(endpoint.gateway._sessions._sessions) - before
    client.close()
    assert eventually(lambda: mine not in endpoint.gateway._sessions._sessions)


STREAM = "SET 'execution.runtime-mode' = 'streaming'"


def test_a_stream_goes_on_until_its_reader_cancels_and_nothing_stays(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE flowing (a INT)")
    cursor.execute("INSERT INTO flowing VALUES (1)")
    cursor.execute(STREAM)
    cursor.execute("SELECT * FROM flowing")
    reader = cursor.fetch_record_batch()
    assert reader.read_next_batch().to_pydict() == {"a": [1]}
    endpoint.gateway.run("INSERT INTO flowing VALUES (2)").close()
    assert reader.read_next_batch().to_pydict() == {"a": [2]}
    assert endpoint.gateway.streams() == 1
    cursor.adbc_cancel()
    assert eventually(lambda: (endpoint.gateway.streams(), endpoint.endpoint.held()) == (0, 0))


def test_a_client_that_hangs_up_cancels_what_runs_for_it(
    endpoint: Endpoint, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 0.5)  # so long a commit that is held is waited for
    held = threading.Event()
    hook = endpoint.lake.listeners

    def hold(table: UUID, added: int) -> None:  # a commit that takes its time
        held.wait(100)

    hook.append(hold)
    try:
        with connection.cursor() as setting:
            setting.execute("CREATE TABLE slow (a INT)")
        command = packed("CommandStatementQuery", query="INSERT INTO slow VALUES (1)")
        with fl.connect(endpoint.url) as client, pytest.raises(fl.FlightTimedOutError):
            client.get_flight_info(fl.FlightDescriptor.for_command(command), fl.FlightCallOptions(timeout=0.5))
        assert eventually(lambda: endpoint.gateway.running() == [])
    finally:
        held.set()
        hook.pop()


def test_rows_whose_sender_hangs_up_are_not_kept(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE whole (a BIGINT)")
    command = packed(
        "CommandStatementIngest", table="whole", table_definition_options=message("TableDefinitionOptions", if_not_exist=2, if_exists=2)
    )
    batch = pa.record_batch([pa.array(range(1000))], names=["a"])
    client = fl.connect(endpoint.url)

    def send_for_ever() -> None:
        writer, _ = client.do_put(fl.FlightDescriptor.for_command(command), batch.schema, fl.FlightCallOptions(timeout=2.0))
        while True:
            writer.write_batch(batch)
            threading.Event().wait(0.05)

    with pytest.raises(fl.FlightTimedOutError):  # the call's time is over before its end was sent
        send_for_ever()
    client.close()
    assert eventually(lambda: rows(cursor, "SELECT action, outcome FROM sys.audit_log WHERE action LIKE 'INGEST default.whole%'") != [])
    assert rows(cursor, "SELECT count(*) FROM whole") == [(0,)]


def test_rows_whose_client_hangs_up_while_they_are_written_are_not_kept(dsn: str, tmp_path: Path) -> None:
    """Each may have a file of its own: a worker wrote on for minutes, and then the rows were there."""
    endpoint = Endpoint(dsn, tmp_path)
    try:
        with fl.connect(endpoint.url) as client:
            endpoint.gateway.run("CREATE TABLE wide (a BIGINT, k BIGINT) PARTITIONED BY (k)").close()
            batch = pa.record_batch({"a": range(20_000), "k": range(20_000)})
            definition = message("TableDefinitionOptions", if_not_exist=2, if_exists=2)
            command = packed("CommandStatementIngest", table="wide", table_definition_options=definition)
            writer, _ = client.do_put(fl.FlightDescriptor.for_command(command), batch.schema, fl.FlightCallOptions(timeout=3.0))
            writer.write_batch(batch)
            with pytest.raises(fl.FlightTimedOutError):
                writer.close()
            assert eventually(lambda: not endpoint.gateway._executor._unfinished)
        assert not [path for path in tmp_path.rglob("data-*") if path.is_file()]
        assert endpoint.gateway.run("SELECT COUNT(*) FROM wide").collect() == [(0,)]
    finally:
        endpoint.close()


INGESTED = "SELECT outcome FROM sys.audit_log WHERE action LIKE 'INGEST default.%' ORDER BY time DESC LIMIT 1"


def test_clients_that_stall_are_cut_off_and_those_who_wait_for_us_are_not(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path, SLUICE_FLIGHT_STALL_SECONDS="3")
    try:
        with dbapi.connect(endpoint.url, autocommit=True) as waits, waits.cursor() as cursor, fl.connect(endpoint.url) as stalls:
            cursor.execute("CREATE DATABASE mine; USE mine; CREATE TABLE flowing (a INT)")
            sent = pa.table({"s": ["x" * 1000] * 60_000})  # more than is ever under way
            cursor.adbc_ingest("wide", pa.RecordBatchReader.from_batches(sent.schema, sent.to_batches(5_000)), mode="create")
            info = stalls.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query="SELECT * FROM mine.wide")))
            cursor.execute(f"{STREAM}; SELECT * FROM flowing")
            stream = cursor.fetch_record_batch()
            reader = stalls.do_get(info.endpoints[0].ticket)
            assert reader.read_chunk().data.num_rows > 0
            assert endpoint.endpoint.held() == 2
            assert eventually(lambda: endpoint.endpoint.held() == 1)
            with pytest.raises(pa.ArrowException):
                reader.read_all()
            endpoint.gateway.run("INSERT INTO mine.flowing VALUES (2)").close()
            assert stream.read_next_batch().to_pydict() == {"a": [2]}
            assert waits.adbc_current_db_schema == "mine"
            assert stalls.get_flight_info(info.descriptor).schema.names == ["s"]
    finally:
        endpoint.close()


def test_rows_whose_sender_stalls_are_not_kept(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path, SLUICE_FLIGHT_STALL_SECONDS="1")
    batch = pa.record_batch([pa.array(range(1000))], names=["a"])
    options = message("TableDefinitionOptions", if_not_exist=1, if_exists=2)
    command = packed("CommandStatementIngest", table="part", table_definition_options=options)
    try:
        with dbapi.connect(endpoint.url, autocommit=True) as made, made.cursor() as cursor, fl.connect(endpoint.url) as stalls:
            writer, _ = stalls.do_put(fl.FlightDescriptor.for_command(command), batch.schema)
            writer.write_batch(batch)
            assert eventually(lambda: rows(cursor, INGESTED) != [])
            assert rows(cursor, INGESTED) != [("FINISHED",)]
            assert rows(cursor, "SHOW TABLES") == []
            with pytest.raises(pa.ArrowException):
                writer.close()
    finally:
        endpoint.close()


METHODS = ("ListFlights", "GetFlightInfo", "GetSchema", "DoGet", "DoPut", "DoAction", "ListActions")
INGEST = packed(
    "CommandStatementIngest", table="t", table_definition_options=message("TableDefinitionOptions", if_not_exist=1, if_exists=2)
)


@pytest.mark.parametrize(
    ("method", "descriptor"),
    one_in(2, [("DoPut", None), ("DoPut", fl.FlightDescriptor.for_command(INGEST).serialize()), ("GetFlightInfo", None), ("DoGet", None)]),
    ids=["put", "rows without columns", "a statement", "a ticket"],
)
def test_who_begins_to_send_and_sends_nothing_is_cut_off(dsn: str, tmp_path: Path, method: str, descriptor: bytes | None) -> None:
    endpoint = Endpoint(dsn, tmp_path, SLUICE_FLIGHT_STALL_SECONDS="1")
    try:
        with dbapi.connect(endpoint.url, autocommit=True) as waits, waits.cursor() as cursor:
            cursor.execute(f"CREATE TABLE flowing (a INT); {STREAM}; SELECT * FROM flowing")
            stream = cursor.fetch_record_batch()
            silent = begun(endpoint.url, method, None if descriptor is None else b"\x0a" + bytes([len(descriptor)]) + descriptor)
            assert ended(silent) == "connection"
            endpoint.gateway.run("INSERT INTO flowing VALUES (2)").close()
            assert stream.read_next_batch().to_pydict() == {"a": [2]}
    finally:
        endpoint.close()


def ask(endpoint: Endpoint, options: dict[str, str]) -> None:
    with dbapi.connect(endpoint.url, db_kwargs=options, autocommit=True) as made, made.cursor() as cursor:
        cursor.execute("SHOW TABLES")


def test_a_token_is_wanted_by_every_call_once_there_is_one(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    try:
        made = endpoint.app.test_client().post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
        for method in METHODS:  # before a message is taken, which may be large
            assert ended(begun(endpoint.url, method)) == "call", method
        for options in ({}, {"username": "x", "password": "wrong"}, {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer wrong"}):
            with pytest.raises(ProgrammingError, match=r"UNAUTHENTICATED|Unauthenticated"):
                ask(endpoint, options)
        ways = ({"username": "anyone", "password": made}, {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {made}"})
        for options in ways:
            with dbapi.connect(endpoint.url, db_kwargs=options, autocommit=True) as let_in, let_in.cursor() as cursor:
                assert rows(cursor, "SHOW DATABASES") == [("default",)]
                cursor.execute("CREATE TABLE IF NOT EXISTS kept (a INT)")
        both = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {one}".encode()) for one in (made, "wrong")])
        with fl.connect(endpoint.url) as two, pytest.raises(fl.FlightUnauthenticatedError):
            two.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandGetCatalogs")), both)
        client = endpoint.app.test_client()
        headers = {"Authorization": f"Bearer {made}"}
        ada = client.post("/tokens", json={"name": "laptop", "principal": "ada"}, headers=headers).get_json()["token"]
        with dbapi.connect(endpoint.url, db_kwargs={"username": "ada", "password": ada}, autocommit=True) as hers, hers.cursor() as cursor:
            with pytest.raises(ProgrammingError, match=r"Forbidden: ada may not"):
                cursor.execute("SELECT * FROM kept")
            with pytest.raises(ProgrammingError, match=r"Forbidden: ada may not"):
                cursor.adbc_ingest("kept", pa.table({"a": [1]}), mode="append")
            with pytest.raises(ProgrammingError, match=r"Forbidden: ada may not"):
                cursor.adbc_ingest("made", pa.table({"a": [1]}), mode="create")
            assert hers.adbc_get_objects(depth="tables").read_all().to_pylist()[0]["catalog_db_schemas"][0]["db_schema_tables"] == []
    finally:
        endpoint.close()


def test_one_principals_calls_leave_places_to_others(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    try:
        client = endpoint.app.test_client()
        root = client.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
        eve = client.post("/tokens", json={"name": "l", "principal": "eve"}, headers={"Authorization": f"Bearer {root}"}).get_json()[
            "token"
        ]
        with begun(endpoint.url, "GetFlightInfo", calls=1000, token=eve):

            def refused() -> bool:
                try:
                    ask(endpoint, {"username": "eve", "password": eve})
                except OperationalError as error:
                    return "eve has as many calls open here as one may have (800 of 1000)" in str(error)
                return False

            assert eventually(refused)
            ask(endpoint, {"username": "root", "password": root})
        assert eventually(lambda: not refused())
    finally:
        endpoint.close()


def idle(endpoint: Endpoint, address: str, count: int) -> list[socket.socket]:
    """Connections from an address that greet, without which gRPC itself ends them, and ask nothing."""
    made = [begun(endpoint.url, "", calls=0, source=address) for _ in range(count)]
    for connection in made:
        greet(connection)
    return made


def closed(connections: list[socket.socket]) -> list[socket.socket]:
    """Those that the server has closed; the others have nothing to read but HTTP/2's greeting."""
    gone = []
    for connection in connections:
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
            gone.append(connection)
    return gone


def test_idle_connections_of_one_address_are_as_many_as_one_may_have(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path, SLUICE_HTTP_CONNECTIONS_OF_ONE="8")
    with contextlib.ExitStack() as opened:
        opened.callback(endpoint.close)
        with dbapi.connect(endpoint.url, autocommit=True) as known, known.cursor() as cursor:
            cursor.execute("CREATE DATABASE mine; USE mine")
            crowd = [opened.enter_context(connection) for connection in idle(endpoint, "127.0.0.2", 12)]
            assert eventually(lambda: len(closed(crowd)) == 4)
            assert known.adbc_current_db_schema == "mine"


def test_idle_connections_make_way_for_newcomers(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    with contextlib.ExitStack() as opened:
        opened.callback(endpoint.close)
        with dbapi.connect(endpoint.url, autocommit=True) as known, known.cursor() as cursor:
            cursor.execute("CREATE DATABASE mine; USE mine")
            crowd = [
                opened.enter_context(connection) for address in ("127.0.0.2", "127.0.0.3") for connection in idle(endpoint, address, 500)
            ]

            def let_in() -> bool:
                try:
                    ask(endpoint, {})
                except OperationalError:
                    return False
                return True

            assert eventually(let_in)
            assert len(closed(crowd)) >= 200
            assert known.adbc_current_db_schema == "mine"


def test_a_message_without_rows_is_no_longer_than_a_text(endpoint: Endpoint) -> None:
    with (
        fl.connect(endpoint.url) as client,
        pytest.raises(pa.ArrowInvalid, match=r"StatementTooLarge: .* at most 4,194,304 are read of GetFlightInfo"),
    ):
        client.get_flight_info(fl.FlightDescriptor.for_command(b"x" * (5 << 20)))


def test_one_callers_tickets_and_handles_are_nothing_to_another(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    try:
        client = endpoint.app.test_client()
        made = client.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
        headers = {"Authorization": f"Bearer {made}"}
        other = client.post("/tokens", json={"name": "l", "principal": "eve"}, headers=headers).get_json()["token"]
        mine, hers = (fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())]) for token in (made, other))
        with fl.connect(endpoint.url) as flight:
            show = packed("CommandStatementQuery", query="SHOW DATABASES")
            info = flight.get_flight_info(fl.FlightDescriptor.for_command(show), mine)
            with pytest.raises(pa.ArrowKeyError, match="no result"):
                flight.do_get(info.endpoints[0].ticket, hers).read_all()
            assert flight.do_get(info.endpoints[0].ticket, mine).read_all().num_rows == 1
            made_here = flight.do_action(
                fl.Action("CreatePreparedStatement", packed("ActionCreatePreparedStatementRequest", query="SHOW TABLES")), mine
            )
            _, prepared = unpacked(next(made_here).body.to_pybytes())
            again = packed("CommandPreparedStatementQuery", prepared_statement_handle=prepared.prepared_statement_handle)
            with pytest.raises(pa.ArrowKeyError, match="no prepared statement"):
                flight.get_flight_info(fl.FlightDescriptor.for_command(again), hers)
    finally:
        endpoint.close()


def test_a_port_that_is_taken_is_told_with_the_way_out(endpoint: Endpoint, tmp_path: Path) -> None:
    taken = endpoint.url.removeprefix("grpc://")
    settings = read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_FLIGHT_LISTEN": taken})
    second = FlightEndpoint(Services(gateway=endpoint.gateway, settings=settings), metrics_of(endpoint.app))
    with pytest.raises(InvalidOption, match=rf"SLUICE_FLIGHT_LISTEN names {taken}.*'off'"):
        second.start()
    second.stop(1)


def test_over_tls_only_who_knows_the_ca_gets_through(dsn: str, tmp_path: Path) -> None:
    files = Files(tmp_path)
    endpoint = Endpoint(dsn, tmp_path, TlsFiles(files.certificate, files.key))
    try:
        trusting = {DatabaseOptions.TLS_ROOT_CERTS.value: files.root.read_text()}
        with dbapi.connect(endpoint.url, db_kwargs=trusting, autocommit=True) as made, made.cursor() as cursor:
            assert rows(cursor, "SHOW DATABASES") == [("default",)]
        with fl.connect(endpoint.url) as stranger, pytest.raises(fl.FlightUnavailableError):
            list(stranger.list_actions())
    finally:
        endpoint.close()


def test_a_door_that_closes_frees_those_who_read(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    endpoint.gateway.run("CREATE TABLE flowing (a INT); INSERT INTO flowing VALUES (1)").close()
    with fl.connect(endpoint.url) as client:
        text = f"{STREAM}; SELECT * FROM flowing"
        info = client.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query=text)))
        reader = client.do_get(info.endpoints[0].ticket)
        assert reader.read_chunk().data.to_pydict() == {"a": [1]}
        assert endpoint.gateway.streams() == 1
        began = time.monotonic()
        endpoint.endpoint.stop(0.5)
        assert time.monotonic() - began < 60
        with pytest.raises(fl.FlightError):
            reader.read_chunk()
        assert endpoint.gateway.streams() == 0
    endpoint.close()
