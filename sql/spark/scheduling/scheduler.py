"""Spark's own scheduler: who holds its cores, who waits for one, and who is next.

Spark gives a core that comes free to the share with fewest tasks, and among equals to the one whose *name* comes first. With more shares
(or statements of one share) than cores, those with late names would wait until the others end. So whoever waits without a task is marked
as in need, and whoever has one is not: a share's and a stage's least number of tasks (``minShare``), which Spark reads at each choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sql.execution.progress import StageTasks


def stages_at_work(context: Any) -> list[StageTasks]:
    """All stages with tasks that run or wait for a core."""
    return [
        StageTasks(stage=(context.applicationId, tasks.stageId()), share=pool.name(), running=tasks.runningTasks())
        for pool in _pools(context)
        for tasks in _unfinished(pool)
    ]


def put_waiting_first(context: Any) -> None:
    """Whoever has no task gets the next core that comes free."""
    for pool in _pools(context):
        stages = list(_unfinished(pool))
        for tasks in stages:
            _set_least(tasks, 0 if tasks.runningTasks() else 1)
        if stages:
            _set_least(pool, 0 if pool.runningTasks() else 1)


def end_task(context: Any, task: int, reason: str) -> None:
    """Tell a task to end; it is run again later, and does not count as failed."""
    context._jsc.sc().killTaskAttempt(task, True, reason)


def _pools(context: Any) -> Iterator[Any]:
    """The shares, or without them the one pool of all."""
    root = context._jsc.sc().taskScheduler().rootPool()
    children = list(root.schedulableQueue().toArray())
    yield from [child for child in children if child.schedulableQueue() is not None] or [root]


def _unfinished(pool: Any) -> Iterator[Any]:
    for tasks in pool.schedulableQueue().toArray():
        if tasks.schedulableQueue() is None and not tasks.isZombie() and tasks.tasksSuccessful() < tasks.numTasks():
            yield tasks


def _set_least(schedulable: Any, least: int) -> None:
    if schedulable.minShare() != least:
        field = schedulable.getClass().getDeclaredField("minShare")  # there is no setter
        field.setAccessible(True)
        field.setInt(schedulable, least)
