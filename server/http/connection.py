"""A client's connection: parses what comes, hands whole requests to threads, and bounds what it may cost and how long."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import httptools

from server.access.tls import all_sent
from server.http.answer import Answer
from server.http.exchange import Exchange, Site
from server.http.gate import Gate, Group
from server.http.loop_calls import LoopCalls
from server.http.request import MOST_HEAD_BYTES, Refusal, RequestHead, no_place, not_kept, refused, too_large_head
from server.sql.disconnect import ENDLESS, PRINCIPAL, Client

_HEAD_SECONDS = 20.0
"""A request's head is there so long after its first byte."""
_STEP_BYTES, _LARGE_STEP_BYTES = 64 << 10, 1 << 20
"""So much of a body comes in the time of a stall, or the rest of it, and of one that is no longer in memory; a byte a second is none."""
_LINGER_SECONDS, _STOP_LINGER_SECONDS = 10.0, 1.0
"""A connection to be closed waits so long for its client to take the last answer; and where all of it is sent, as the server stops."""
_LEFT_SECONDS = 0.25
"""A client that closed its side gets an answer that is ready so soon; then it has gone."""
_MOST_PIPELINED = 64
_HELD_BACK = 4
"""With so many requests waiting no more are read."""
_MOST_DISCARDED = 256 << 20
"""Up to so much of a body nobody wants is read and thrown away, so that its sender gets to read the answer."""
_WRITE_HIGH, _WRITE_LOW = 256 << 10, 64 << 10


