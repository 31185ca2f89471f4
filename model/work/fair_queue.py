"""Works that wait for threads or processes, taken in fair turns among principals."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Owned(Protocol):
    """A work, as the queue looks at it."""

    @property
    def owner(self) -> str | None:
        """Whose it is; None for works of the server's own, which wait without limits of a principal."""
        ...


W = TypeVar("W", bound=Owned)


class FairQueue(Generic[W]):
    """Works for ``threads``, or processes, that do one each at a time.

    The next one is of whoever runs least, and among these of whoever was served longest ago. Its caller holds a lock.
    """

    def __init__(
        self,
        *,
        threads: int,
        running_limit: Callable[[str], int | None] = lambda _: None,
        places: int | None = None,
        lent_limit: int | None = None,
    ) -> None:
        self._threads = threads
        self._places = places
        """So many works run at once, and beyond them those of owners of whom none runs; None where nothing is kept for these."""
        self._running_limit = running_limit
        """How many of a principal may run at once; None is no limit."""
        self._lent_limit = lent_limit
        """How many works of a principal that hold lent threads count there; None is all."""
        self._lent: Counter[str | None] = Counter()
        self._withheld: list[W] = []
        """Works on lent threads whose places their own principals do not get."""
        self._waiting: OrderedDict[str | None, deque[W]] = OrderedDict()
        """By owner; whoever was served last stands last."""
        self._running: Counter[str | None] = Counter()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, work: W) -> bool:
        return work in self._waiting.get(work.owner, ())

    def waiting_of(self, owner: str | None) -> int:
        """How many works of an owner wait."""
        return len(self._waiting.get(owner, ()))

    def runs_at_once(self, owner: str | None) -> bool:
        """Whether a thread is free for another work of an owner, which those that wait leave to it."""
        own = self._counted(owner) + len(self._waiting.get(owner, ()))
        most = self._most_running(owner)
        if most is not None and own >= most:
            return False
        taken = self._running.total()
        for waiting, works in self._waiting.items():
            fits = self._most_running(waiting)
            taken += len(works) if fits is None else min(len(works), max(0, fits - self._counted(waiting)))
        return taken < (self._threads if self._places is None or not own else self._places) - self._withheld_from(owner)

    def _most_running(self, owner: str | None) -> int | None:
        return None if owner is None else self._running_limit(owner)

    def _counted(self, owner: str | None) -> int:
        """How many works of an owner count where its limit is asked for."""
        lent = self._lent[owner]
        return self._running[owner] - (0 if self._lent_limit is None else max(0, lent - self._lent_limit))

    def _withheld_from(self, owner: str | None) -> int:
        return sum(work.owner == owner for work in self._withheld)

    def _waited_for(self, owner: str | None) -> int:
        """How many works of an owner run on threads of the queue's own."""
        return self._running[owner] - self._lent[owner]

    def push(self, work: W, *, first: bool = False) -> None:
        """Let a work wait, where it is to be ``first`` before its owner's others; whether there is a place was asked before."""
        own = self._waiting.setdefault(work.owner, deque())
        if first:
            own.appendleft(work)
        else:
            own.append(work)
        self._length += 1

    def pop(self) -> W | None:
        """The next work, which counts as running until `done`; None where none waits that may run."""
        if self._running.total() >= self._threads:
            return None
        best: str | None = None
        any_fits = False
        for owner in self._waiting:
            limit = self._most_running(owner)
            if limit is not None and self._counted(owner) >= limit:
                continue
            withheld = self._withheld_from(owner)
            if withheld and self._running.total() >= (self._threads if self._places is None else self._places) - withheld:
                continue
            # Works on lent threads may never end: who has them must not come behind all others for so long.
            if not any_fits or self._waited_for(owner) < self._waited_for(best):
                best, any_fits = owner, True
        if not any_fits or (self._places is not None and self._counted(best) and self._running.total() >= self._places):
            return None
        works = self._waiting[best]
        work = works.popleft()
        self._length -= 1
        if works:
            self._waiting.move_to_end(best)
        else:
            del self._waiting[best]
        self._running[best] += 1
        return work

    def remove(self, work: W) -> None:
        """Take a work out that nobody waits for."""
        works = self._waiting[work.owner]
        works.remove(work)
        self._length -= 1
        if not works:
            del self._waiting[work.owner]

    def done(self, work: W) -> None:
        """A work that was popped runs here no more."""
        self._running[work.owner] -= 1
        if self._running[work.owner] <= 0:
            del self._running[work.owner]

    def lend(self, work: W, *, to_others: bool = False) -> None:
        """A work holds its thread though nobody waits for it: another thread was started, and the work counts on until `done`.

        ``to_others``: its principal gets no place more by that.
        """
        self._lent[work.owner] += 1
        if to_others:
            self._withheld.append(work)
        self._threads += 1
        if self._places is not None:
            self._places += 1

    def take_back(self, work: W) -> None:
        """Such a work's thread is gone; it is to be `done` as well."""
        self._lent[work.owner] -= 1
        if not self._lent[work.owner]:
            del self._lent[work.owner]
        if work in self._withheld:
            self._withheld.remove(work)
        self._threads -= 1
        if self._places is not None:
            self._places -= 1

    def running(self) -> dict[str | None, int]:
        """How many works of each owner run."""
        return dict(self._running)

    def waiting(self) -> dict[str | None, int]:
        """How many works of each owner wait."""
        return {owner: len(works) for owner, works in self._waiting.items()}
