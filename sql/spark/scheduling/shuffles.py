"""What statements leave of their shuffles.

Spark removes the files of an exchange with its query (`spark.sql.classic.shuffleDependency.fileCleanup.enabled`), but not those of
the shuffle inside a `TakeOrderedAndProject` or a `CollectLimit`: they lie on the disk until the heap is collected, and longer where
Python holds the frame.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter, deque
from typing import Any

from sql.spark.scheduling.tasks import stages_of

_log = logging.getLogger(__name__)
_LAG_MILLIS = 1_000
"""How long the account that Spark keeps of its tasks may take to follow."""
_LATE = 1_000
"""Of so many ended statements it is remembered that their shuffles go."""


class Leftovers:
    """Removes the shuffles of statements that have ended, in one Spark after the other, on a thread of its own: no answer waits for it."""

    def __init__(self) -> None:
        self._woken = threading.Condition()
        self._running: Counter[str] = Counter()
        """How many blocks of each statement are at work."""
        self._ended: deque[str] = deque(maxlen=_LATE)
        """Statements whose shuffles are to go, those among them of which Spark's account did not tell all yet."""
        self._context: Any = None
        """Of the Spark in which the last of them ended."""
        self._thread: threading.Thread | None = None
        self._closed = False

    def begun(self, statement_id: str) -> None:
        """A block of a statement is at work, perhaps beside others of it; `ended` is called when it is no more."""
        with self._woken:
            self._running[statement_id] += 1

    def ended(self, context: Any, statement_id: str) -> None:
        """Where it was the last of its statement, what that left is removed soon."""
        with self._woken:
            self._running[statement_id] -= 1
            if self._running[statement_id]:
                return
            del self._running[statement_id]
            self._ended.append(statement_id)
            self._context = context
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._serve, name="sluice-shuffles", daemon=True)
                with contextlib.suppress(RuntimeError):  # where the machine has none to give, the next that ends tries again
                    thread.start()
                    self._thread = thread
            self._woken.notify()

    def close(self) -> None:
        """Remove no more; returns at once, for a call into a JVM that stands still does not come back."""
        with self._woken:
            self._closed = True
            self._woken.notify()

    def _serve(self) -> None:
        while True:
            with self._woken:
                self._woken.wait_for(lambda: self._closed or self._ended)
                if self._closed:
                    return
                ended = list(self._ended)
                self._ended.clear()
                context = self._context
            try:
                if not self._remove(context, ended):
                    with self._woken:  # with the next that ends
                        self._ended.extend(ended)
                        self._woken.wait(_LAG_MILLIS / 1000)
            except Exception:  # the JVM is gone, and with it what it had
                _log.debug("Shuffles of ended statements could not be removed", exc_info=True)

    def _remove(self, context: Any, ended: list[str]) -> bool:
        """Remove the shuffles of statements that have ended, wherever their files lie; False where Spark's account does not tell all yet.

        A shuffle is known by a task that wrote a part of it (`MapStatus.mapId`), which is one of the statement's stages'. One of which that
        is not known goes when the heap is collected. Spark itself ends where one goes that is still written.
        """
        scala = context._jsc.sc()
        statuses = scala.taskScheduler().mapOutputTracker().shuffleStatuses()
        if statuses.isEmpty():
            return True
        if not _told(scala):
            return False
        stages = {statement: {stage for _, stage in stages_of(context, statement)} for statement in ended}
        with self._woken:  # by now: one that goes on with another block may have stages of that among these, and ends once more
            over = [statement for statement in ended if statement not in self._running]
        written = _tasks(scala, {stage for statement in over for stage in stages[statement]})
        if written:
            for shuffle in [shuffle for shuffle, status in _entries(statuses) if _wrote(status, written)]:
                scala.cleaner().get().doCleanupShuffle(shuffle, False)
        return True


def _told(scala: Any) -> bool:
    """Whether the account that Spark keeps of its tasks has followed them."""
    from py4j.protocol import Py4JJavaError

    try:
        scala.listenerBus().waitUntilEmpty(_LAG_MILLIS)
    except Py4JJavaError:  # a TimeoutException: it is busy
        return False
    return True


def _tasks(scala: Any, stages: set[int]) -> dict[int, int]:
    """A task of each stage that is known, by its number: the partition that it wrote."""
    from py4j.protocol import Py4JJavaError

    store = scala.statusStore()
    tasks: dict[int, int] = {}
    for stage in stages:
        try:
            listed = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), 1)
        except Py4JJavaError:  # a NoSuchElementException: the stage was skipped, or is forgotten
            continue
        if not listed.isEmpty():
            tasks[int(listed.head().taskId())] = int(listed.head().index())
    return tasks


def _wrote(status: Any, written: dict[int, int]) -> bool:
    """Whether one of the tasks, by their numbers with their partitions, wrote a part of a shuffle."""
    parts = status.mapStatuses()
    many = len(parts)
    return any(partition < many and (part := parts[partition]) is not None and part.mapId() == task for task, partition in written.items())


def _entries(statuses: Any) -> list[tuple[int, Any]]:
    """The shuffles that there are, by number; one that goes meanwhile is none."""
    numbers = statuses.keys().toSeq()
    entries = ((number, statuses.get(number)) for number in (numbers.apply(position) for position in range(numbers.size())))
    return [(number, status.get()) for number, status in entries if status.isDefined()]
