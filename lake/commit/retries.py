"""How often and how long a table lets its commits try again; where it says nothing they do until their turn has come."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lake.tables.handle import LakeTable
from model.errors import Unavailable
from model.options.table import TABLE_OPTIONS

_WAITS = ("commit.min-retry-wait", "commit.max-retry-wait")
_MOST_JITTER = 0.2
"""Of a wait, which is added by chance, as Paimon's writers do (`RetryWaiter`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What a table states of it; Paimon's defaults are for writers that know of no turns, and are not taken for stated."""

    most: int | None = None
    """Attempts after the first."""
    timeout: float | None = None
    first_wait: float | None = None
    longest_wait: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Retries:
        """Of one commit, which begins now."""
        timeout = TABLE_OPTIONS.read(options, "commit.timeout")
        first, longest = (TABLE_OPTIONS.read(options, key).total_seconds() for key in _WAITS)
        return cls(
            most=TABLE_OPTIONS.read(options, "commit.max-retries") if "commit.max-retries" in options else None,
            timeout=None if timeout is None else timeout.total_seconds(),
            first_wait=first if any(key in options for key in _WAITS) else None,
            longest_wait=longest,
        )

    def is_over(self, lost: int) -> bool:
        """Whether a commit that has lost so many races is to try no more."""
        late = self.timeout is not None and time.monotonic() - self.began > self.timeout
        return late or (self.most is not None and lost > self.most)

    def pause(self, lost: int) -> float:
        """For how many seconds a commit rests that has lost so many races; chance comes on top."""
        return 0.0 if self.first_wait is None else min(self.first_wait * 2 ** min(lost - 1, 60), self.longest_wait)


def before_the_next(tables: Sequence[LakeTable], retries: Sequence[Retries], lost: int) -> None:
    """Wait as the tables of a commit ask for; raises `Unavailable` where one of them lets it try no more."""
    for table, limits in zip(tables, retries, strict=True):
        if limits.is_over(lost):
            raise Unavailable(
                f"A commit to {table.identifier} has lost {lost} races against other writers, and the table's 'commit.max-retries' or "
                "'commit.timeout' lets it try no more. Nothing was committed; repeat it, or set larger ones."
            )
    if pause := max(limits.pause(lost) for limits in retries):
        time.sleep(pause * (1 + _MOST_JITTER * random.random()))
