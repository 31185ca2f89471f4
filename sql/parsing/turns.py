"""Turns at reading long texts.

One interpreter reads all texts, and a long one takes it for up to a second: where many are read at once each other request waits for a
slice of it beside all of them. So one is read at a time for each principal, and two in all, of texts of about one length; no text waits
behind much longer ones, such as a query behind megabytes of VALUES. Whoever waits can be canceled.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from model.errors import TooManyStatements
from model.work.fair_queue import FairQueue
from sql.execution.cancellation import Cancellation

LONG = 2_000
"""Characters, and values of parameters, up to which a text waits for nobody: it has no more words than these, and takes 50 ms at most."""
_LENGTHS = (20_000, 200_000)
"""Texts up to a length wait for each other, and for no longer ones: 0.3 s and 3 s at most, by the time they take."""
_MOST, _OF_ONE = 2, 1
_WAIT_SECONDS = 60.0
"""How long a reader waits whom no statement's time limit ends."""


@dataclass(slots=True)
class Reader:
    """For whom this thread reads texts."""

    principal: str
    cancellation: Cancellation | None = None
    """What tells a statement to wait no longer; without one it waits for a minute."""
    begun: bool = False
    """Whether it has had a turn: a statement whose text is counted, parted and parsed waits behind its principal's others once."""


_READER: ContextVar[Reader | None] = ContextVar("text_reader", default=None)


def read_from_now_on(reader: Reader) -> None:
    """All texts of the present context are read for this reader."""
    _READER.set(reader)


def read_first() -> None:
    """What else the present statement reads goes before what others of its principal have not begun to read."""
    if (reader := _READER.get()) is not None:
        reader.begun = True


@contextlib.contextmanager
def read_for(principal: str) -> Iterator[None]:
    """Read texts for a principal outside of a statement; they wait for their turn for a minute."""
    token = _READER.set(Reader(principal))
    try:
        yield
    finally:
        _READER.reset(token)


class _Turn:
    """Somebody who reads a long text, or waits for it."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.come = False
        self.woken = threading.Event()


class Turns:
    """Lets so many long texts be read at once."""

    def __init__(self, most: int = _MOST, *, of_one: int = _OF_ONE, seconds: float = _WAIT_SECONDS) -> None:
        """``of_one``: so many of one principal. ``seconds``: the longest wait of a reader that has no statement."""
        self._lock = threading.Lock()
        self._queues = [FairQueue[_Turn](threads=most, running_limit=lambda _: of_one) for _ in range(len(_LENGTHS) + 1)]
        self._mine = threading.local()
        self._seconds = seconds

    @contextlib.contextmanager
    def reading(self, size: int) -> Iterator[None]:
        """Wait for a turn to read a text of ``size`` characters and values, and hold it as long as the block lasts.

        A short text has it at once, and so has what is read while a turn is held.
        Raises the reason of a statement that is told to stop meanwhile, and `TooManyStatements` after a minute without a statement.
        """
        if size <= LONG or getattr(self._mine, "held", False):
            yield
            return
        reader = _READER.get()
        turn = _Turn(reader.principal if reader else None)
        queue = self._queues[bisect_left(_LENGTHS, size)]
        with self._lock:
            queue.push(turn, first=reader is not None and reader.begun)
            _let_in(queue)
        try:
            self._wait(turn, reader)
            if reader is not None:
                reader.begun = True
            self._mine.held = True
            yield
        finally:
            self._mine.held = False
            with self._lock:
                if turn.come:
                    queue.done(turn)
                    _let_in(queue)
                else:
                    queue.remove(turn)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Wait for no turn in the block, as in a transaction: for stored texts, which were read in turn when they were given."""
        before = getattr(self._mine, "held", False)
        self._mine.held = True
        try:
            yield
        finally:
            self._mine.held = before

    def waiting(self) -> int:
        """How many long texts wait to be read."""
        with self._lock:
            return sum(map(len, self._queues))

    def _wait(self, turn: _Turn, reader: Reader | None) -> None:
        if turn.come:
            return
        cancellation = reader.cancellation if reader else None
        if cancellation is None:
            if not turn.woken.wait(self._seconds) and not turn.come:
                raise TooManyStatements("Other long texts are read before this one; send it again soon.")
            return
        forget = cancellation.on_cancel(turn.woken.set)
        turn.woken.wait()
        forget()
        cancellation.check()


def _let_in(queue: FairQueue[_Turn]) -> None:
    while (turn := queue.pop()) is not None:
        turn.come = True
        turn.woken.set()


TURNS = Turns()
"""Those of this process, which has one interpreter."""
