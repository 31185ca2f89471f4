"""How far a statement is: what it does now, and how much of that is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

_PATIENCE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStage:
    """A stage of Spark's that works for a statement."""

    id: int
    name: str
    """What Spark does in it, without the place in the server's code from which it was told to."""
    done: int
    """Tasks that have ended."""
    active: int
    failed: int
    total: int

    def to_json(self) -> dict[str, Any]:
        """The stage as clients get it."""
        return {"id": self.id, "name": self.name, "done": self.done, "active": self.active, "failed": self.failed, "total": self.total}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTasks:
    """The tasks of a stage that has some left, of whatever statement, stream or job."""

    stage: tuple[str, int]
    """The application and the number of the stage there."""
    share: str
    """Spark's scheduler pool of whoever started it."""
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRecord:
    """How far a statement was when it was asked."""

    stage: str = ""
    """What it does now, in a few words; empty before it says so."""
    done: int = 0
    total: int | None = None
    """Files, or tasks of Spark where ``stage`` says so; None where nobody knows yet."""
    done_bytes: int = 0
    total_bytes: int | None = None
    stages: tuple[SparkStage, ...] = ()
    """Spark's stages of it, in the order they were planned."""
    counted: bool = True
    """Whether counts and stages are told: not where a part of a table is kept from whose statement it is; see `Progress.count_nothing`."""

    def to_json(self) -> dict[str, Any]:
        """The record as clients get it."""
        return {
            "stage": self.stage,
            "done": self.done,
            "total": self.total,
            "bytesDone": self.done_bytes,
            "bytesTotal": self.total_bytes,
            "stages": [stage.to_json() for stage in self.stages],
        }


class Progress:
    """Told by whoever works on a statement, from any of its threads; asked by anybody."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._record = ProgressRecord()

    def begin(self, stage: str, *, total: int | None = None, total_bytes: int | None = None) -> None:
        """Say what comes now, and how much of it there is."""
        with self._lock:
            self._record = ProgressRecord(stage=stage, total=total, total_bytes=total_bytes, counted=self._record.counted)

    def advance(self, count: int = 1, size: int = 0) -> None:
        """Say that so many more are done."""
        with self._lock:
            now = self._record
            self._record = replace(now, done=now.done + count, done_bytes=now.done_bytes + size)

    def count_nothing(self) -> None:
        """Keep all counts back from now on: a part of a table is kept from whose statement it is.

        How many files there are, and how many a condition leaves, tells of what they hold.
        """
        with self._lock:
            self._record = replace(self._record, counted=False)

    def record(self) -> ProgressRecord:
        """How far it is, as far as that is told."""
        known = self._record
        return known if known.counted else ProgressRecord(stage=known.stage, counted=False)


class SparkWatch:
    """Asks Spark how far statements are, on one thread of its own: each thread that calls into the JVM costs it one."""

    def __init__(self, ask: Callable[[str], Sequence[SparkStage] | None]) -> None:
        self._ask = ask
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sluice-progress")

    def look(self, statement_id: str, progress: Progress) -> ProgressRecord:
        """What is known of a statement, with Spark's tasks where it counts nothing itself; Spark has a second to answer."""
        try:
            stages = self._thread.submit(self._ask, statement_id).result(_PATIENCE)
        except Exception:  # Spark is away, or busy: the statement itself will say so
            stages = None
        known = progress.record()  # after Spark was asked: stages begin only when it is decided whether they are told
        if not stages or not known.counted:
            return known
        if known.total is not None:
            return replace(known, stages=tuple(stages))
        done, total = sum(stage.done for stage in stages), sum(stage.total for stage in stages)
        return replace(known, stage=known.stage or "Spark tasks", done=done, total=total, stages=tuple(stages))

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
