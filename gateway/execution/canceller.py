"""Stopping the Spark jobs of canceled statements, away from the client that asked for it, whatever they hang on."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from gateway.execution.core_turns import CoreTurns, end_statement_of
from gateway.operation import Operation
from model.errors import LakeError, Unavailable
from sql.execution.bounded_calls import BoundedCalls
from sql.execution.environment import SparkPool

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 5.0


GiveUp: TypeAlias = Callable[[bool], bool]
"""Lets another thread take the place of a statement's, where it has not come back; told whether only others may have the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """For how many seconds a statement that was told to stop may go on."""

    answer: float = 10.0
    """So long a call into Spark's JVM may take; meanwhile, and until it comes back, nothing else waits for it."""
    interrupt: float = 3.0
    """Then its thread in the JVM is interrupted, whatever it waits for, and where tasks of it go on a new start of Spark is prepared."""
    thread: float = 10.0
    """Then another thread takes the place of its own: for others' statements where it is in Spark, which may plan on and hold a core."""
    told: float = 30.0
    """Then readiness says so. The rest is in seconds of Spark's own clock, which stands while this machine leaves it no processor."""
    waited_for: float = 5.0
    """Then Spark is started anew where tasks of such statements hold all its cores and somebody else's statement waits for one."""
    starved: float = 30.0
    """Then it is also where nobody waits."""
    restart: float = 60.0
    """Then Spark is started anew, which fails what runs there."""


class SparkJobs(Protocol):
    """Spark, as far as statements are stopped there; `sql.spark.session.pool` has the real one."""

    def cancel(self, statement_id: str) -> None: ...
    def interrupt(self, statement_id: str) -> None: ...
    def stages_of(self, statement_id: str) -> set[tuple[str, int]]: ...
    def live_tasks(self) -> list[tuple[str, int]]: ...
    def cores(self) -> int: ...
    def answers(self) -> bool: ...
    def calls(self, statement_id: str) -> bool: ...
    def seconds(self) -> float: ...
    def prepare(self) -> None: ...
    def restart(self, reason: str) -> None: ...


class Stoppable(Protocol):
    """What may go on in Spark: a statement, or a stream."""

    handle: str
    """Under which Spark knows its jobs."""
    on_spark: bool
    worker_ended: bool


@dataclass(kw_only=True)
class _EndedStream:
    """A streaming query that Spark takes for stopped; its tasks may not be."""

    handle: str
    on_spark: bool = False
    worker_ended: bool = True


class _Stopping:
    def __init__(self, operation: Stoppable, give_up: GiveUp) -> None:
        self.operation = operation
        self.give_up = give_up
        self.since = time.monotonic()
        self.waited = 0.0
        """For its tasks to end, in seconds of Spark's own clock."""
        self.unanswered = 0.0
        """Of them those since its tasks were counted last: it may turn out that Spark's JVM stood still."""
        self.given_up = False
        self.stages: set[tuple[str, int]] = set()
        """All that were ever seen: Spark forgets a job after a thousand others."""
        self.tasks = 0
        """Of its tasks that ran when it was last looked at."""
        self.counted = False
        """Whether that was in this round: not where Spark's JVM stands still."""

    def lose_place(self) -> None:
        """Have another thread take the place of its own, unless that has come back."""
        self.given_up = self.give_up(self.operation.on_spark)

    @property
    def holds_spark(self) -> bool:
        """Whether it keeps something of Spark's from others."""
        return bool(self.tasks) or (self.operation.on_spark and not self.operation.worker_ended)


