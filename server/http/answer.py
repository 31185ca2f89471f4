"""One request's answer: made piece by piece on worker threads, which leave it while its reader is slow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol

from server.formats.writers import BrokenStream
from server.http.request import refused
from server.http.workers import Job
from server.sql.disconnect import WAITING
from server.sql.sleeper import Sleeper

_log = logging.getLogger(__name__)
_RUN_BYTES = 1 << 20
"""What a thread makes of an answer before it looks whether the connection has taken it."""
_TURN_SECONDS = 0.1
"""An answer without end whose rows come without a pause lets others have their turn."""
WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Wire(Protocol):
    """What an answer needs of its connection; all may be called from any thread."""

    jammed: bool
    """Whether the client is behind with reading."""
    lost: bool
    """Whether nobody is there any more."""

    def pass_on(self, data: bytes, *, last: bool, keep: bool) -> None:
        """Write; with the last bytes the answer has ended, and the connection is kept or closed."""
        ...

    def cut(self) -> None:
        """End the connection, so that the client sees that the answer is incomplete."""
        ...

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call on the event loop after some time, unless the connection has ended by then and nobody cares."""
        ...

    def park(self, resume: Callable[[], None]) -> None:
        """Call ``resume``, on a worker thread, once the client has read most of what was written, or has gone."""
        ...


class Answer:
    """Runs the app for one request and writes what it says."""

    def __init__(
        self,
        app: WSGIApp,
        environ: dict[str, Any],
        wire: Wire,
        streams: Callable[[Job], None],
        *,
        keep: bool,
        done: Callable[[], None],
    ) -> None:
        """``streams`` runs what is made of an answer without end, when it is its turn."""
        self._app = app
        self._environ = environ
        self._wire = wire
        self._streams = streams
        self._keep = keep
        self._done = done
        self._context = Context()
        self._head: bytes | None = None
        self._status = 200
        self._left: int | None = None
        """Bytes still owed of a length that was promised."""
        self._empty = self._chunked = False
        self._made: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] = iter(())
        self._sleeper: Sleeper | None = None

    def run(self) -> None:
        """Call the app and write until all is written or the reader is behind."""
        try:
            self._made = self._context.run(self._app, self._environ, self._start)
            self._pieces = iter(self._made)
        except Exception:  # Flask answers for its views; what comes here is a bug
            _log.exception("The app let an error out")
            self._wire.pass_on(refused(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error.").answer(), last=True, keep=False)
            self._close()
            return
        self._go_on()

    def _go_on(self) -> None:
        made, began = 0, time.monotonic()
        try:
            while not self._wire.lost:
                piece = self._context.run(next, self._pieces, None)
                if piece is None:
                    self._end()
                    break
                if not piece and self._sleeps():
                    return
                made += len(piece)
                if self._write(piece):
                    break
                if made >= _RUN_BYTES or self._wire.jammed:
                    self._wire.park(self._go_on)
                    return
                if self._sleeper is not None and time.monotonic() - began >= _TURN_SECONDS:
                    self._streams(self._go_on)
                    return
        except BrokenStream:  # of a format without a place for failures; whoever made it has told of this one
            self._wire.cut()
        except Exception:
            _log.exception("An answer ended in the middle")
            self._wire.cut()
        self._close()

    def _sleeps(self) -> bool:
        """Leave the thread until there may be more, where the app has said what tells of it."""
        waiting = self._environ.get(WAITING)
        if waiting is None:
            return False
        if self._sleeper is None:
            self._sleeper = Sleeper(waiting, lambda: self._streams(self._go_on), self._wire.later)
        self._sleeper.sleep()
        return True

    def _write(self, piece: bytes) -> bool:
        """Write a piece; True where it was the last."""
        if not self._has_body:
            return False
        head, self._head = self._head or b"", b""
        if self._left is not None:
            piece = piece[: self._left]
            self._left -= len(piece)
            if not self._left:
                self._wire.pass_on(head + piece, last=True, keep=self._keep)
                return True
        elif self._chunked and piece:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if head or piece:
            self._wire.pass_on(head + piece, last=False, keep=True)
        return False

    def _end(self) -> None:
        head = self._head or b""
        if self._has_body and self._left:
            _log.error("An answer is %d bytes shorter than it said", self._left)
            self._wire.cut()
            return
        self._wire.pass_on(head + (b"0\r\n\r\n" if self._chunked and self._has_body else b""), last=True, keep=self._keep)

    def _close(self) -> None:
        try:
            close = getattr(self._made, "close", None)
            if close is not None:
                self._context.run(close)
        except Exception:
            _log.exception("An answer's resources could not be released")
        finally:
            if self._sleeper is not None:
                self._sleeper.end()
            self._made, self._pieces = (), iter(())
            self._done()

    @property
    def _has_body(self) -> bool:
        return self._environ["REQUEST_METHOD"] != "HEAD" and self._status not in (204, 304) and not self._empty

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
        """WSGI's ``start_response``."""
        self._status = int(status[:3])
        named = {name.lower(): value for name, value in headers}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
        if "content-length" in named:
            self._left = int(named["content-length"])
            self._empty = not self._left
        elif not self._has_body:
            pass
        elif self._environ["SERVER_PROTOCOL"] == "HTTP/1.1":
            self._chunked = True
            lines.append("Transfer-Encoding: chunked")
        else:
            self._keep = False
        if named.get("connection", "").lower() == "close":
            self._keep = False
        elif not self._keep:
            lines.append("Connection: close")
        elif self._environ["SERVER_PROTOCOL"] == "HTTP/1.0":
            lines.append("Connection: keep-alive")
        lines += [f"Date: {formatdate(usegmt=True)}", "Server: sluice"]
        head = "\r\n".join(lines)
        if any(mark in "".join(lines) for mark in "\r\n\0"):
            raise ValueError("A header of the answer holds a line break.")
        self._head = f"{head}\r\n\r\n".encode("latin-1")
        return _no_write


def _no_write(data: bytes) -> object:
    raise NotImplementedError("Answers are iterated here, not written.")
