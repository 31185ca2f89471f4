"""Whose decisions are made: what was told to stop decides nothing from then on, and knows whether it may have decided before.

A commit may be decided on another's thread (`lake.commit.group`), so each takes along whose it is; all else is of the present context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol


class Decider(Protocol):
    """A statement, or other work that can be told to stop."""

    def check(self) -> None:
        """Raise where it was told to stop."""
        ...

    def begin_decision(self) -> None:
        """Postgres is about to be asked; raises, and nothing may be asked, where it was told to stop."""
        ...

    def end_decision(self) -> None:
        """It is certain that a decision that was begun has changed nothing."""
        ...


class _NeverStopped:
    def check(self) -> None:
        pass

    def begin_decision(self) -> None:
        pass

    def end_decision(self) -> None:
        pass


NEVER_STOPPED: Decider = _NeverStopped()
"""Requests and background work that nobody cancels."""
_PRESENT: ContextVar[Decider] = ContextVar("decider", default=NEVER_STOPPED)


def decide_for(decider: Decider) -> None:
    """All decisions of the present context are this one's from now on."""
    _PRESENT.set(decider)


def present_decider() -> Decider:
    """Whose decisions the present context makes."""
    return _PRESENT.get()


@contextmanager
def deciding_as(decider: Decider) -> Iterator[None]:
    """All decisions of the block are this one's."""
    token = _PRESENT.set(decider)
    try:
        yield
    finally:
        _PRESENT.reset(token)


def to_the_end() -> AbstractContextManager[None]:
    """What the block decides only completes, or takes back, what was decided before: nothing stops it."""
    return deciding_as(NEVER_STOPPED)
