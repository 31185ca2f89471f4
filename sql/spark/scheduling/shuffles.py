"""What statements leave of their shuffles.

Spark removes the files of an exchange with its query (`spark.sql.classic.shuffleDependency.fileCleanup.enabled`), but not those of
the shuffle inside a `TakeOrderedAndProject` or a `CollectLimit`: they lie on the disk until the heap is collected, and longer where
Python holds the frame.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Any

from sql.spark.scheduling.tasks import stages_of

_LAG_MILLIS = 1_000
"""How long the account that Spark keeps of its tasks may take to follow."""
_LATE = 100


class Leftovers:
    """Removes the shuffles of statements that have ended, in one Spark after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        """How many blocks of each statement are at work."""
        self._late: deque[str] = deque(maxlen=_LATE)
        """Ended statements of which Spark's account did not tell all yet, or which another thread did not wait for."""

    def begun(self, statement_id: str) -> None:
        """A block of a statement is at work, perhaps beside others of it; `ended` is called when it is no more."""
        with self._lock:
            self._running[statement_id] += 1

    def ended(self, context: Any, statement_id: str) -> None:
        """Where it was the last of its statement, remove what that left; raises anything where the JVM is gone."""
        with self._lock:
            self._running[statement_id] -= 1
            if self._running[statement_id]:
                return
            del self._running[statement_id]
        self._remove(context, statement_id)

    def _remove(self, context: Any, statement_id: str) -> None:
        """Remove the shuffles of a statement that has ended, wherever their files lie.

        A shuffle is known by a task that wrote a part of it (`MapStatus.mapId`), which is one of the statement's stages'. One of which that
        is not known goes when the heap is collected.
        """
        scala = context._jsc.sc()
        statuses = scala.taskScheduler().mapOutputTracker().shuffleStatuses()
        if statuses.isEmpty():
            self._late.clear()
            return
        ended = [statement_id]
        while self._late:
            ended.append(self._late.popleft())
        if not _told(scala):
            self._late.extend(ended)
            return
        written = dict(_tasks(scala, {stage for one in ended for _, stage in stages_of(context, one)}))
        left = [shuffle for shuffle, status in _entries(statuses) if _wrote(status, written)]
        for shuffle in left:
            scala.cleaner().get().doCleanupShuffle(shuffle, False)


def _told(scala: Any) -> bool:
    """Whether the account that Spark keeps of its tasks has followed them."""
    from py4j.protocol import Py4JJavaError

    try:
        scala.listenerBus().waitUntilEmpty(_LAG_MILLIS)
    except Py4JJavaError:  # a TimeoutException: it is busy
        return False
    return True


def _tasks(scala: Any, stages: set[int]) -> list[tuple[int, int]]:
    """A task of each stage that is known: its number, and the partition that it wrote."""
    from py4j.protocol import Py4JJavaError

    store, tasks = scala.statusStore(), []
    for stage in stages:
        try:
            listed = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), 1)
        except Py4JJavaError:  # a NoSuchElementException: the stage was skipped, or is forgotten
            continue
        if not listed.isEmpty():
            tasks.append((int(listed.head().taskId()), int(listed.head().index())))
    return tasks


def _wrote(status: Any, written: dict[int, int]) -> bool:
    """Whether one of the tasks, by their numbers with their partitions, wrote a part of a shuffle."""
    parts = status.mapStatuses()
    many = len(parts)
    return any(partition < many and (part := parts[partition]) is not None and part.mapId() == task for task, partition in written.items())


def _entries(statuses: Any) -> list[tuple[int, Any]]:
    """The shuffles that there are, by number; one that goes meanwhile is none."""
    numbers = statuses.keys().toSeq()
    found = ((number, statuses.get(number)) for number in (numbers.apply(position) for position in range(numbers.size())))
    return [(number, status.get()) for number, status in found if status.isDefined()]
