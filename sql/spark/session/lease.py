"""A statement's hand on the pool of Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LeasedPool(Protocol):
    """What a lease asks of the pool it came from."""

    @property
    def ready(self) -> bool: ...

    def root(self, check: Callable[[], None] = ...) -> SparkSession: ...

    def is_root(self, root: SparkSession | None) -> bool: ...

    def session(self) -> SparkSession: ...

    def spared(self, statement_id: str) -> bool: ...

    def running(self, statement_id: str, *, principal: str = "") -> AbstractContextManager[None]: ...

    def lost(self) -> None: ...


class SparkLease:
    """A statement's hand on the pool.

    What is changed of a Spark session for a while is seen by all that runs in it. A statement that was canceled may still be at work when
    the next one of its gateway session begins, and queries of one job run side by side: so each has a Spark session of its own.
    """

    def __init__(self, pool: LeasedPool, principal: str) -> None:
        self._pool = pool
        self._principal = principal
        self._required: SparkSession | None = None
        self._began = False
        """Whether anything was started on Spark under this lease."""

    def require(self, check: Callable[[], None] = lambda: None) -> None:
        """Wait until Spark runs; raises `Unavailable` where it does not, and what ``check`` raises meanwhile."""
        self._required, self._began = self._pool.root(check), False

    def spared(self, statement_id: str) -> bool:
        """Whether the Spark that was required is gone, and no task of the statement had begun there."""
        return not self._pool.is_root(self._required) and (not self._began or self._pool.spared(statement_id))

    @contextlib.contextmanager
    def running(self, statement_id: str) -> Iterator[SparkSession]:
        """A new Spark session, with everything this thread starts on it cancellable under the statement's id."""
        with self._pool.running(statement_id, principal=self._principal):
            session = self._pool.session()
            self._began = True
            yield session

    @contextlib.contextmanager
    def marked(self, statement_id: str) -> Iterator[None]:
        """The same for what has a Spark session of such a block already, which nobody else uses."""
        with self._pool.running(statement_id, principal=self._principal):
            self._began = True
            yield

    def made(self, session: SparkSession) -> bool:
        """Whether a Spark session is one of the Spark that runs now."""
        return self._pool.ready and session.sparkContext is self._pool.root().sparkContext

    def lost(self) -> None:
        """Spark failed a statement in a way that a dead JVM does; start it anew where it is one."""
        self._pool.lost()
