"""One request on a connection: its body while it comes, whether it may come at all, and its way to a thread."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Protocol

from model.errors import LakeError, TooManyStatements
from server.http.answer import WSGIApp
from server.http.held import HeldBytes
from server.http.incoming import FREE_BYTES, MEMORY_BYTES, SPOOLED_BYTES, BrokenBody, IncomingBody, PipedBody
from server.http.owners import Owners
from server.http.request import RequestHead
from server.http.serial import SerialWorkers
from server.http.workers import Workers
from server.sql.disconnect import Client
from workers.spool import BodyFiles, owner_of

_log = logging.getLogger(__name__)
_PROBE = "/livez"
Admit = Callable[[dict[str, Any]], tuple[int, str | None]]
"""How many bytes of a body are taken of a request with this environment, 0 where it is refused anyway, and its principal. May block."""
_CROWDED = (
    "The requests that come from here hold as much memory as they may until they are whole and answered, and this one shows no token "
    "that lets it wait on the disk. Nothing was done; try again in a moment."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all connections of a server share."""

    app: WSGIApp
    admit: Admit
    workers: Workers
    probes: Workers
    """Those that say that the process lives, however busy the others are."""
    owners: Owners
    streams: SerialWorkers
    """Those that write what came for answers without end."""
    bodies: BodyFiles
    held: HeldBytes
    scheme: str
    stall: float


class Reading(Protocol):
    """What an exchange asks of its connection; by the event loop."""

    def hold(self, reason: str, stopped: bool) -> None:
        """Read no more for a reason, or let the reason go."""
        ...

    def soon(self, call: Callable[[], None]) -> None:
        """Run a call on the event loop; from any thread."""
        ...

    def ask_for_body(self) -> None:
        """Answer a client that waits with its body: 100 Continue."""
        ...

    def serve(self, exchange: Exchange) -> None:
        """Its request may be answered now."""
        ...

    def turn_away(self, exchange: Exchange, problem: Exception) -> None:
        """The body cannot be kept: neither this request nor those behind it are served."""
        ...