class Canceller:
    """One thread of its own, and another for calls into the JVM: each that makes some costs it one, and while it stands still none ends.

    A statement is told to stop again and again until its worker and its tasks have ended, since Spark forgets a cancel that comes
    between two of its jobs. A worker that does not end is interrupted and then loses its place, and Spark is started anew where
    nothing else helps.
    """

    def __init__(
        self,
        spark: SparkJobs,
        *,
        look: Callable[[], None] = lambda: None,
        waiting: Callable[[], bool] = lambda: False,
        turns: CoreTurns | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._spark = spark
        self._look = look
        self._turns = turns
        """Looks whether those wait too long for a core."""
        self._looked = time.monotonic()
        self._seconds = 0.0
        """By Spark's own clock, when it was asked last."""
        self._waiting = waiting
        """Whether statements that nobody told to stop are in Spark, or wait for it."""
        self._patience = patience or Patience()
        self._calls = BoundedCalls("sluice-canceller-calls", seconds=self._patience.answer)
        self._restarts = BoundedCalls("sluice-canceller-restarts", seconds=self._patience.answer)
        """Apart, since a call that does not come back may be the reason."""
        self._woken = threading.Condition()
        self._stopping: list[_Stopping] = []
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="sluice-canceller", daemon=True)
        self._thread.start()

    def stop(self, operation: Operation, give_up: GiveUp = lambda _: False) -> None:
        """Stop what the operation runs on Spark, if anything; returns at once. ``give_up`` frees the place of its thread."""
        if not operation.begun:
            return
        with self._woken:
            self._stopping.append(_Stopping(operation, give_up))
            self._woken.notify()

    def look_after(self, handle: str) -> None:
        """Look until the tasks of a streaming query that was stopped have ended; returns at once."""
        with self._woken:
            self._stopping.append(_Stopping(_EndedStream(handle=handle), lambda _: False))
            self._woken.notify()

    def outliving(self) -> list[str]:
        """Statements whose tasks go on in Spark although they were told to stop a while ago: they hold cores."""
        return self._told_long_ago(lambda statement: bool(statement.tasks))

    def lingering(self) -> list[str]:
        """Those of which only a thread goes on there, as one that plans: Spark does all else meanwhile."""
        return self._told_long_ago(lambda statement: statement.holds_spark and not statement.tasks)

    def _told_long_ago(self, goes_on: Callable[[_Stopping], bool]) -> list[str]:
        now = time.monotonic()
        with self._woken:
            overdue = [statement for statement in self._stopping if now - statement.since > self._patience.told]
        return [statement.operation.handle for statement in overdue if goes_on(statement)]

    def close(self, seconds: float = 2.0) -> None:
        """End the thread."""
        with self._woken:
            self._closed = True
            self._woken.notify()
        self._thread.join(seconds)
        self._calls.close()
        self._restarts.close()

    def _serve(self) -> None:
        while True:
            with self._woken:
                if not self._stopping and not self._closed:
                    self._woken.wait(_AGAIN_SECONDS)
                if self._closed:
                    return
                stopping = list(self._stopping)
            try:
                self._look_at(stopping)
            except Exception:  # statements are stopped as long as the server lives
                _log.exception("A round of stopping statements failed")
            with self._woken:
                if self._stopping and not self._closed:
                    self._woken.wait(_AGAIN_SECONDS)

    def _look_at(self, stopping: Sequence[_Stopping]) -> None:
        """One round; what has ended is not looked at again, whatever the round runs into behind it."""
        if not stopping and time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            self._guarded(partial(self._calls, self._look), "Spark could not be asked how it is")
        self._count_tasks(stopping)
        self._guarded(partial(self._count_seconds, stopping), "Spark's own clock could not be read")
        if self._turns is not None and self._waiting():
            theirs = {stage for statement in stopping for stage in statement.stages}
            self._guarded(partial(self._calls, partial(self._turns.look, theirs)), "Spark could not be asked who waits for its cores")
        starving = self._renew_starved(stopping)
        self._forget(starving)
        for statement in stopping:
            if statement not in starving:
                self._guarded(partial(self._tell, statement), f"Statement {statement.operation.handle} could not be stopped")

    def _forget(self, ended: Sequence[_Stopping]) -> None:
        with self._woken:
            self._stopping = [statement for statement in self._stopping if statement not in ended]

    def _count_tasks(self, stopping: Sequence[_Stopping]) -> None:
        """Look which tasks go on: Spark itself takes one for ended when it was told to stop."""
        live: list[tuple[str, int]] = []
        for statement in stopping:
            statement.counted = False
        try:
            for statement in stopping:
                statement.stages |= self._calls(partial(self._spark.stages_of, statement.operation.handle))
            if any(statement.stages for statement in stopping):
                live = self._calls(self._spark.live_tasks)
        except Unavailable:  # it stands still: the tasks are those that it had
            return
        except Exception:  # the JVM may be gone, and with it its tasks
            _log.debug("Spark does not tell which tasks run", exc_info=True)
        for statement in stopping:
            statement.tasks, statement.counted = sum(stage in statement.stages for stage in live), True

    def _count_seconds(self, stopping: Sequence[_Stopping]) -> None:
        """Say how long each has been waited for, by a clock that several statements cannot each ask for themselves."""
        before, self._seconds = self._seconds, self._spark.seconds() if stopping else self._seconds
        stands_still = not self._spark.answers()
        for statement in stopping:
            if not statement.counted and stands_still:  # no cancel reaches tasks meanwhile
                statement.waited -= statement.unanswered
                statement.unanswered = 0.0
                continue
            seconds = min(self._seconds - before, time.monotonic() - statement.since)
            statement.waited += seconds
            statement.unanswered = 0.0 if statement.counted else statement.unanswered + seconds

    def _renew_starved(self, stopping: Sequence[_Stopping]) -> list[_Stopping]:
        """Start Spark anew where some have left nobody a core for too long; those that end with it."""
        if any(statement.tasks and statement.waited > self._patience.interrupt for statement in stopping):
            self._guarded(self._spark.prepare, "A new start of Spark could not be prepared")
        shortest = min(self._patience.waited_for, self._patience.starved)
        holding = [statement for statement in stopping if statement.tasks and statement.waited > shortest]
        tasks = sum(statement.tasks for statement in holding)
        if not tasks or tasks < self._cores():
            return []
        waited = min(statement.waited for statement in holding)
        if waited <= self._patience.starved and not self._waiting():
            return []
        handles = ", ".join(statement.operation.handle for statement in holding)
        reason = f"{tasks} tasks hold all its cores {waited:.0f} s after their statements were told to stop: {handles}"
        self._restart(reason)
        return holding

    def _restart(self, reason: str) -> None:
        self._guarded(partial(self._restarts, partial(self._spark.restart, reason)), "Spark could not be started anew")

    def _cores(self) -> float:
        try:
            return self._calls(self._spark.cores)
        except Exception:  # the JVM may be gone, and with it its tasks
            return math.inf

    def _tell(self, statement: _Stopping) -> None:
        """Tell it to stop once more, or forget it where it has ended."""
        operation, waited = statement.operation, time.monotonic() - statement.since
        handle = operation.handle
        if not operation.worker_ended:
            cancel = partial(self._calls, partial(self._spark.cancel, handle))
            self._guarded(cancel, f"The Spark jobs of statement {handle} could not be stopped")
            if waited > self._patience.interrupt and operation.on_spark:
                interrupt = partial(self._calls, partial(self._spark.interrupt, handle))
                self._guarded(interrupt, f"The thread of statement {handle} could not be interrupted")
            if waited > self._patience.thread and not statement.given_up:
                self._guarded(statement.lose_place, f"The place of statement {handle} could not be given to another thread")
                if statement.given_up:
                    _log.warning("Statement %s was told to stop %d s ago; another thread takes its place", handle, waited)
        if operation.worker_ended and statement.counted and not statement.tasks:
            self._forget([statement])
            return
        in_spark = statement.tasks or self._spark.calls(handle)  # whoever waits for a start to end must not end it
        if statement.waited > self._patience.restart and statement.holds_spark and in_spark and self._spark.answers():
            reason = f"statement {handle} goes on {waited:.0f} s after it was told to stop, with {statement.tasks} tasks"
            self._restart(reason)
            self._forget([statement])

    @staticmethod
    def _guarded(action: Callable[[], None], what: str) -> None:
        try:
            action()
        except LakeError:
            pass  # what is away is told to whoever needs it
        except Exception:  # the JVM may be gone, and with it what was to be stopped
            _log.warning("%s", what, exc_info=True)


def canceller_for(spark: SparkPool, running: Callable[[], list[Operation]], look: Callable[[], None]) -> Canceller:
    """The canceller of a gateway, which also sees to it that each of its statements gets a core in time."""
    return Canceller(
        spark,
        look=look,
        waiting=lambda: any(operation.wants_spark for operation in running()),
        turns=CoreTurns(spark, blame=lambda stage: end_statement_of(stage, running(), spark.stages_of)),
    )
