"""Flight SQL that is almost right: every message of its calls with bytes flipped, cut and spliced, left out, doubled and out of order."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest

from server.flight.actions import ACTIONS
from server.flight.wire.messages import message, packed, parsed, unpacked
from tests import fix_postgres
from tests.fix_memory import LastingPath
from tests.fuzz.inputs import DDL, arrow, drawn, mutated, value
from tests.fuzz.oracle import Flat, failed_once, kept_if_it_fails
from tests.fuzz.test_sql import almost, statements
from tests.server.flight.conftest import Endpoint
from workers.pool import WorkerPool

SHORT, PART, PARTS = 80, 2_500, 8
_SECONDS = 120.0
_STREAMS, _SINGLE = ("DoPut", "DoExchange", "Handshake"), ("GetFlightInfo", "GetSchema")
_PREPARED = (
    "SELECT ?", "SELECT id FROM u WHERE id = ?", "INSERT INTO u (id, s) VALUES (?, ?)", "SELECT ?, ?, ?", "INSERT INTO u VALUES (1, 'x')",
)  # fmt: skip
_METADATA = (
    "CommandGetSqlInfo", "CommandGetXdbcTypeInfo", "CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTables",
    "CommandGetTableTypes", "CommandGetPrimaryKeys", "CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference",
)  # fmt: skip
_FINE = {
    grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.CANCELLED,
}  # fmt: skip


class Caller:
    """Makes calls from bytes, and knows what earlier ones gave."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._channel = grpc.insecure_channel(endpoint.url.removeprefix("grpc://"))
        self.handles: list[bytes] = []
        self.tickets: list[bytes] = [packed("CommandGetTables")]
        self.texts = statements()

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, sent: list[bytes]) -> tuple[grpc.StatusCode, str, list[bytes]]:
        """How a call ends, what it says, and what it answered before."""
        path = f"/arrow.flight.protocol.FlightService/{method}"
        answers: list[bytes] = []
        try:
            if method in _STREAMS:
                answers += self._channel.stream_stream(path)(iter(sent), timeout=_SECONDS)
            elif method in _SINGLE:
                answers.append(self._channel.unary_unary(path)(sent[0], timeout=_SECONDS))
            else:
                answers += self._channel.unary_stream(path)(sent[0], timeout=_SECONDS)
        except grpc.RpcError as error:
            return error.code(), error.details() or "", answers
        return grpc.StatusCode.OK, "", answers

    def prepare(self) -> None:
        """Have statements that parameters can be bound to, and a table."""
        for text in ("CREATE TABLE IF NOT EXISTS u (id INT, s STRING)", f"CREATE TABLE IF NOT EXISTS t ({DDL})"):
            self.well("DoPut", [flight_data(packed("CommandStatementUpdate", query=text))])
        self.handles = []
        for text in _PREPARED:
            (answer,) = self.well("DoAction", [action("CreatePreparedStatement", "ActionCreatePreparedStatementRequest", query=text)])
            self.handles.append(unpacked(parsed("Result", answer).body)[1].prepared_statement_handle)

    def well(self, method: str, sent: list[bytes]) -> list[bytes]:
        """The answers of a call that must work."""
        code, told, answers = self.call(method, sent)
        assert code is grpc.StatusCode.OK, told
        return answers


def flight_data(command: bytes | None, header: bytes = b"", body: bytes = b"") -> bytes:
    given: dict[str, Any] = {} if command is None else {"flight_descriptor": message("FlightDescriptor", type=2, cmd=command)}
    return bytes(message("FlightData", data_header=header, data_body=body, **given).SerializeToString())


def action(type_: str, name: str, **fields: object) -> bytes:
    return bytes(message("Action", type=type_, body=packed(name, **fields)).SerializeToString())


def arrow_messages(rng: random.Random) -> list[tuple[bytes, bytes]]:
    """Header and body of each message of a stream."""
    return [(one.metadata.to_pybytes(), one.body.to_pybytes()) for one in pa.ipc.MessageReader.open_stream(arrow(rng))]


def rows_sent(rng: random.Random, command: bytes) -> list[bytes]:
    """Rows behind a command, with damage inside a message's header or body, and messages that are not where they belong."""
    parts, others = arrow_messages(rng), arrow_messages(rng)
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.randrange(len(parts) or 1)
        match rng.randrange(6) if parts else 5:
            case 0:
                parts[at] = mutated(rng, parts[at][0], others[0][0]), parts[at][1]
            case 1:
                parts[at] = parts[at][0], mutated(rng, parts[at][1], others[0][0])
            case 2:
                del parts[at]
            case 3:
                parts.insert(at, rng.choice(parts))
            case 4:
                parts[at] = rng.choice(others)
            case _:
                parts += others
    first, *rest = parts or [(b"", b"")]
    return [flight_data(command, *first), *(flight_data(None, *one) for one in rest)]


