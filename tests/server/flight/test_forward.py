"""Calls that are passed on to the server that holds what they are about, which stands in the catalog and answers over a real connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import grpc
import pytest
import trustme

from gateway.gateway import Gateway
from lake.peers import Peers
from lake.process_name import process_space
from model.errors import OperationNotExist, OutcomeUnknown, StatementCanceled, Unavailable
from model.work.handle import handle_bytes, new_handle
from server.flight import peer_channels
from server.flight.calls import Call
from server.flight.clients import ClientSessions
from server.flight.errors import FlightFailure, PassedOnFailure
from server.flight.forward import PASSED_ON, FlightForward
from server.flight.peer_channels import _roots
from server.flight.server import _refuse
from server.flight.service import SERVICE
from server.flight.stalls import Stalls
from server.process.services import Services
from server.settings.settings import read_settings
from server.sql.peer_connections import FLIGHT_PORT
from tests.server.sql.test_forward import Others
from tests.waiting import eventually

NUMBER = 60001
"""Of the first of `Others`."""
Answer = Callable[[Iterator[bytes], Any], Iterator[bytes]]


class Owner(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The Flight SQL of another server, which answers as a test lets it."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.answer: Answer = lambda requests, _: requests
        self.threads = ThreadPoolExecutor(8)
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listen, again where it did so before."""
        self.server = grpc.server(self.threads, handlers=[self], options=[("grpc.so_reuseport", 0)])
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def service(self, handler_call_details: Any) -> Any:
        """Called by gRPC for each call."""
        assert handler_call_details.method.startswith(SERVICE)
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: self.answer(requests, context))


class Hung:
    """gRPC's own of a call whose client hangs up."""

    def __init__(self) -> None:
        self.active = True
        self.headers: list[tuple[str, str]] = []

    def is_active(self) -> bool:
        return self.active

    def peer(self) -> str:
        return "ipv4:127.0.0.9:4711"

    def add_callback(self, call: Callable[[], None]) -> bool:
        return True

    def send_initial_metadata(self, headers: Sequence[tuple[str, str]]) -> None:
        self.headers += headers


@pytest.fixture
def services(gateway: Gateway, tmp_path: Path) -> Services:
    peers = Peers(gateway.lake.catalog, f"{process_space()}/1")
    return Services(gateway=gateway, settings=read_settings({"SLUICE_DATA": str(tmp_path)}), peers=peers)


@pytest.fixture
def owner(dsn: str, services: Services) -> Iterator[Owner]:
    assert services.peers is not None
    made, others = Owner(), Others(dsn, services.peers)
    # A proxy may write names of headers as it likes.
    others.add(partial(int, 200), headers={FLIGHT_PORT.lower(): str(made.port)})
    yield made
    others.close()
    made.server.stop(0).wait(10)
    made.threads.shutdown()


@pytest.fixture
def forward(services: Services) -> Iterator[FlightForward]:
    made = FlightForward(services)
    yield made
    made.close()


def of_owner(context: Any) -> Call:
    """A call as the owner has it."""
    return Call(context=context, method="DoPut", token=None, cookie=None, request_id="r1")


def refusing(code: grpc.StatusCode, text: str) -> Answer:
    """What a server of ours does."""

    def refused(_: Iterator[bytes], context: Any) -> Iterator[bytes]:
        _refuse(of_owner(context), FlightFailure(503, code, text))

    return refused


def call_of(method: str = "DoPut", cookie: str | None = None) -> Call:
    return Call(context=Hung(), method=method, token=None, cookie=cookie, request_id="r1")


def passed_on(forward: FlightForward, call: Call, rest: Iterator[bytes] | None = None) -> Iterator[bytes]:
    """The answers of a call that the owner is asked."""
    peers = forward._services.peers
    assert peers is not None
    row = peers.find(NUMBER)
    assert row is not None
    return forward.answers(call, row, b"first", rest or iter(()))


def test_a_statement_prepared_elsewhere_is_not_run_outside_its_connections_session(forward: FlightForward, owner: Owner) -> None:
    """It ran in `default`, on the server that had prepared it and knew nothing of the session."""
    peers = forward._services.peers
    assert peers is not None
    for prepared, session in ((NUMBER, peers.number), (peers.number, NUMBER)):
        call, handle = call_of(cookie=new_handle(session)), handle_bytes(prepared)
        with pytest.raises(OperationNotExist, match="prepare it again"):
            forward.owner(call, handle, in_session=True)
        found = forward.owner(call, handle)  # to be closed or read, it needs no session
        assert (found and found.number) == (None if prepared == peers.number else prepared)
    for session in (NUMBER, 60009):  # the latter is nobody's: its client is told that the session is over
        found = forward.owner(call_of(cookie=new_handle(session)), handle_bytes(NUMBER), in_session=True)
        assert found is not None
        assert found.number == NUMBER


def test_a_session_that_a_passed_on_call_opens_is_known_by_its_cookie_alone(gateway: Gateway) -> None:
    """It ended with the connection between the servers, and others whose calls came over that one had it."""

    def passed(cookie: str | None = None) -> Call:
        call = call_of(cookie=cookie)
        call.sent_headers = [(PASSED_ON, "7")]
        return call

    sessions, first = ClientSessions(gateway), passed()
    opened = sessions.open(first)
    first.begin_answer()
    cookie = dict(first.context.headers)["set-cookie"].partition(";")[0].partition("=")[2]
    assert sessions.find(passed()) is None, "another client's"
    sessions.tend(9)  # where nobody is connected
    assert sessions.find(passed(cookie)) == opened
    sessions.close(passed(cookie))


