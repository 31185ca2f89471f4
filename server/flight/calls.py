"""One call of a client: who makes it, from where, and whether somebody still waits for the answer."""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lake import EVERYBODY, Caller
from server.sql.notices import HEADER, header_values

_log = logging.getLogger(__name__)
LOOK_SECONDS = 0.1
COOKIE = "sluice-session"
OWN_WORD = "x-sluice-own-word"
"""A header behind a failed answer: the failure is what this server says, not what gRPC makes of a connection that was lost."""
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


@dataclass(slots=True, kw_only=True)
class Call:
    """A call being answered."""

    context: Any
    """gRPC's own."""
    method: str
    token: str | None
    cookie: str | None
    request_id: str
    caller: Caller = EVERYBODY
    sent_headers: Sequence[tuple[str, str]] = ()
    """What the client sent before its message."""
    address: str = ""
    """The client's host."""
    notices: tuple[str, ...] = ()
    """What the client is to know of the statements that the call ran, told in the head of the answer."""
    _headers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _sent: bool = False

    @property
    def peer(self) -> str:
        """The client's end of its connection, such as ``ipv4:127.0.0.1:40512``."""
        return str(self.context.peer())

    def __post_init__(self) -> None:
        host = self.peer.partition(":")[2].rpartition(":")[0]
        self.address = self.address or host.replace("%5B", "").replace("%5D", "").strip("[]")

    @property
    def passed_on(self) -> Mapping[str, str]:
        """What another server says that passed the call on (`server.flight.forward`); empty for a client's own."""
        return {name: value for name, value in self.sent_headers if name.startswith("x-sluice-")}

    def gone(self) -> bool:
        """Whether the client has hung up or canceled."""
        return not self.context.is_active()

    def on_end(self, call: Callable[[], None]) -> bool:
        """Call once the answer has ended or the client has gone, on a thread that must not be kept; False where that is so already."""
        return bool(self.context.add_callback(call))

    def set_cookie(self, value: str) -> None:
        """Let the client name its session from now on, if it keeps cookies."""
        self.set_header("set-cookie", f"{COOKIE}={value}; HttpOnly")

    def set_header(self, name: str, *values: str) -> None:
        """Put a header before the answer, once for each value; nothing once it has begun."""
        self._headers[name] = values

    def tell(self, notices: Sequence[str]) -> None:
        """Let the client know this, once, whatever how many statements say it."""
        self.notices = tuple(dict.fromkeys((*self.notices, *notices)))

    def tell_own_failure(self) -> None:
        """Let another server that passed the call on know that the failure it is told next is this server's own word."""
        self.context.set_trailing_metadata(((OWN_WORD, self.request_id),))

    def begin_answer(self) -> None:
        """Send the headers, once."""
        if not self._sent:
            self._sent = True
            notices = ((HEADER.lower(), value) for value in header_values(self.notices))
            headers = ((name, value) for name, values in self._headers.items() for value in values)
            self.context.send_initial_metadata((("x-request-id", self.request_id), *headers, *notices))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHeaders:
    """What a call's headers say."""

    token: str | None
    cookie: str | None
    request_id: str
    sent: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, context: Any) -> CallHeaders:
        """The headers gRPC has read."""
        values: dict[str, list[str]] = {}
        for key, value in context.invocation_metadata():
            values.setdefault(key.lower(), []).append(_text(value))
        authorizations = set(values.get("authorization", []))
        request_id = (values.get("x-request-id") or [""])[0]
        return cls(
            sent=[(key, value) for key, several in values.items() for value in several],
            token=token_of(authorizations.pop()) if len(authorizations) == 1 else None,  # who says to be two is nobody
            cookie=_cookie(values.get("cookie", [])),
            request_id=request_id if _SANE_ID.fullmatch(request_id) else f"{random.getrandbits(128):032x}",
        )


def token_of(header: str) -> str | None:
    """The token in ``Bearer token`` or ``Basic base64(user:token)``; the user's name is not looked at."""
    import base64
    import binascii

    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer":
        return token or None
    if scheme.lower() != "basic":
        return None
    try:  # Go's clients leave the padding out
        return base64.b64decode(token + "=" * (-len(token) % 4)).decode().partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _cookie(headers: list[str]) -> str | None:
    for header in headers:
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE and _SANE_ID.fullmatch(value):
                return value
    return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class HangUps:
    """Notices clients that hang up while their statement runs, on one thread that sleeps while there is none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filled = threading.Event()
        self._stopped = threading.Event()
        self._watched: dict[int, tuple[Call, Callable[[], object]]] = {}
        self._next = 0
        self._thread = threading.Thread(target=self._look, name="sluice-flight-hangups", daemon=True)
        self._thread.start()

    def watch(self, call: Call, gone: Callable[[], object]) -> Callable[[], None]:
        """Call ``gone`` once when the client hangs up; returns what ends the watch, which must happen before the call is over."""
        with self._lock:
            self._next += 1
            number = self._next
            self._watched[number] = (call, gone)
        self._filled.set()
        return lambda: self._forget(number)

    def close(self) -> None:
        """Watch no more."""
        self._stopped.set()
        self._filled.set()

    def _forget(self, number: int) -> None:
        with self._lock:
            self._watched.pop(number, None)

    def _look(self) -> None:
        while not self._stopped.is_set():
            self._filled.wait()
            if self._stopped.wait(LOOK_SECONDS):
                return
            gone = []
            with self._lock:  # a call's context must not be asked once its watch has ended
                if not self._watched:
                    self._filled.clear()
                for number, (call, tell) in list(self._watched.items()):
                    try:
                        if not call.gone():
                            continue
                    except Exception:  # the watch goes on for everybody else
                        _log.exception("A call could not be asked whether its client is there")
                        continue
                    del self._watched[number]
                    gone.append(tell)
            for tell in gone:
                try:
                    tell()
                except Exception:  # the watch goes on for everybody else
                    _log.exception("A statement whose client has gone could not be canceled")
