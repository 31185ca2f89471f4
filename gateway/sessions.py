"""The registry of sessions: opened, found by handle, closed, and closed by themselves when idle."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping

from gateway.execution.executor import Chain
from gateway.operation import Operation
from lake import Owner
from model.errors import OperationNotExist, SessionNotExist, TooManyStatements
from model.work.fair_share import may_have_another
from model.work.handle import NO_SERVER, new_handle
from model.work.shared_bytes import SharedBytes
from sql.execution.results import ResultSet
from sql.execution.session import Session
from sql.execution.session_memory import SessionMemory

_log = logging.getLogger(__name__)
_NOBODY = Owner()
MOST_OPERATIONS = 200
"""Operations a session keeps. Flink's JDBC driver closes none that failed (`gateway.md` 1.5)."""

_MOST_BYTES = 64 << 20
"""Of what is set in all sessions, and of their temporary tables, where that is more than `_BYTES_OF_SESSION` for each."""
_BYTES_OF_SESSION = 64 << 10
"""Flink's clients send their whole configuration when they open one."""


class GatewaySession:
    """One client's session: what its statements see, the order they run in, and its operations."""

    def __init__(self, session: Session, chain: Chain, *, owner: Owner = _NOBODY) -> None:
        self.session = session
        self.owner = owner
        """Who opened it; nobody else may use it."""
        self.chain = chain
        self.on_close: Callable[[], None] = lambda: None
        self._operations: dict[str, Operation] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.opened = time.time()
        self._used = time.monotonic()
        self._read = 0
        """Results that somebody reads, or may still come for."""

    @property
    def handle(self) -> str:
        """The name clients know it by."""
        return self.session.handle

    def touch(self) -> None:
        """It was used just now."""
        self._used = time.monotonic()

    def outcome(self, operation: Operation) -> ResultSet:
        """What an operation ended with, which is let go; its client uses the session until the result is closed."""
        try:
            result = operation.outcome()
            with self._lock:
                self._read += 1
            result.on_close(self._was_read)
            return result
        finally:
            self.touch()
            self.forget(operation.handle)

    def _was_read(self) -> None:
        self.touch()
        with self._lock:
            self._read -= 1

    def add(self, operation: Operation) -> None:
        """Keep an operation until it is closed; of very many that ended and never were, the oldest goes. Raises `SessionNotExist`."""
        forgotten = None
        with self._lock:
            if self._closed:  # nobody would close it
                raise _missing(self.handle)
            self._operations[operation.handle] = operation
            if len(self._operations) > MOST_OPERATIONS:
                forgotten = next((candidate for candidate in self._operations.values() if candidate.state.terminal), None)
                if forgotten is not None:
                    del self._operations[forgotten.handle]
        if forgotten is not None:
            forgotten.close()

    def operation(self, handle: str) -> Operation:
        """An operation by handle; raises `OperationNotExist`."""
        operation = self._operations.get(handle)
        if operation is None:
            raise OperationNotExist(f"The session has no operation {handle}; it was never submitted here, or is closed.")
        return operation

    def operations(self) -> list[Operation]:
        """All that are not closed."""
        with self._lock:
            return list(self._operations.values())

    def forget(self, handle: str) -> Operation | None:
        """Take an operation out; None where it is out already."""
        with self._lock:
            return self._operations.pop(handle, None)

    def idle_for(self) -> float:
        """Seconds since it was last used, or its last statement ended; 0 while a statement runs or a result is read."""
        last = 0.0
        for operation in self.operations():
            if (ended := operation.ended_at) is None:
                return 0.0
            last = max(last, ended)
        return 0.0 if self._read else time.monotonic() - max(last, self._used)  # read last: one that was let go meanwhile told it before

    def close(self) -> None:
        """Cancel what runs and free every result."""
        with self._lock:
            self._closed = True
        for operation in self.operations():
            operation.close()
            self.forget(operation.handle)
        self.session.end()
        self.on_close()


class Sessions:
    """Sessions by handle, at most so many, each closed after so many idle seconds."""

    def __init__(self, *, max_sessions: int, idle_seconds: float, chain: Callable[[], Chain], server: int = NO_SERVER) -> None:
        self._server = server
        """Its number, which handles tell."""
        self._max = max_sessions
        self._idle_seconds = idle_seconds
        self._chain = chain
        self._lock = threading.Lock()
        self._sessions: dict[str, GatewaySession] = {}
        self._memory = SharedBytes(max(_MOST_BYTES, max_sessions * _BYTES_OF_SESSION))

    def open(self, name: str | None, properties: Mapping[str, str], *, owner: Owner = _NOBODY) -> GatewaySession:
        """A new session; raises `TooManyStatements` where there are as many, or as large ones, as there may be, or of this owner."""
        memory = SessionMemory(self._memory, owner.principal)
        session = Session(new_handle(self._server), name, settings=dict(properties), memory=memory)
        opened = GatewaySession(session, self._chain(), owner=owner)
        try:
            self._add(opened, owner)
        except TooManyStatements:
            memory.end()
            raise
        return opened

    def _add(self, opened: GatewaySession, owner: Owner) -> None:
        with self._lock:
            own = sum(session.owner.principal == owner.principal for session in self._sessions.values())
            if not may_have_another(own, len(self._sessions), self._max):
                if len(self._sessions) >= self._max:
                    raise TooManyStatements(f"There are {self._max} sessions, as many as this server keeps; close some or try again later.")
                raise TooManyStatements(
                    f"{own} sessions of {owner.principal} are open; the rest of the {self._max} this server keeps is for others. "
                    "Close some or try again later."
                )
            self._sessions[opened.handle] = opened

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, handle: str) -> GatewaySession:
        """A session by handle, marked as used; raises `SessionNotExist`."""
        with self._lock:  # `expire` looks under it, too
            session = self._sessions.get(handle)
            if session is None:
                raise _missing(handle)
            session.touch()
        return session

    def check_owner(self, handle: str, caller: Owner) -> None:
        """Raise `SessionNotExist` for another's session; one that is not there is told when it is used."""
        session = self._sessions.get(handle)
        if session is not None and not session.owner.admits(caller):
            raise _missing(handle)

    def all(self) -> list[GatewaySession]:
        """All that are open, oldest first; looking at them does not keep them."""
        with self._lock:
            return list(self._sessions.values())

    def count(self) -> int:
        """How many are open."""
        return len(self._sessions)

    def close(self, handle: str) -> None:
        """Close a session: its statements are canceled and its results freed."""
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            raise _missing(handle)
        session.close()

    def expire(self) -> list[str]:
        """Close those idle for too long, and name them."""
        with self._lock:
            idle = [handle for handle, session in self._sessions.items() if session.idle_for() > self._idle_seconds]
        closed = []
        for handle in idle:
            with self._lock:  # the close of the one before may have taken long
                session = self._sessions.get(handle)
                if session is None or session.idle_for() <= self._idle_seconds:
                    continue
                del self._sessions[handle]
            _log.info("Session %s was idle for %g s and is closed", handle, self._idle_seconds)
            session.close()
            closed.append(handle)
        return closed

    def close_all(self) -> None:
        """Close every session."""
        for handle in list(self._sessions):
            with contextlib.suppress(SessionNotExist):
                self.close(handle)


def _missing(handle: str) -> SessionNotExist:
    return SessionNotExist(f"There is no session {handle}; it was never opened on this server, or is closed or expired.")
