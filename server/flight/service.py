"""Flight's gRPC service on bytes: rows that clients send come here undecoded (`docs/decisions/bodies-in-workers.md`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import grpc

SERVICE = "/arrow.flight.protocol.FlightService/"
MOST_CALLS = 1000
"""Calls at a time; each holds a thread, but rows without end only while there are some."""
MOST_CONNECTIONS = 1000
"""Each takes one of the files the process may open, of which HTTP, tables and Postgres need the rest (`server.http.gate`)."""
LEAST_PING_SECONDS = 10
"""Whoever asks more often whether this server is there is cut off."""
_LONGEST_MILLIS = 2**31 - 1
Context = Any
"""What gRPC knows of a call; its package is untyped."""


Requests = Iterator[bytes]
"""What a client sends. Every call has it as a stream: of a single message gRPC would take all before anybody asks who calls."""


class Answering(Protocol):
    """What answers the calls: requests and answers are serialized messages of Flight."""

    def one(self, context: Context, method: str, requests: Requests) -> Iterator[bytes]:
        """The answer of a call that has one."""

    def many(self, context: Context, method: str, requests: Requests) -> Iterator[bytes]:
        """The answers of a call that has several."""

    def rows(self, context: Context, requests: Requests, send: Callable[[bytes | None], None]) -> None:
        """Answer DoGet: send each message, and None at the end, which may come after this has returned."""

    def stream(self, context: Context, method: str, requests: Requests) -> Iterator[bytes]:
        """The answers of a call whose client sends a stream."""


_KINDS = {
    "Handshake": "stream", "ListFlights": "many", "GetFlightInfo": "one", "GetSchema": "one", "DoGet": "rows", "DoPut": "stream",
    "DoExchange": "stream", "DoAction": "many", "ListActions": "many",
}  # fmt: skip


class FlightService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds who answers a call."""

    def __init__(self, answering: Answering) -> None:
        self._handlers = {SERVICE + method: _handler(answering, method, kind) for method, kind in _KINDS.items()}

    def service(self, handler_call_details: Any) -> Any:
        """Called by gRPC for each call; None is UNIMPLEMENTED."""
        return self._handlers.get(handler_call_details.method)


def _handler(answering: Answering, method: str, kind: str) -> Any:
    answer: Callable[..., Any] = getattr(answering, kind)
    if kind == "rows":
        return grpc.stream_stream_rpc_method_handler(_Rows(answering))
    return grpc.stream_stream_rpc_method_handler(lambda requests, context: answer(context, method, requests))


class _Rows:
    """What gRPC calls for DoGet; by the attribute it lets the thread go when the call returns, whether all was sent or not."""

    experimental_non_blocking = True

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def __call__(self, requests: Requests, context: Context, send: Callable[[bytes | None], None]) -> None:
        self._answering.rows(context, requests, send)


class FlightServer:
    """A gRPC server with that service alone."""

    def __init__(
        self, answering: Answering, address: str, *, message_bytes: int, idle_seconds: float, tls: tuple[bytes, bytes] | None
    ) -> None:
        """Listen at ``host:port``; ``tls`` is a certificate and its key. Raises `OSError` where the address cannot be had.

        A connection without a call for ``idle_seconds`` is closed.
        """
        self._threads = ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="sluice-flight")
        self._server = grpc.server(
            self._threads,
            handlers=[FlightService(answering)],
            maximum_concurrent_rpcs=MOST_CALLS,
            options=[
                ("grpc.max_receive_message_length", message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", MOST_CALLS),
                ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
                # Other servers ask all the while whether this one is still there (`forward`); gRPC takes that for an attack.
                ("grpc.http2.min_recv_ping_interval_without_data_ms", LEAST_PING_SECONDS * 1000),
                ("grpc.max_connection_idle_ms", min(int(idle_seconds * 1000), _LONGEST_MILLIS)),
                # A compressed message is unfolded before anybody asks for its size; Arrow has its own compression.
                ("grpc.compression_enabled_algorithms_bitset", 1),
            ],
        )
        try:
            if tls is None:
                self.port = int(self._server.add_insecure_port(address))
            else:
                certificate, key = tls
                self.port = int(self._server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)])))
        except RuntimeError as problem:
            raise OSError(str(problem)) from problem
        self._server.start()

    def stop(self, seconds: float) -> None:
        """Take no more calls, and end those at work after so long."""
        self._server.stop(seconds).wait(seconds + 1.0)
        self._threads.shutdown(wait=False)