@pytest.mark.parametrize(
    ("method", "told"), [("DoPut", OutcomeUnknown), ("GetFlightInfo", OutcomeUnknown), ("DoAction", OutcomeUnknown), ("DoGet", Unavailable)]
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_server_that_is_lost_while_it_answers_may_have_done_it(
    forward: FlightForward, owner: Owner, method: str, told: type[Exception], *, begun: bool
) -> None:
    """gRPC's own word for it was passed on, by which nothing was done and all may be sent again."""

    def breaks_off(_: Iterator[bytes], context: Any) -> Iterator[bytes]:
        lost = Event()
        context.add_callback(lost.set)
        if begun:
            yield b"some"
        owner.server.stop(0)
        lost.wait(60)  # an answer that is over before is no lost one

    owner.answer = breaks_off
    with pytest.raises(told, match=f"the server {process_space()}/{NUMBER}, which"):
        list(passed_on(forward, call_of(method)))


def test_what_the_owner_says_itself_is_passed_on(forward: FlightForward, owner: Owner) -> None:
    owner.answer = refusing(grpc.StatusCode.UNAVAILABLE, "TooManyStatements: later")
    with pytest.raises(PassedOnFailure, match="TooManyStatements: later") as told:
        list(passed_on(forward, call_of()))
    assert told.value.code is grpc.StatusCode.UNAVAILABLE


def test_calls_share_a_connection_which_is_made_anew_where_it_was_lost(
    forward: FlightForward, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call had one of its own, which was closed 0.2 seconds behind it; a port where nobody listened was waited for five."""
    monkeypatch.setattr(peer_channels, "_CONNECT_SECONDS", 60.0)
    seen: list[str] = []

    def noted(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        seen.append(context.peer())
        return requests

    owner.answer = noted
    for _ in range(3):
        assert list(passed_on(forward, call_of())) == [b"first"]
    assert len(set(seen)) == 1
    owner.server.stop(0).wait(10)
    began = time.monotonic()

    def refuses() -> bool:
        try:
            list(passed_on(forward, call_of("DoGet")))
        except Unavailable as problem:  # the channel may hear of its end a moment after the server
            return "is not reached at" in problem.message
        return False

    assert eventually(refuses)
    assert time.monotonic() - began < 50, "it refuses at once"
    owner.start()

    def answers() -> bool:
        try:
            return list(passed_on(forward, call_of())) == [b"first"]
        except Unavailable:
            return False

    assert eventually(answers)
    assert len(set(seen)) == 2


def test_authorities_in_a_directory_are_trusted_for_flight_sql_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL reads SSL_CERT_DIR when it meets a certificate, so that HTTP was passed on and Flight SQL was not."""
    authority = trustme.CA().cert_pem.bytes()
    (tmp_path / "file.pem").write_bytes(b"")
    (tmp_path / "0123abcd.0").write_bytes(authority)
    (tmp_path / "0123abcd.1").write_bytes(b"no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "file.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert authority.split() == (_roots() or b"").split()


def test_each_notice_of_the_owner_comes_back(forward: FlightForward, owner: Owner) -> None:
    def noticed(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        call = of_owner(context)
        call.tell(["One table is damaged.", "Another one is, too."])
        call.set_cookie("c")
        call.begin_answer()
        return requests

    owner.answer = noticed
    call = call_of()
    assert list(passed_on(forward, call)) == [b"first"]
    call.begin_answer()
    assert [value for name, value in call.context.headers if name == "x-notice"] == ["One table is damaged.", "Another one is, too."]
    assert [name for name, _ in call.context.headers].count("set-cookie") == 1


def test_an_upload_that_breaks_off_is_no_whole_one_to_the_owner(forward: FlightForward, owner: Owner) -> None:
    """gRPC ends the stream of a client that is canceled a moment before it says that it is."""
    call = call_of()
    steps = iter(["piece", "end", "canceled"])

    class Requests:
        """gRPC's iterator of a call that is canceled behind its first piece of rows."""

        def __next__(self) -> bytes:
            match next(steps):
                case "piece":
                    return b"rows"
                case "end":
                    raise StopIteration
            call.context.active = False
            raise grpc.RpcError

        def __iter__(self) -> Iterator[bytes]:
            return self

    ends = Queue[str]()

    def drained(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        try:
            list(Stalls(60).receiving(of_owner(context), requests))
            ends.put("whole")
        except StatementCanceled:
            ends.put("canceled")
        yield b"done"

    owner.answer = drained
    with pytest.raises(PassedOnFailure) as told:
        list(passed_on(forward, call, Stalls(60).receiving(call, Requests())))
    assert told.value.code is grpc.StatusCode.CANCELLED
    assert ends.get(timeout=120) == "canceled"


def test_one_that_never_says_where_its_flight_sql_is_holds_nobody(
    dsn: str, services: Services, forward: FlightForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that stands still right after it was asked, over a connection that it keeps: it was waited for for 90 seconds."""
    assert services.peers is not None
    silent, others = Event(), Others(dsn, services.peers)
    others.add(lambda: silent.wait(80) and None)
    monkeypatch.setattr(peer_channels, "_PORT_SECONDS", 1.0)
    try:
        with pytest.raises(Unavailable, match="does not answer"):
            passed_on(forward, call_of())
        assert not silent.is_set()
        assert len(others.asked) == 1
    finally:
        silent.set()
        others.close()
