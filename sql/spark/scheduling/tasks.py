"""What really runs in Spark's executors: Spark counts a task as ended once it was told to stop, whether it stops or not."""

from __future__ import annotations

import re
from typing import Any

from sql.execution.progress import SparkStage

Stage = tuple[str, int]
"""A stage by the application it belongs to and its number there: a Spark that was started anew counts from 0 again."""
_TASK = re.compile(r"Executor task launch worker for task [\d.]+ in stage (?P<stage>\d+)\.\d+ \(TID (?P<number>\d+)\)")
"""Spark names an executor's thread so while it runs a task, and renames it when the task has let go of it."""


def stages_of(context: Any, statement_id: str) -> set[Stage]:
    """The stages of a statement's jobs, as long as Spark remembers the jobs."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(statement_id))
    return {(context.applicationId, stage) for job in jobs if job is not None for stage in job.stageIds}


def progress_of(context: Any, statement_id: str) -> list[SparkStage]:
    """How far the stages of a statement's jobs are."""
    tracker = context.statusTracker()
    stages: dict[int, bool] = {}
    for job_id in tracker.getJobIdsForGroup(statement_id):
        job = tracker.getJobInfo(job_id)
        if job is not None:
            stages |= {stage: stages.get(stage, False) or job.status == "SUCCEEDED" for stage in job.stageIds}
    known = ((tracker.getStageInfo(stage_id), ended) for stage_id, ended in sorted(stages.items()))
    return [_progress(stage, ended) for stage, ended in known if stage is not None]


def begun(context: Any, statement_id: str) -> bool:
    """Whether a task of a statement was ever given a core, as far as Spark remembers its jobs."""
    tracker = context.statusTracker()
    stages = (tracker.getStageInfo(stage) for _, stage in stages_of(context, statement_id))
    return any(one is None or one.numActiveTasks or one.numCompletedTasks or one.numFailedTasks for one in stages)


def _progress(stage: Any, ended: bool) -> SparkStage:
    done = stage.numTasks if ended else stage.numCompletedTasks  # a stage whose output was there already runs no task
    active, failed = (0 if ended else stage.numActiveTasks), stage.numFailedTasks
    name = stage.name.partition(" at ")[0]  # "toArrow at /…/results.py:12": the rest is a path of this server
    return SparkStage(id=stage.stageId, name=name, done=done, active=active, failed=failed, total=stage.numTasks)


def live_tasks(context: Any, gateway: Any) -> list[tuple[Stage, int]]:
    """The stage and the number of each task that runs now on the driver's machine; executors elsewhere end theirs themselves."""
    bean = gateway.jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    threads = (thread for thread in bean.getThreadInfo(bean.getAllThreadIds()) if thread is not None)
    matches = (_TASK.match(thread.getThreadName()) for thread in threads)
    return [((context.applicationId, int(task["stage"])), int(task["number"])) for task in matches if task]


def runs_tasks(context: Any) -> bool:
    """Whether Spark has tasks running by its own account, on whatever machine."""
    tracker = context.statusTracker()
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return any(stage is not None and stage.numActiveTasks for stage in stages)


def executors(context: Any) -> int:
    """How many executors Spark has besides the driver."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
