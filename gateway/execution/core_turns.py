"""Whoever waits long for one of Spark's cores gets one, whatever holds them all.

A core comes free when a task ends, and a task may take minutes, or loop without an end. So where a stage has waited without a task while
tasks hold all cores, the youngest task of whoever holds most of them is told to end: Spark runs it again later, and only its own work so
far is lost. One that does not end is in a loop that never looks; then nothing but a new start of Spark helps, and its statement ends
with an error that no client repeats.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.operation import Operation, OperationState
from model.errors import ExecutionError
from sql.execution.progress import StageTasks

_log = logging.getLogger(__name__)
_Stage = tuple[str, int]
_MOST_DOUBLINGS = 6


class Cores(Protocol):
    """Spark's cores; `sql.spark.session.pool` has the real ones."""

    def cores(self) -> int: ...
    def numbered_tasks(self) -> list[tuple[_Stage, int]]: ...
    def stages_at_work(self) -> Sequence[StageTasks]: ...
    def seconds(self) -> float: ...
    def put_waiting_first(self) -> None: ...
    def end_task(self, task: int, reason: str) -> None: ...
    def prepare(self) -> None: ...
    def restart(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPatience:
    """Seconds of Spark's own clock, which stands while this machine leaves it no processor."""

    first: float = 2.0
    """Who has waited so long for a core comes before all that have one."""
    prepare: float = 5.0
    """Then a new start of Spark is prepared."""
    end: float = 10.0
    """Then a task of whoever holds the cores is told to end."""
    restart: float = 5.0
    """One that has not ended so long after it was told to ends with Spark."""


@dataclass(slots=True)
class _Told:
    """A task that was told to end."""

    task: int
    stage: _Stage
    at: float


def end_statement_of(stage: _Stage, running: Collection[Operation], stages_of: Callable[[str], Collection[_Stage]]) -> None:
    """End a statement whose tasks cannot be, in a way that nobody repeats: it would end the next Spark as well."""
    for operation in running:
        if operation.wants_spark and stage in stages_of(operation.handle):
            operation.stop(
                OperationState.ERROR,
                ExecutionError(
                    "The statement held Spark's cores with rows that take long each while others waited for one, and did not end when it "
                    "was told to. Take its work apart into more rows."
                ),
            )


class CoreTurns:
    """Looks about once a second, on its caller's thread."""

    def __init__(
        self,
        spark: Cores,
        *,
        blame: Callable[[_Stage], None] = lambda _: None,
        patience: TurnPatience | None = None,
    ) -> None:
        self._spark = spark
        self._blame = blame
        """Is told the stage of a task for which Spark is started anew."""
        self._patience = patience or TurnPatience()
        self._waiting: dict[_Stage, float] = {}
        """Since when each stage waits for its first core, or for one again."""
        self._told: _Told | None = None
        self._endings: Counter[_Stage] = Counter()
        """How often the last task of a stage was told to end."""

    def look(self, stopping: Collection[_Stage] = ()) -> None:
        """See to it that nobody waits too long; ``stopping`` are the stages of statements that were told to stop already."""
        tasks = self._spark.numbered_tasks()
        if not tasks or len(tasks) < self._spark.cores():
            self._waiting, self._told = {}, None
            return
        now, at_work = self._spark.seconds(), self._spark.stages_at_work()
        without = [stage.stage for stage in at_work if not stage.running and stage.stage not in stopping]
        self._waiting = {stage: self._waiting.get(stage, now) for stage in without}
        self._endings = Counter({stage.stage: self._endings[stage.stage] for stage in at_work if self._endings[stage.stage]})
        longest = now - min(self._waiting.values(), default=now)
        if longest >= self._patience.first:
            self._spark.put_waiting_first()
        if longest >= self._patience.prepare and any(stage not in self._endings for stage in self._waiting):
            self._spark.prepare()
        if self._told is not None and all(task != self._told.task for _, task in tasks):
            self._told = None
        if self._told is not None:
            self._outlived(now)
        elif longest >= self._patience.end:
            shares = {stage.stage: stage.share for stage in at_work}
            self._end_one([task for task in tasks if task[0] not in stopping], shares, longest, now)

    def _end_one(self, tasks: list[tuple[_Stage, int]], shares: dict[_Stage, str], longest: float, now: float) -> None:
        """Tell the youngest task of whoever holds most to end; one that was its stage's only one is spared for longer each time."""
        by_share = Counter(shares.get(stage, "") for stage, _ in tasks)
        by_stage = Counter(stage for stage, _ in tasks)
        for stage, task in sorted(tasks, key=lambda one: (by_share[shares.get(one[0], "")], by_stage[one[0]], one[1]), reverse=True):
            if longest < self._patience.end * 2 ** min(self._endings[stage], _MOST_DOUBLINGS):
                continue
            if by_stage[stage] == 1:
                self._endings[stage] += 1
            _log.info("Task %d of stage %d is told to end: others have waited %.0f s for one of Spark's cores", task, stage[1], longest)
            self._told = _Told(task, stage, now)
            self._spark.end_task(task, "others wait for its core")
            return

    def _outlived(self, now: float) -> None:
        stopping = self._told
        assert stopping is not None
        if now - stopping.at < self._patience.restart or not self._waiting:
            return
        self._told, self._waiting = None, {}
        self._blame(stopping.stage)
        self._spark.restart(f"task {stopping.task} of stage {stopping.stage[1]} does not end, while others wait for one of its cores")
