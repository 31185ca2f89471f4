"""The listening socket in its event loop: accepts, secures, and looks every second at what takes too long."""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import logging
import math
import socket
import ssl
from functools import partial

from server.access.tls import HANDSHAKE_SECONDS, PLAIN_ANSWER, TlsFiles, speaks_tls
from server.http.connection import Connection
from server.http.exchange import Site
from server.http.gate import Gate, Group
from server.http.loop_calls import LoopCalls

_log = logging.getLogger(__name__)
_AT_ONCE = 64
"""Connections accepted before those that are there get their turn."""
_ENDED_AT_ONCE = 32
_LOOK_SECONDS = 1.0
_SHORT_SECONDS = 0.1
_TLS_BYTES = 32 << 10
"""What each connection over TLS reads into, twice, for as long as it is open: asyncio's own 256 kB are gigabytes for those allowed."""
_FULL = "No connection could be accepted (%s): the limit of open files is reached"


class Listener:
    """Lives in one event loop; everything here runs on its thread."""

    def __init__(self, bound: socket.socket, site: Site, gate: Gate, tls: TlsFiles | None) -> None:
        self._socket = bound
        self._site = site
        self._gate = gate
        self._tls = tls
        if tls is not None:
            asyncio.sslproto.SSLProtocol.max_size = _TLS_BYTES  # there is no argument for it
        self._loop = asyncio.get_running_loop()
        self._calls = LoopCalls(self._loop)
        self._server: tuple[str, int] = bound.getsockname()[:2]
        self._open: set[Connection | Knock] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def begin(self) -> None:
        """Accept from now on."""
        self._loop.add_reader(self._socket, self._accept)
        self._loop.call_later(_LOOK_SECONDS, self._look)

    async def stop(self, seconds: float) -> None:
        """Accept no more, and come back when all is answered or the time is over; the rest is cut."""
        self._stopping = True
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._empty.clear()
        for connection in list(self._open):
            connection.finish()
        if self._open:
            try:
                await asyncio.wait_for(self._empty.wait(), seconds)
            except TimeoutError:
                _log.info("%d connections are cut: their answers took longer than the drain", len(self._open))
        await self._answered()
        for connection in list(self._open):
            connection.dismiss()
        await asyncio.sleep(0)

    async def _answered(self) -> None:
        """Wait until threads have told that they answered, which they do after their clients know."""
        last = self._loop.time() + _LOOK_SECONDS
        while self._site.held.total and not self._open and self._loop.time() < last:
            await asyncio.sleep(_SHORT_SECONDS / 100)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:  # no file or buffer left: those that wait are looked at again when some have gone
                _log.error(_FULL, problem.strerror)
                self._gate.close_idle()
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_SHORT_SECONDS, self._accept_again)
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            knock = Knock(connection, address[:2], self)
            self._open.add(knock)
            self._gate.enter(knock, knock.address[0])
            if knock in self._open:  # the gate may have had no place for it
                knock.wait(self._site.stall if self._tls is None else HANDSHAKE_SECONDS)

    def _accept_again(self) -> None:
        if not self._stopping:
            self._loop.add_reader(self._socket, self._accept)

    def _spawn(self, knock: Knock) -> None:
        task = self._loop.create_task(self._connect(knock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, knock: Knock) -> None:
        """Make a connection of what was accepted; its handshake is bounded, and counts where the knock does."""
        if knock not in self._open:  # its place was needed before this task's turn came
            return
        context = None if self._tls is None else self._tls.context()
        tell = partial(self._told, knock)
        connection = Connection(self._site, self._gate, knock.address, self._server, tell, self._calls)
        knock.handshake = asyncio.current_task()
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                knock.socket,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_SECONDS,
            )
        except (OSError, ssl.SSLError, ValueError) as problem:  # a scanner, a client that does not trust us, or one that left
            _log.debug("A connection was not made: %s", problem)
            connection.connection_lost(None)
        else:
            if self._stopping:
                connection.finish()
        finally:
            if knock in self._open:  # also where its place was needed
                self.drop(knock)

    def _told(self, knock: Knock, connection: Connection, is_made: bool) -> None:
        """A connection is made of a knock, or has ended."""
        if not is_made:
            self._forget(connection)
            return
        self._gate.leave(knock)
        self._open.discard(knock)
        self._open.add(connection)
        self._gate.enter(connection, knock.address[0])

    def arrived(self, knock: Knock) -> None:
        """The first byte of a connection is there, or its end."""
        try:
            tls = self._tls is None or speaks_tls(knock.socket)
        except BlockingIOError:
            knock.wait(HANDSHAKE_SECONDS)
            return
        except OSError:
            self.drop(knock)
            return
        if tls:
            self._spawn(knock)
            return
        try:
            knock.socket.recv(65536)  # unread bytes would turn the close into a reset, which takes the answer along
            knock.socket.send(PLAIN_ANSWER)
        except OSError:
            _log.debug("A client that spoke plain HTTP has gone", exc_info=True)
        self.drop(knock)

    def drop(self, knock: Knock) -> None:
        """Close what never became a connection."""
        self._gate.leave(knock)
        knock.socket.close()
        self._forget(knock)

    def _forget(self, connection: Connection | Knock) -> None:
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    def _look(self) -> None:
        now = self._loop.time()
        self._end([connection for connection in self._open if connection.deadline < now])

    def _end(self, overdue: list[Connection | Knock]) -> None:
        """Some at a time: thousands that came together are overdue together, and who asks meanwhile is not to wait for all of them."""
        now = self._loop.time()
        for connection in overdue[:_ENDED_AT_ONCE]:
            if connection.deadline < now and connection in self._open:
                connection.overdue()
        if rest := overdue[_ENDED_AT_ONCE:]:
            self._loop.call_soon(self._end, rest)
        elif not self._socket_closed():
            self._loop.call_later(_LOOK_SECONDS, self._look)

    def _socket_closed(self) -> bool:
        return self._stopping and not self._open


class Knock:
    """A socket that was accepted, before anything is known of its client."""

    def __init__(self, accepted: socket.socket, address: tuple[str, int], listener: Listener) -> None:
        self.group: Group = ("", "")
        self.socket = accepted
        self.address = address
        self.deadline = math.inf
        self.waits, self.jammed = True, False
        self.handshake: asyncio.Task[None] | None = None
        """What makes a connection of it; its transport has the socket then."""
        self._listener = listener

    def wait(self, seconds: float) -> None:
        """Until its first byte, which tells what it speaks; until then it costs a file and little else."""
        loop = asyncio.get_running_loop()
        self.deadline = loop.time() + seconds
        loop.add_reader(self.socket, self._readable)

    def _readable(self) -> None:
        self._unwatch()
        self._listener.arrived(self)

    def dismiss(self) -> None:
        if self.handshake is not None:
            self.handshake.cancel()
        else:
            self._unwatch()
            self._listener.drop(self)

    finish = overdue = dismiss

    def _unwatch(self) -> None:
        self.deadline = math.inf
        asyncio.get_running_loop().remove_reader(self.socket)
