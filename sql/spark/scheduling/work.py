"""What the Spark that runs is asked about its work, and told: stages, tasks, cores. Without one there is none."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from model.spans import Span, tracing
from sql.execution.progress import SparkStage, StageTasks
from sql.spark.scheduling.scheduler import end_task, put_waiting_first, stages_at_work
from sql.spark.scheduling.scheduling_clock import SchedulingClock
from sql.spark.scheduling.tasks import Stage, live_tasks, progress_of, stages_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Work(ABC):
    """The work of whatever Spark runs now."""

    def __init__(self) -> None:
        self._root: SparkSession | None = None
        self._threads: dict[str, Any] = {}
        """The JVM's thread that each statement calls into Spark on."""
        self.seconds = SchedulingClock(self._process_id)
        """A clock for patience with tasks; asked by one thread."""

    @abstractmethod
    def _gateway(self) -> Any:
        """To the JVM."""

    def _process_id(self) -> int | None:
        """Of the JVM; None where it is not known."""
        process = getattr(self._gateway(), "proc", None)
        return None if process is None else int(process.pid)

    def stages_of(self, statement_id: str) -> set[Stage]:
        """The stages of a statement, for `live_tasks`."""
        root = self._root
        return set() if root is None else stages_of(root.sparkContext, statement_id)

    def live_tasks(self) -> list[Stage]:
        """The stage of each task that runs now, whatever Spark was told of it; of executors on this machine's master only."""
        return [stage for stage, _ in self.numbered_tasks()]

    def numbered_tasks(self) -> list[tuple[Stage, int]]:
        """The same with each task's number; the younger the larger."""
        root = self._root
        return [] if root is None else live_tasks(root.sparkContext, self._gateway())

    def stages_at_work(self) -> list[StageTasks]:
        """What has tasks that run or wait for a core."""
        root = self._root
        return [] if root is None else stages_at_work(root.sparkContext)

    def put_waiting_first(self) -> None:
        """Whoever has no task gets the next core that comes free."""
        if (root := self._root) is not None:
            put_waiting_first(root.sparkContext)

    def end_task(self, task: int, reason: str) -> None:
        """Tell a task to end, which Spark then runs again."""
        if (root := self._root) is not None:
            end_task(root.sparkContext, task, reason)

    def calls(self, statement_id: str) -> bool:
        """Whether a statement is in the Spark that runs now: neither ended, nor waiting for it to start."""
        return statement_id in self._threads

    def cores(self) -> int:
        """How many tasks run at once."""
        root = self._root
        return 0 if root is None else root.sparkContext.defaultParallelism

    def progress(self, statement_id: str) -> list[SparkStage] | None:
        """The stages of a statement that Spark knows by now; None for a statement without jobs."""
        root = self._root
        return None if root is None else progress_of(root.sparkContext, statement_id) or None

    def _tell(self, statement_id: str, traced: Span) -> None:
        """Say in a trace what Spark ran."""
        root = self._root
        if root is None or not tracing():
            return
        with contextlib.suppress(Exception):  # the JVM may be gone
            tracker = root.sparkContext.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(statement_id))]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            traced.set("spark.jobs", len(jobs))
            traced.set("spark.stages", ", ".join(f"{one.stageId} {one.name}: {one.numTasks} tasks" for one in stages if one is not None))
            traced.set("spark.failed_tasks", sum(one.numFailedTasks for one in stages if one is not None))
