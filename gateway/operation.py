"""One statement's life: its states, the moves between them, and what it ends with."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, TypeAlias

from gateway.origin import ORIGIN
from gateway.result_pages import Pages
from lake.access.owner import Owner
from model.errors import IllegalMove, LakeError, OutcomeUnknown, StatementCanceled, StatementTimeout
from model.options.masking import masked_text
from model.work.handle import NO_SERVER, new_handle
from model.work.quota import SECONDS
from sql.execution.cancellation import Cancellation
from sql.execution.progress import Progress
from sql.execution.results import ResultSet


class OperationState(StrEnum):
    """Where an operation is; the values are Flink's words."""

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    TIMEOUT = "TIMEOUT"
    ERROR = "ERROR"
    CLOSED = "CLOSED"

    @property
    def terminal(self) -> bool:
        """Whether the statement no longer runs."""
        return self not in (OperationState.INITIALIZED, OperationState.PENDING, OperationState.RUNNING)


STOP_SECONDS = 5.0
"""So long a statement that was told to stop may take to say what became of what it was deciding."""
ENDED_CHARS = 20_000
"""Characters kept of the text of a statement that has ended."""
_S = OperationState
_STOP = frozenset({_S.CANCELED, _S.TIMEOUT, _S.ERROR, _S.CLOSED})
NEXT: dict[OperationState, frozenset[OperationState]] = {
    _S.INITIALIZED: _STOP | {_S.PENDING},
    _S.PENDING: _STOP | {_S.RUNNING},
    _S.RUNNING: _STOP | {_S.FINISHED},
    **dict.fromkeys((_S.FINISHED, _S.CANCELED, _S.TIMEOUT, _S.ERROR), frozenset({_S.CLOSED})),
    _S.CLOSED: frozenset(),
}


class _Limit(NamedTuple):
    """A time limit; the one that ends first is the smallest."""

    begun: float
    """By the monotonic clock."""
    seconds: float
    quota: str = ""
    """The quota it comes from, where one does."""

    def __lt__(self, other: object) -> bool:
        return isinstance(other, _Limit) and self.left() < other.left()

    def left(self) -> float:
        """Seconds until it is over."""
        return self.begun + self.seconds - time.monotonic()


_NOBODY = Owner()


class _Stop(NamedTuple):
    """What a statement was told that may have decided something by then."""

    to: OperationState
    reason: LakeError
    until: float
    """By the monotonic clock; then it ends, whatever became of it."""


