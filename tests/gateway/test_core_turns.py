"""Who waits for a core of Spark's while tasks hold them all: the youngest of these is ended, and Spark is where it does not end."""

from __future__ import annotations

import pytest

from gateway.execution.core_turns import CoreTurns, TurnPatience
from sql.execution.progress import StageTasks

A, B, WAITING = ("app", 1), ("app", 2), ("app", 3)


class _Spark:
    """Two cores, and what they were told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tasks = [(A, 10), (A, 11)]
        self.at_work = [stage(A, "anna", 2), stage(WAITING, "ben", 0)]
        self.ended: list[int] = []
        self.events: list[str] = []

    def cores(self) -> int:
        return 2

    def numbered_tasks(self) -> list[tuple[tuple[str, int], int]]:
        return self.tasks

    def stages_at_work(self) -> list[StageTasks]:
        return self.at_work

    def seconds(self) -> float:
        return self.now

    def put_waiting_first(self) -> None:
        self.events.append("first")

    def end_task(self, task: int, reason: str) -> None:
        self.ended.append(task)

    def prepare(self) -> None:
        self.events.append("prepare")

    def restart(self, reason: str) -> None:
        self.events.append(reason)


def stage(number: tuple[str, int], share: str, running: int) -> StageTasks:
    return StageTasks(stage=number, share=share, running=running)


class _Turns:
    """Core turns, looked at once a second of a clock that the test turns."""

    def __init__(self, spark: _Spark) -> None:
        self.spark = spark
        self.blamed: list[tuple[str, int]] = []
        patience = TurnPatience(first=2, prepare=5, end=10, restart=5)
        self.turns = CoreTurns(spark, blame=self.blamed.append, patience=patience)

    def run(self, seconds: int, *stopping: tuple[str, int]) -> None:
        for _ in range(seconds):
            self.turns.look(stopping)
            self.spark.now += 1


@pytest.fixture
def spark() -> _Spark:
    return _Spark()


@pytest.fixture
def turns(spark: _Spark) -> _Turns:
    return _Turns(spark)


def test_the_youngest_task_of_whoever_holds_all_cores_is_ended_and_spark_where_it_does_not_end(spark: _Spark, turns: _Turns) -> None:
    turns.run(2)
    assert spark.events == []
    turns.run(3)
    assert set(spark.events) == {"first"}
    turns.run(5)
    assert (set(spark.events), spark.ended) == ({"first", "prepare"}, [])
    turns.run(1)
    assert spark.ended == [11]
    turns.run(4)
    assert (spark.ended, turns.blamed) == ([11], [])
    turns.run(1)
    assert turns.blamed == [A]
    assert spark.events[-1] == "task 11 of stage 1 does not end, while others wait for one of its cores"


def test_a_task_that_ends_makes_room_and_nothing_else_happens(spark: _Spark, turns: _Turns) -> None:
    turns.run(11)
    assert spark.ended == [11]
    spark.tasks, spark.at_work = [(A, 10), (WAITING, 12)], [stage(A, "anna", 1), stage(WAITING, "ben", 1)]
    turns.run(60)
    assert (spark.ended, turns.blamed) == ([11], [])


def test_nobody_is_ended_where_a_core_is_free_or_nobody_waits(spark: _Spark, turns: _Turns) -> None:
    spark.at_work = [stage(A, "anna", 2)]
    turns.run(60)
    spark.tasks, spark.at_work = [(A, 10)], [stage(A, "anna", 1), stage(WAITING, "ben", 0)]
    turns.run(60)
    assert (spark.events, spark.ended) == ([], [])


def test_who_holds_most_is_ended_before_who_holds_less(spark: _Spark, turns: _Turns) -> None:
    spark.tasks = [(A, 10), (A, 11), (B, 12)]
    spark.at_work = [stage(A, "anna", 2), stage(B, "carl", 1), stage(WAITING, "ben", 0)]
    turns.run(11)
    assert spark.ended == [11]


def test_the_only_task_of_a_stage_is_spared_for_longer_each_time(spark: _Spark, turns: _Turns) -> None:
    """Or a stage of one long task would be begun again and again, and never end."""
    spark.tasks, spark.at_work = [(A, 10), (B, 11)], [stage(A, "anna", 1), stage(B, "carl", 1), stage(WAITING, "ben", 0)]
    turns.run(11)
    assert spark.ended == [11]
    spark.tasks, spark.at_work = [(A, 10), (WAITING, 12)], [stage(A, "anna", 1), stage(WAITING, "ben", 1), stage(B, "carl", 0)]
    turns.run(11)
    assert spark.ended == [11, 12]
    spark.tasks, spark.at_work = [(A, 10), (B, 13)], [stage(A, "anna", 1), stage(B, "carl", 1), stage(WAITING, "ben", 0)]
    turns.run(11)
    assert spark.ended == [11, 12, 10], "the one that was never ended is next, not the youngest again"


def test_what_was_told_to_stop_already_is_left_to_whoever_told_it(spark: _Spark, turns: _Turns) -> None:
    turns.run(60, A)
    assert spark.ended == []


def test_a_task_that_gets_no_processor_has_time(spark: _Spark, turns: _Turns) -> None:
    """Its machine is busy with other work: it may not have run at all since it was told to end."""
    turns.run(11)
    assert spark.ended == [11]
    for _ in range(60):
        turns.turns.look()  # while the clock stands
    assert (spark.ended, turns.blamed) == ([11], [])
    turns.run(6)
    assert turns.blamed == [A]
