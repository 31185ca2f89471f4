"""A query of a job whose sources all end with what is there, taken as one batch: no window waits for a watermark that cannot come."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from model.work.job import NO_CHECKPOINT
from sql.statements.base import ExecutionContext

_NUMBER = 0
"""The one batch's."""


class Once:
    """Answers what a job asks of its `StreamingQuery`; its batch is committed as that one's first."""

    id = NO_CHECKPOINT
    """What was not committed is read anew, to its present end."""
    status: dict[str, Any]
    lastProgress: Any = None  # noqa: N815 - as Spark calls it
    recentProgress: Sequence[Any] = ()  # noqa: N815 - as Spark calls it

    def __init__(self, context: ExecutionContext, name: str, frame: DataFrame, take: Callable[[DataFrame, int], None]) -> None:
        self._context = context
        self._name = name
        self._frame = frame
        self._take = take
        self.status = {"isTriggerActive": True}
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"sluice-{name}", daemon=True)

    def start(self) -> Once:
        """Begin."""
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            with self._context.spark.marked(self._name):
                self._take(self._frame, _NUMBER)
        except BaseException as problem:
            self._failure = problem

    @property
    def isActive(self) -> bool:  # noqa: N802 - as Spark calls it
        """Whether the batch is not over yet."""
        return self._thread.is_alive()

    def exception(self) -> BaseException | None:
        """What the batch failed with."""
        return self._failure

    def stop(self) -> None:
        """End the batch."""
        with contextlib.suppress(Exception):  # a dead JVM runs nothing
            self._frame.sparkSession.sparkContext.cancelJobGroup(self._name)
