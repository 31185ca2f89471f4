"""Work of several decisions: an error after the first is no refusal."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from model.errors import LakeError, OutcomeUnknown
from model.work.deciding import deciding_as, present_decider

_FAILURE = 500


class Steps:
    """A context around decisions one after the other, of which a repeat makes those that are missing.

    An error says "nothing was changed" only where that is so: after a decision it becomes `OutcomeUnknown`, which says what to do. Each
    decision of the block is counted where it is made, so that none can be left out; the block is their `Decider`.
    """

    def __init__(self, what: str) -> None:
        """``what`` is asked for again, as the caller writes it."""
        self._what = what
        self._outer = present_decider()
        self._lock = threading.Lock()
        self._begun = 0
        self._block = ExitStack()

    def made(self) -> None:
        """Something was changed that no decision tells of: a file went."""
        self._count(1)

    def check(self) -> None:
        """Raise where whoever decides was told to stop."""
        self._outer.check()

    def begin_decision(self) -> None:
        """Postgres is about to be asked, maybe on another's thread; raises where whoever decides was told to stop."""
        self._outer.begin_decision()
        self._count(1)

    def end_decision(self) -> None:
        """It is certain that a decision that was begun has changed nothing."""
        self._count(-1)
        self._outer.end_decision()

    def _count(self, more: int) -> None:
        with self._lock:
            self._begun += more

    def __enter__(self) -> Steps:
        self._block.enter_context(deciding_as(self))
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        self._block.close()
        if not self._begun or not isinstance(problem, LakeError) or isinstance(problem, OutcomeUnknown) or problem.status < _FAILURE:
            return
        part = OutcomeUnknown(f"{problem.whole} {self._what} had changed something before. Call it again: it goes on where it ended.")
        part.ended = True
        raise part from problem
