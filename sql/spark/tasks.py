"""What really runs in Spark's executors: Spark counts a task as ended once it was told to stop, whether it stops or not."""

from __future__ import annotations

import re
from typing import Any

Stage = tuple[str, int]
"""A stage by the application it belongs to and its number there: a Spark that was started anew counts from 0 again."""
_TASK = re.compile(r"Executor task launch worker for task [\d.]+ in stage (\d+)\.\d+ ")
"""Spark names an executor's thread so while it runs a task, and renames it when the task has let go of it."""


def stages_of(context: Any, statement_id: str) -> set[Stage]:
    """The stages of a statement's jobs, as long as Spark remembers the jobs."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(statement_id))
    return {(context.applicationId, stage) for job in jobs if job is not None for stage in job.stageIds}


def live_tasks(context: Any, gateway: Any) -> list[Stage]:
    """The stage of each task that runs now on the driver's machine; executors elsewhere end theirs themselves."""
    bean = gateway.jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    threads = (thread for thread in bean.getThreadInfo(bean.getAllThreadIds()) if thread is not None)
    found = (_TASK.match(thread.getThreadName()) for thread in threads)
    return [(context.applicationId, int(task[1])) for task in found if task]