class Operation:
    """A statement (or a text of several) between its submission and its close.

    Whoever waits is free at the first terminal state; a worker that comes later finds the move illegal
    and throws its result away. One that was told to stop while it decides, or after, ends as its worker says within `STOP_SECONDS`.
    """

    def __init__(  # noqa: PLR0913 - what a client says of its statement
        self,
        text: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        quota: float | None = None,
        owner: Owner = _NOBODY,
        name: str | None = None,
        server: int = NO_SERVER,
    ) -> None:
        """``timeout`` and ``quota`` are seconds for the whole text, waiting included; the quota is the one of its principal.

        ``server`` is the number of the one that knows it.
        """
        self.handle = new_handle(server)
        self.name = name
        """What its client calls it."""
        self.owner = owner
        self.progress = Progress()
        self.text = text
        self.values: Callable[[], bytes] = bytes
        """What tells the values of its parameters from others."""
        self.describes = False
        """Whether the text is only looked at, which nobody keeps a record of."""
        self.session = session
        self.cancellation = Cancellation()
        self.origin = ORIGIN.get()
        self.submitted = time.time()
        self._begun = begun = time.monotonic()
        self._took = 0.0
        """Seconds from then until its client was told the end."""
        self._text_limits = [_Limit(begun, seconds, by) for seconds, by in ((timeout, ""), (quota, SECONDS)) if seconds is not None]
        self._limit = min(self._text_limits, default=None)
        """The one that ends first."""
        self.ended: float | None = None
        """When its client was told the end, in seconds since the epoch."""
        self.error: BaseException | None = None
        self.result: ResultSet | None = None
        self.several = False
        """Whether the text has several statements, so that its error tells how far it came."""
        self._completed: list[str] = []
        """Those that took effect."""
        self.begun = False
        """Whether a worker ever took it up."""
        self.wants_spark = False
        """Whether it is in Spark or waits for it."""
        self.on_spark = False
        """Whether its worker has gone to Spark."""
        self.worker_ended = False
        """Whether nothing works on it any more; after a cancel that may come later than the end its client sees."""
        self._state = OperationState.INITIALIZED
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._pages: Pages | None = None
        self._stop: _Stop | None = None
        self._on_end: list[Callable[[], None]] = []

    @property
    def principal(self) -> str:
        """Whose it is, whatever their rights."""
        return self.owner.principal

    @cached_property
    def masked(self) -> str:
        """The text without the values of options that look like secrets, for whoever keeps a record."""
        return masked_text(self.text)

    @property
    def state(self) -> OperationState:
        """Where it is now."""
        return self._state

    @property
    def shown_state(self) -> OperationState:
        """Where it is for whoever looks: a streaming query runs until its result is closed."""
        result = self.result
        return OperationState.RUNNING if self.being_read and result is not None and result.unbounded else self._state

    def move(self, to: OperationState) -> None:
        """Enter a state; raises `IllegalMove` where the present one does not lead there."""
        with self._lock:
            if to not in NEXT[self._state]:
                raise IllegalMove(f"The operation is {self._state} and cannot become {to}.")
            self._state = to

    def _try(self, to: OperationState) -> bool:
        try:
            self.move(to)
        except IllegalMove:
            return False
        return True

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once it has ended, whichever way; at once where it has."""
        with self._lock:
            if not self._state.terminal:
                self._on_end.append(callback)
                return
        callback()

    @property
    def ended_at(self) -> float | None:
        """When its client was told the end, by the monotonic clock; None before."""
        return None if self.ended is None else self._begun + self._took

    def _ended(self) -> None:
        """Tell the lists, then whoever waits: who has heard of the end finds it in every list."""
        self._took = time.monotonic() - self._begun
        self.ended = time.time()
        with self._lock:
            callbacks, self._on_end = self._on_end, []
        try:
            for callback in callbacks:
                callback()
        finally:
            self._let_go()
            self._done.set()

    def _let_go(self) -> None:
        """Keep no more of a long text than is shown of it, nor its values, nor what a failure's trace holds of them.

        Sessions keep hundreds that ended, and clients close none that failed.
        """
        if len(self.text) > ENDED_CHARS:
            self.text = self.masked = self.masked[:ENDED_CHARS]
        self.values = bytes
        error, seen = self.error, set[int]()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__

    def begin(self) -> bool:
        """A worker takes it up; False where it was stopped before."""
        self.begun = self._try(OperationState.RUNNING)
        return self.begun

    def succeed(self, result: ResultSet) -> None:
        """Hand over the result; where the operation was stopped meanwhile nobody wants it, so it is freed."""
        with self._lock:
            wanted = OperationState.FINISHED in NEXT[self._state]
            if wanted:
                self.result = result
                self._state = OperationState.FINISHED
        if wanted:
            self._ended()
        else:
            result.close()

    def statement_ended(self, text: str) -> None:
        """One of several statements took effect, and another one follows."""
        self._completed.append(text)
        self.cancellation.next_statement()  # after it is noted: who stops the text meanwhile must not take it for undone

    def placed(self, error: BaseException) -> BaseException:
        """The error it ends with, which says which of several statements failed and what took effect before it."""
        if self.several:
            known = getattr(error, "statement_index", None)
            at = len(self._completed) if known is None else known
            vars(error).update(statement_index=at, completed=tuple(self._completed))  # a bug's, too: its client sees no more of it
        return error

    def fail(self, error: BaseException) -> None:
        """End with an error; a stopped operation keeps the reason it was stopped for."""
        with self._lock:
            if OperationState.ERROR not in NEXT[self._state]:
                return
            self.error = self.placed(error)
            self._state = OperationState.ERROR
            if (stop := self._stop) is not None and error is stop.reason:
                self._state = stop.to
                if self.cancellation.may_have_decided:
                    stop.reason.tell(" What it had done before that stands.")
        self._ended()

    def stop(self, to: OperationState, reason: LakeError) -> bool:
        """End it from outside: waiters are free at once, the worker hears of it; False where it has ended already.

        It decides nothing from then on. Where it may have decided something its worker ends it, as it did become, or `expire` once
        `STOP_SECONDS` are over. Where its rows are still being made by whoever reads them, those end, and it is closed.
        """
        with self._lock:
            if self._state.terminal and not self.being_read:
                return False
            if self._stop is not None:
                return True
            reading = self.result
            self.cancellation.tell(reason)
            if reading is not None:
                self._state = OperationState.CLOSED
            elif self.cancellation.may_have_decided:
                self._stop = _Stop(to, reason, time.monotonic() + STOP_SECONDS)
            else:
                self.error = self.placed(reason)
                self._state = to
            ended = self._state.terminal
        if reading is not None:
            reading.close(reason)
        elif ended:
            self._ended()
        self.cancellation.call_back()
        return True

    def _end_unknown(self) -> bool:
        """End it, once its stop is over, though nobody knows what became of what it decided; False where it has ended, or has time left."""
        with self._lock:
            stop = self._stop
            # Two may have found its limit over, and the other one has stopped it since.
            if stop is None or self._state.terminal or time.monotonic() < stop.until:
                return False
            unknown = OutcomeUnknown(
                f"{stop.reason.whole} It had begun to commit by then: it may have taken effect, or may yet. Look at what it changes "
                "before you repeat it, or repeat it under the same Idempotency-Key."
            )
            self.error = self.placed(unknown)
            self._state = OperationState.ERROR  # CANCELED and TIMEOUT say that nothing was committed
        self._ended()
        return True

    @property
    def being_read(self) -> bool:
        """Whether it has ended for its client, who makes its rows by reading them, or reads them as they come."""
        result = self.result
        if self._state is not OperationState.FINISHED or result is None:
            return False
        return (result.made_while_read or result.unbounded) and not result.closed

    def cancel(self) -> bool:
        """Stop it because its client asks, who may `wait` for its end; False where it has ended already."""
        return self.stop(OperationState.CANCELED, StatementCanceled("The statement was canceled."))

    @property
    def timeout(self) -> float | None:
        """Seconds it may take, by the limit that ends first; None without any."""
        return None if self._limit is None else self._limit.seconds

    def limit_statement(self, seconds: float | None) -> None:
        """The statement that begins now may take so long; limits of the whole text hold besides."""
        own = [] if seconds is None else [_Limit(time.monotonic(), seconds)]
        self._limit = min([*self._text_limits, *own], default=None)

    def expire(self) -> bool:
        """Stop it because its time is over, or that of its stop; False where it has ended already, or its stop has time left."""
        if self._stop is not None:
            return self._end_unknown()
        limit = self._limit
        assert limit is not None
        quota = f", the quota {limit.quota} of {self.principal}" if limit.quota else ""
        reason = StatementTimeout(f"The statement ran longer than its limit of {limit.seconds:g} s{quota}.")
        return self.stop(OperationState.TIMEOUT, reason)

    def overdue(self) -> bool:
        """Whether it runs past its limit, or that of its stop, or its rows are made past it.

        Time in which its client asks for no rows does not count; a streaming query that has begun has no limit.
        """
        limit, result = self._limit, self.result
        if self._stop is not None and not self._state.terminal:
            return time.monotonic() >= self._stop.until
        if limit is None:
            return False
        if self.being_read and result is not None:
            if result.unbounded:
                return False
            return self._took + result.making_seconds >= limit.seconds + limit.begun - self._begun
        return not self._state.terminal and limit.left() <= 0

    def close(self) -> None:
        """Forget it and free its result; twice is fine."""
        if not self._state.terminal:
            self.stop(OperationState.CANCELED, StatementCanceled("The statement was closed while it ran."))
        self.on_end(self._forgotten)

    def _forgotten(self) -> None:
        self._try(OperationState.CLOSED)
        if self.result is not None:
            self.result.close()

    def wait_to_end(self) -> None:
        """Wait for a terminal state, which its limit brings about where nothing else does."""
        while not self.wait(self._left()):
            if self.overdue():  # a later statement of the text may have another limit
                self.expire()

    def _left(self) -> float | None:
        """Seconds until it ends by itself at the latest; None where nothing says when."""
        if (stop := self._stop) is not None:
            return max(0.0, stop.until - time.monotonic())
        return None if (limit := self._limit) is None else max(0.0, limit.left())

    def wait(self, seconds: float | None) -> bool:
        """Wait for a terminal state; False where it did not come in time."""
        return self._done.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))

    def outcome(self) -> ResultSet:
        """The result of an operation that has ended; raises what it ended with."""
        if self.error is not None:
            # Asked again and again, a deliberate failure would gather the trace of every asking.
            raise self.error.with_traceback(None) if isinstance(self.error, LakeError) else self.error
        if self.result is None:
            raise StatementCanceled("The statement was closed while it ran.")
        return self.result

    def pages(self) -> Pages:
        """The result as pages by token; raises what the operation ended with."""
        with self._lock:
            if self._pages is not None:
                return self._pages
        result = self.outcome()
        with self._lock:
            if self._pages is None:
                self._pages = Pages(result, owner=self.principal)
            return self._pages


@dataclass(frozen=True, slots=True)
class RunningStatement:
    """A statement as whoever started it sees it while it runs."""

    statement_id: str
    cancel: Callable[[], bool]


OnStart: TypeAlias = Callable[[RunningStatement], None]
"""Is told of a statement before it runs, so that another thread can cancel it."""