class Exchange:
    """Collects a request; ready to be served when all of it is there, or when it is clear that all of it is not wanted."""

    def __init__(self, head: RequestHead, environ: dict[str, Any], client: Client, site: Site, connection: Reading) -> None:
        self.head = head
        self.environ = environ
        self.client = client
        self.whole = False
        """Whether the client has sent all of it."""
        self.ready = False
        """Whether it may be answered; what comes of the body from then on is let go or piped."""
        self.body: IO[bytes] | io.RawIOBase = io.BytesIO()
        self.discarded = 0
        self._site = site
        self._connection = connection
        self._incoming = IncomingBody(site.bodies)
        self._pipe: PipedBody | None = None
        self._most: int | None = None
        """What may come, once that was asked."""
        self._busy = False
        """Whether a thread asks or writes for this body."""
        self._problem: Exception | None = None
        self._lost = False
        self._is_handed_over = False
        self.keep = head.keep_alive
        self._owner = site.owners.owner(environ)
        self._principal: str | None = None

    @property
    def is_large(self) -> bool:
        """Whether so much of its body has come that it does not lie in memory."""
        return self._incoming.size > MEMORY_BYTES

    def work(self, job: Callable[[], None]) -> None:
        """Have a thread do a part of what this request needs, when it is its owner's turn."""
        workers = self._site.probes if self.environ["PATH_INFO"].rstrip("/") == _PROBE else self._site.workers
        workers.submit(job, self._owner)

    def stream(self, job: Callable[[], None]) -> None:
        """Have a thread write what came for an answer without end, when it is its owner's turn."""
        self._site.streams.submit(job, self._owner)

    def hand_over(self) -> None:
        """From now on the app reads the body, and closes the exchange once it has answered."""
        self._is_handed_over = True
        self.environ["wsgi.input"] = self.body

    def begin(self) -> None:
        """The head is there."""
        self._count()
        length = self.head.length
        if length is None or length <= FREE_BYTES:
            if self.head.expects_continue:
                self._connection.ask_for_body()
        else:
            self._ask()

    def add(self, data: bytes) -> None:
        """A part of the body."""
        if self._pipe is not None:
            if not self._pipe.add(data):
                self._connection.hold("pipe", True)
            return
        if self.ready:
            self.discarded += len(data)
            return
        self._incoming.add(data)
        self._count()
        self._look()

    def end(self) -> None:
        """All of it has come."""
        self.whole = True
        if self._pipe is not None:
            self._pipe.end(broken=False)
        elif not self.ready:
            self._look()

    def lose(self) -> None:
        """The rest will not come, or nobody waits for the answer."""
        self._lost = True
        if self._pipe is not None:
            self._pipe.end(broken=True)
        if not self._busy and not self._is_handed_over:
            self.ready = True
            self._drop()

    def let_go(self) -> None:
        """It is answered before all of its body has come; nobody wants the rest."""
        self._pipe = None
        self._connection.hold("pipe", False)

    def close(self) -> None:
        """It has been answered."""
        self._lost = True
        if not self._busy:
            self._drop()

    def _drop(self) -> None:
        self._incoming.close()
        self._site.held.hold(self, self._owner, 0)

    def _count(self) -> None:
        """Tell what it holds in memory."""
        self._site.held.hold(self, self._owner, self.head.size + self._incoming.held)

    def _look(self) -> None:
        """Decide how to go on with what there is; waits for a thread that works on it."""
        if self._busy or self.ready:
            return
        size, crowded = self._incoming.size, self._site.held.crowded(self._owner)
        if self._most is None and (size > FREE_BYTES or (size and crowded)):
            self._ask()
        elif self._most is not None and size > max(self._most, FREE_BYTES):
            self._serve(BrokenBody())
        elif crowded and size and not self._most:
            self._turn_away(TooManyStatements(_CROWDED))
        elif self._incoming.wants_spill(whole=self.whole, crowded=crowded):
            self._beside(self._incoming.spill(self._owner), self._wrote)
        elif size > SPOOLED_BYTES and not self.whole:
            self._pipe = PipedBody(self._incoming.opened(), lambda: self._connection.soon(lambda: self._connection.hold("pipe", False)))
            self._serve(self._pipe)
        elif self.whole:
            self._serve(self._incoming.opened())

    def _ask(self) -> None:
        """Whether this request may send that much."""
        self._beside(self._asked_on_thread, self._asked)

    def _asked_on_thread(self) -> None:
        self._most, self._principal = self._site.admit(self.environ)

    def _asked(self) -> None:
        length = self.head.length
        if self._principal is not None:
            self._owner = owner_of(self._principal)
            self._count()
        if self._problem is not None:
            _log.error("A request could not be looked at", exc_info=self._problem)
            self._most = 0
        if length is not None and self._most is not None and length > max(self._most, FREE_BYTES):
            self._serve(BrokenBody())
        elif self.head.expects_continue and not self._incoming.size:
            self._connection.ask_for_body()

    def _wrote(self) -> None:
        if self._problem is not None:
            if not isinstance(self._problem, LakeError):
                _log.error("A request's body could not be kept on disk", exc_info=self._problem)
            self._turn_away(self._problem)

    def _turn_away(self, problem: Exception) -> None:
        self.ready = True
        self.keep = False
        self._drop()  # what came of it takes the space that is missing
        self._connection.turn_away(self, problem)

    def _beside(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        """Have a thread do what may block, read nothing meanwhile, and go on."""
        self._busy = True
        self._connection.hold("work", True)

        def work() -> None:
            try:
                job()
            except Exception as problem:
                self._problem = problem
            self._connection.soon(done)

        def done() -> None:
            self._busy = False
            if self._lost:
                self._drop()
                return
            self._count()
            then()
            self._connection.hold("work", False)
            self._look()

        self.work(work)

    def _serve(self, body: IO[bytes] | io.RawIOBase) -> None:
        self.ready = True
        self.body = body
        if not self.whole and self._pipe is None:
            self.keep = False
        self._connection.serve(self)