class Connection(asyncio.Protocol):
    """What one client sends and is sent. Everything is called by the event loop but what `Wire` says."""

    def __init__(
        self,
        site: Site,
        gate: Gate,
        address: tuple[str, int],
        server: tuple[str, int],
        tell: Callable[[Connection, bool], None],
        calls: LoopCalls,
    ) -> None:
        """``tell`` is told when it is made (True), over TLS at the end of its handshake, and when it has ended (False)."""
        self.group: Group = ("", "")
        self.jammed = self.lost = False
        self.deadline = math.inf
        self._site, self._gate = site, gate
        self._address, self._server, self._tell = address, server, tell
        self._loop, self._calls = asyncio.get_running_loop(), calls
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._head: RequestHead | None = None
        """What is being read of a head."""
        self._head_bytes = 0
        self._coming: Exchange | None = None
        """Whose body is being read."""
        self._exchanges: deque[Exchange] = deque()
        """Those not answered yet, the oldest first."""
        self._serving: Exchange | None = None
        self._has_place: bool | None = None
        """Whether who asked what is being served has a place for this connection; None until it was counted."""
        self._holds: set[str] = set()
        self._body_mark = 0
        self._framing = 0
        """Bytes since the last of a body: lengths of chunks, their extensions, headers after them."""
        self._parked: Callable[[], None] | None = None
        self._refusal: Refusal | None = None
        """To be said once all answers owed are out."""
        self._declined = RequestHead()
        self._upgrades = self._closing = self._stopping = self._eof = False

    # What the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        transport.set_write_buffer_limits(high=_WRITE_HIGH, low=_WRITE_LOW)
        self._reckon()
        self._tell(self, True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost, self.deadline = True, math.inf
        self._gate.leave(self)
        self._tell(self, False)
        self._leave()
        self._unpark()
        self._parser = None

    def eof_received(self) -> bool:
        """The client closed its side: it may still read, but nothing can be asked of it any more."""
        self._eof = True
        if self._closing:
            return False
        if self._coming is not None or self._head is not None:
            self._refuse(refused(HTTPStatus.BAD_REQUEST, "The request ended before all of it had come."))
        if not self._exchanges:
            self._close()
            return False
        self._loop.call_later(_LEFT_SECONDS, self._leave)
        return self._site.scheme == "http"  # TLS knows no half

    def data_received(self, data: bytes) -> None:
        if self._closing or self._refusal is not None or self._parser is None:
            return
        reading, coming = self._head, self._coming
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as problem:
            if not self._closing:
                self._refuse(refused(HTTPStatus.BAD_REQUEST, f"This is no HTTP request: {problem}."))
        else:
            if self._head is not None:
                self._head_bytes += len(data) if self._head is reading else 0
                if self._head_bytes > MOST_HEAD_BYTES or self._head.too_large:
                    self._refuse(too_large_head())
            elif coming is not None and coming is self._coming and self._framing > MOST_HEAD_BYTES:
                self._refuse(too_large_head())

    def pause_writing(self) -> None:
        self.jammed = True
        self._reckon()
        self._tell_buffered()

    def resume_writing(self) -> None:
        self.jammed = False
        self._reckon()
        self._tell_buffered()
        self._unpark()

    def _tell_buffered(self) -> None:
        if self._transport is not None and not self.lost and not self._closing:
            self._gate.buffer(self, self._transport.get_write_buffer_size() if self.jammed else 0)

    def _reckon(self) -> None:
        """Until when something must move."""
        now = self._loop.time()
        if self._closing:
            is_sent = self._transport is not None and all_sent(self._transport)
            self.deadline = now + (_STOP_LINGER_SECONDS if self._stopping and is_sent else _LINGER_SECONDS)
        elif self.jammed or self._coming is not None:
            self.deadline = now + self._site.stall
        elif self._serving is not None:
            self.deadline = math.inf
        else:
            self.deadline = now + (self._site.stall if self._head is None else _HEAD_SECONDS)

    # What the parser says

    def on_message_begin(self) -> None:
        self._head, self._head_bytes = RequestHead(), 0
        if not self._closing:
            self._reckon()

    def on_url(self, part: bytes) -> None:
        if self._head is not None:
            self._head.add_url(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # else it comes after the chunks, where nothing is wanted
            self._head.add(name, value)

    def on_headers_complete(self) -> None:
        head, self._head = self._head, None
        if head is None or self._parser is None or self._closing or self._refusal is not None:
            return
        head.method = self._parser.get_method().decode("latin-1")
        head.version = self._parser.get_http_version()
        head.keep_alive = self._parser.should_keep_alive()
        self._upgrades = self._parser.should_upgrade() and head.method != "CONNECT"
        if (refusal := head.check()) is not None:
            self._refuse(refusal)
            return
        if self._upgrades:
            self._declined = head
            return
        if len(self._exchanges) >= _MOST_PIPELINED:
            self._refuse(refused(HTTPStatus.BAD_REQUEST, f"More than {_MOST_PIPELINED} requests were sent without reading an answer."))
            return
        client = Client()
        environ = head.environ(scheme=self._site.scheme, server=self._server, client=self._address, link=client)
        self._coming = exchange = Exchange(head, environ, client, self._site, self)
        self._exchanges.append(exchange)
        self.hold("pipeline", len(self._exchanges) >= _HELD_BACK)
        self._body_mark = self._framing = 0
        self._reckon()
        exchange.begin()

    def on_body(self, data: bytes) -> None:
        exchange = self._coming
        if exchange is None or self._closing or self._refusal is not None:
            return
        self._framing = 0
        self._body_mark += len(data)
        if self._body_mark >= (_LARGE_STEP_BYTES if exchange.is_large else _STEP_BYTES):
            self._body_mark = 0
            self._reckon()
        exchange.add(data)
        if exchange.discarded > _MOST_DISCARDED:
            self._close()

    def on_message_complete(self) -> None:
        if self._upgrades:
            return
        exchange, self._coming = self._coming, None
        if exchange is None or self._closing or self._refusal is not None:
            return
        self._reckon()
        exchange.end()
        if exchange not in self._exchanges:  # it was answered before its end
            self._close()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Go on in HTTP/1.1 with a client that offers another protocol: the request is read again without the offer."""
        head = self._declined if self._upgrades else None
        self._upgrades = False
        if head is None or self._closing:
            self._refuse(refused(HTTPStatus.NOT_IMPLEMENTED, "This server is no proxy."))
            return
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(head.without_upgrade() + rest)

    # What an exchange asks

    def hold(self, reason: str, stopped: bool) -> None:
        before = bool(self._holds)
        (self._holds.add if stopped else self._holds.discard)(reason)
        if self._transport is None or self.lost or before == bool(self._holds) or self._transport.is_closing():
            return
        if self._holds:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def soon(self, call: Callable[[], None]) -> None:
        self._calls.soon(call)

    def ask_for_body(self) -> None:
        if self._transport is not None and self._serving is None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def serve(self, exchange: Exchange) -> None:
        self._next()

    def turn_away(self, exchange: Exchange, problem: Exception) -> None:
        self._coming = None
        while exchange in self._exchanges:
            self._exchanges.pop().lose()
        self._refusal = None  # of what came behind it, which is not answered any more
        self._refuse(not_kept(problem))

    # Answers

    def _next(self) -> None:
        """Give the oldest request to a thread where it is ready and no other is being answered."""
        if self._serving is not None or not self._exchanges or self.lost or self._closing or not self._exchanges[0].ready:
            return
        exchange = self._exchanges[0]
        principal = self._site.owners.known(exchange.environ)
        if principal is not None and not self._gate.prove(self, principal):
            self._refuse_all(no_place(principal))
            return
        self._serving, self._has_place = exchange, None
        self._reckon()
        exchange.hand_over()
        keep = exchange.keep and not self._stopping and not self._eof
        answer = Answer(self._site.app, exchange.environ, self, exchange.stream, keep=keep, done=lambda: self.soon(exchange.close))
        exchange.work(answer.run)

    def pass_on(self, data: bytes, *, last: bool, keep: bool) -> None:
        self.soon(lambda: self._pass_on(data, last, keep))

    def _pass_on(self, data: bytes, last: bool, keep: bool) -> None:
        if self.lost or self._transport is None:
            return
        has_place = self._prove()
        if not has_place and self._serving is not None and ENDLESS in self._serving.environ:
            self._transport.write(no_place(self._serving.environ[PRINCIPAL]).answer())
            self.lost = True  # nothing more of the answer is wanted
            self._close()
            return
        self._transport.write(data)
        self._tell_buffered()
        if last:
            self._answered(keep and has_place and not self._stopping)

    def _prove(self) -> bool:
        """Count it for who asked, which is known by now; False without a place: an answer with an end is given, for its work was done."""
        if self._has_place is None and self._serving is not None:
            principal = self._site.owners.learn(self._serving.environ)
            self._has_place = principal is None or self._gate.prove(self, principal)
        return self._has_place is not False

    def _answered(self, keep: bool) -> None:
        exchange, self._serving = self._serving, None
        assert exchange is not None
        self._exchanges.popleft()
        if not keep or self._eof:
            if exchange.whole or self._eof:
                self._close()
            else:  # its sender reads the answer once it has sent all, which is let go
                exchange.let_go()
                self._reckon()
            return
        self.hold("pipeline", len(self._exchanges) >= _HELD_BACK)
        self._reckon()
        self._next()
        self._say_refusal()

    def cut(self) -> None:
        self.soon(self.dismiss)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        def arm() -> None:
            self._loop.call_later(seconds, call)

        self.soon(arm)

    def park(self, resume: Callable[[], None]) -> None:
        self.soon(lambda: self._park(resume))

    def _park(self, resume: Callable[[], None]) -> None:
        self._parked = resume
        if not self.jammed or self.lost:
            self._unpark()

    def _unpark(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None and self._serving is not None:
            self._serving.work(parked)
        elif parked is not None:
            self._site.workers.submit(parked)

    # The end

    @property
    def waits(self) -> bool:
        return self._serving is None

    def finish(self) -> None:
        """The server stops: close when nothing is owed."""
        self._stopping = True
        if self._closing:
            self._reckon()
        elif not self._exchanges:
            self._close()

    def overdue(self) -> None:
        """Nothing moved for too long."""
        if self._holds and not self.jammed and not self._closing:  # it is we who do not read
            self._reckon()
        elif self._coming is not None and self._coming is self._serving:  # its thread is told, and answers
            self._coming.lose()
            self._coming = None
            self._reckon()
        elif self._closing or self.jammed or (self._head is None and self._coming is None):
            self.dismiss()
        else:
            self._refuse(refused(HTTPStatus.REQUEST_TIMEOUT, "The request did not come in time."))

    def _refuse(self, refusal: Refusal) -> None:
        """Serve no more; the refusal is said behind the answers that are owed."""
        if self._closing or self._refusal is not None:
            return
        self._refusal = refusal
        self._head = None
        if self._coming is not None and self._coming is not self._serving:
            self._coming.lose()
            self._exchanges.remove(self._coming)
        self._coming = None
        self._say_refusal()

    def _refuse_all(self, refusal: Refusal) -> None:
        """Serve none of those that wait, of which none was begun."""
        while self._exchanges:
            self._exchanges.popleft().lose()
        self._coming = self._refusal = None
        self._refuse(refusal)

    def _say_refusal(self) -> None:
        if self._refusal is not None and not self._exchanges and self._transport is not None and not self._closing:
            self._transport.write(self._refusal.answer())
            self._close(linger=True)

    def _close(self, *, linger: bool = False) -> None:
        """Close once what is written has gone out; lingering, once the client has stopped sending, too."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._reckon()
        if linger and not self._eof and self._transport.can_write_eof():
            self._transport.write_eof()  # bytes that were not read would turn a close into a reset, which takes the answer along
            self._holds.clear()
            if not self._transport.is_reading():
                self._transport.resume_reading()
        else:
            self._transport.close()

    def dismiss(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _leave(self) -> None:
        """The client has gone."""
        for exchange in self._exchanges:
            exchange.lose()
            exchange.client.leave()
        if self._coming is not None:
            self._coming.lose()
        if self._serving is None:
            self._close()
