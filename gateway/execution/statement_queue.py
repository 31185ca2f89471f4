"""The statements that wait for a thread of a lane: how many may, and how many of one principal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from model.errors import QuotaExceeded, TooManyStatements
from model.work.fair_queue import FairQueue, Owned
from model.work.fair_share import may_have_another
from model.work.quota import QUEUED

W = TypeVar("W", bound=Owned)


class StatementQueue(FairQueue[W]):
    """At most ``limit`` works wait besides those that a free thread is about to take. Its caller holds a lock."""

    def __init__(
        self,
        limit: int,
        *,
        threads: int,
        running_limit: Callable[[str], int | None] = lambda _: None,
        places: int | None = None,
        lent_limit: int | None = None,
    ) -> None:
        super().__init__(threads=threads, running_limit=running_limit, places=places, lent_limit=lent_limit)
        self.limit = limit

    def check_place(self, owner: str | None, queued_limit: int | None = None) -> None:
        """Raise `TooManyStatements` where no more may wait, or no more of this owner, and another one of it would have to."""
        if self.runs_at_once(owner):
            return
        waiting = self.waiting_of(owner)
        if queued_limit is not None and waiting >= queued_limit:
            raise QuotaExceeded(
                QUEUED,
                f"{waiting} statements of {owner} wait for Spark already, as many as the quota {QUEUED} = {queued_limit} lets. "
                "Try again later.",
            )
        if not self.limit:
            running = sum(self.running().values())
            raise TooManyStatements(f"{running} statements run on Spark, and none may wait (SLUICE_STATEMENT_QUEUE = 0); try again later.")
        if len(self) >= self.limit:
            raise TooManyStatements(f"{self.limit} statements already wait; try again later.")
        if owner is not None and not may_have_another(waiting, len(self), self.limit):
            raise TooManyStatements(
                f"{waiting} statements of {owner} wait already; the rest of the queue's {self.limit} places is kept for others. "
                "Try again later."
            )