def conversation(rng: random.Random, caller: Caller) -> tuple[str, list[bytes]]:
    """A call of some kind, almost right."""
    handle = rng.choice(caller.handles)
    handle = mutated(rng, handle) if rng.random() < 0.2 else handle
    text = almost(rng, caller.texts).encode("utf-8", "replace").decode()
    query = rng.choice(
        [packed("CommandStatementQuery", query=text), packed("CommandPreparedStatementQuery", prepared_statement_handle=handle),
         packed(rng.choice(_METADATA))]
    )  # fmt: skip
    match rng.randrange(10):
        case 0 | 1 | 2:
            how = message("TableDefinitionOptions", if_not_exist=rng.choice([1, 2, 0]), if_exists=rng.choice([2, 2, 2, 3, 9]))
            target = rng.choice(["t", "t", "t", str(value(rng))[:50]]).encode("utf-8", "replace").decode()
            return "DoPut", rows_sent(rng, packed("CommandStatementIngest", table=target, table_definition_options=how))
        case 3 | 4:
            name = rng.choice(["CommandPreparedStatementQuery", "CommandPreparedStatementUpdate"])
            return "DoPut", rows_sent(rng, packed(name, prepared_statement_handle=handle))
        case 5:
            return "DoPut", [flight_data(packed("CommandStatementUpdate", query=text))]
        case 6:
            made = [
                action("CreatePreparedStatement", "ActionCreatePreparedStatementRequest", query=text),
                action("ClosePreparedStatement", "ActionClosePreparedStatementRequest", prepared_statement_handle=handle),
                action(rng.choice(sorted(ACTIONS)), "ActionCancelQueryRequest", info=bytes(rng.randrange(40))),
                message("Action", type=rng.choice(sorted(ACTIONS)), body=mutated(rng, query)).SerializeToString(),
            ]
            return "DoAction", [rng.choice(made)]
        case 7:
            return rng.choice(_SINGLE), [message("FlightDescriptor", type=2, cmd=query).SerializeToString()]
        case 8:
            return "DoGet", [message("Ticket", ticket=rng.choice([*caller.tickets, query])).SerializeToString()]
    method = rng.choice(["DoExchange", "Handshake", "ListFlights", "ListActions"])
    return method, rows_sent(rng, query)


def damaged(rng: random.Random, sent: list[bytes]) -> list[bytes]:
    """The same messages, now and then with damage to the protocol's own bytes, one left out or twice."""
    found = list(sent)
    if rng.random() < 0.4:
        at = rng.randrange(len(found))
        found[at] = mutated(rng, found[at], rng.choice(sent))
    if rng.random() < 0.1:
        found.insert(rng.randrange(len(found)), rng.choice(sent))
    return found


def asked(caller: Caller, method: str, sent: list[bytes]) -> tuple[grpc.StatusCode, list[bytes]]:
    """How a call ends, and what it answered before: in no way that is the server's fault."""
    told = {"handles": [one.hex() for one in caller.handles], "sent": [one.hex() for one in sent]}
    with kept_if_it_fails(f"flight {method}", json.dumps(told).encode()):
        code, said, answers = caller.call(method, sent)
        assert code in _FINE, (method, code, said)
        assert "Traceback" not in said, (method, said)
        assert "InternalError" not in said, (method, said)
    return code, answers


def campaign(caller: Caller, seeds: range) -> Counter[str]:
    """Make the calls; returns how many ended how."""
    ended: Counter[str] = Counter()
    for seed in seeds:
        if seed % 50 == 0 or not caller.handles:  # some drop the table, and close the statements
            caller.prepare()
        rng = drawn("flight", seed)
        method, sent = conversation(rng, caller)
        code, answers = asked(caller, method, damaged(rng, sent))
        if method == "GetFlightInfo" and answers:
            endpoints = parsed("FlightInfo", answers[0]).endpoint
            caller.tickets = [*caller.tickets, *(one.ticket.ticket for one in endpoints)][-20:]
        ended[f"{method} {code.name}"] += 1
    caller.prepare()
    return ended


@pytest.fixture(scope="module")
def endpoint(server_dsn: str, template: str, lasting_path: LastingPath, workers: WorkerPool) -> Iterator[Endpoint]:
    with fix_postgres.database(server_dsn, template) as dsn:
        made = Endpoint(dsn, lasting_path("flight"), workers=workers)
        yield made
        made.close()


@pytest.fixture
def caller(endpoint: Endpoint) -> Iterator[Caller]:
    made = Caller(endpoint)
    yield made
    made.close()


def test_calls_that_are_almost_right_are_answered(caller: Caller) -> None:
    campaign(caller, range(10))
    flat = Flat()
    ended = campaign(caller, range(10, SHORT))
    assert sum(count for how, count in ended.items() if how.endswith(" OK")) > SHORT // 20, "hardly any call was one"
    flat.check(files=40)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_calls(caller: Caller, part: int) -> None:
    flat = Flat()
    campaign(caller, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check(files=40)


def test_what_failed_once(caller: Caller) -> None:
    """With the handles of today's prepared statements in place of those it named."""
    for _, method, kept in failed_once("flight"):
        caller.prepare()
        told = json.loads(kept)
        sent = [bytes.fromhex(one) for one in told["sent"]]
        for before, now in zip(told["handles"], caller.handles, strict=False):
            sent = [one.replace(bytes.fromhex(before), now) for one in sent]
        asked(caller, method, sent)
