"""Long calls say how far they are, and a cancel at any of their steps leaves the table as it was, with no file more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import Gateway
from gateway.operation import Operation
from lake import Caller, Lake, LakeTable
from model.errors import OperationNotExist, StatementCanceled
from model.identifier import Identifier
from sql.execution.cancellation import Cancellation
from sql.execution.progress import Progress, ProgressRecord, SparkStage, SparkWatch
from tests.gateway.held import Held, in_background
from tests.lake.access.test_access import user
from tests.maintenance.test_coordinator import until
from tests.short import one_in


@pytest.fixture
def table(gateway: Gateway, lake: Lake) -> LakeTable:
    gateway.run("CREATE TABLE t (p INT, id INT) PARTITIONED BY (p) WITH ('bucket' = '-1')").close()
    for n in range(5):
        gateway.run(f"INSERT INTO t VALUES (1, {n}), (2, {n}), (3, {n})").close()
    return lake.open(Identifier("default", "t"))


def files(table: LakeTable) -> set[str]:
    return {str(path) for path in Path(table.location).rglob("*") if path.is_file()}


def checked_by(cancellation: Cancellation, gateway: Gateway) -> list[Operation]:
    """The gateway's operation whose step this is; none where another test of this process has left it behind."""
    return [operation for operation in gateway.running() if operation.cancellation is cancellation]


def test_a_cancel_at_any_step_of_a_compaction_changes_nothing(gateway: Gateway, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    before, latest = files(table), table.latest()
    real = Cancellation.check
    seen: list[ProgressRecord] = []
    stopped: list[Operation] = []
    for at in itertools.count(1):
        steps = itertools.count(1)

        def check(self: Cancellation, steps: Any = steps, at: int = at) -> None:
            for operation in checked_by(self, gateway):
                if next(steps) == at:
                    seen.append(gateway.progress(operation))
                    stopped.append(operation)
                    operation.cancel()
            real(self)

        monkeypatch.setattr(Cancellation, "check", check)
        try:
            gateway.run("CALL sys.compact('t')").close()
            break
        except StatementCanceled:
            until(lambda: stopped[-1].worker_ended)
            assert (files(table), table.latest()) == (before, latest), at
    assert at > 8  # before the plan, at each partition and file of it, before the commit
    stages = [record for record in seen if record.stage == "merging files of default.t"]
    assert {record.total for record in stages} == {15}
    assert max(record.done for record in stages) >= 5
    assert table.latest() != latest


@pytest.mark.parametrize(
    ("text", "steps"),
    one_in(
        2,
        [
            ("CALL sys.rewrite_file_index('t')", 5),
            ("CALL sys.remove_orphan_files('t', older_than => '2020-01-01 00:00:00')", 4),
            ("CALL sys.compact_database(including_tables => 't')", 8),
            ("CALL sys.expire_partitions('t', expiration_time => '1 d')", 1),
            ("CALL sys.compact_manifest('t')", 1),
            ("CALL sys.check_table('t', deep => true)", 30),
            ("CALL sys.remove_unexisting_files('t', deep => true)", 20),
        ],
    ),
)
def test_a_cancel_at_any_step_of_a_long_call_does_no_harm(
    gateway: Gateway, table: LakeTable, monkeypatch: pytest.MonkeyPatch, text: str, steps: int
) -> None:
    gateway.run("ALTER TABLE t SET ('file-index.bloom-filter.columns' = 'id')").close()
    rows = sorted(gateway.run("SELECT * FROM t").collect())
    real = Cancellation.check
    for at in itertools.count(1):
        counted = itertools.count(1)
        stopped: list[Operation] = []

        def check(self: Cancellation, counted: Any = counted, at: int = at, stopped: list[Operation] = stopped) -> None:
            for operation in checked_by(self, gateway):
                if next(counted) == at:
                    stopped.append(operation)
                    operation.cancel()
            real(self)

        monkeypatch.setattr(Cancellation, "check", check)
        try:
            gateway.run(text).close()
        except StatementCanceled:
            until(lambda stopped=stopped: stopped[0].worker_ended)  # type: ignore[misc]
        monkeypatch.setattr(Cancellation, "check", real)
        assert sorted(gateway.run("SELECT * FROM t").collect()) == rows
        if not stopped:
            break
    assert at > steps


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("CALL sys.check_table('t', deep => true)", "checking the %s of default.t"),
        ("CALL sys.remove_unexisting_files('t', deep => true)", "looking for lost %s of default.t"),
    ],
)
def test_a_look_at_all_files_says_how_many_are_left(
    gateway: Gateway, table: LakeTable, monkeypatch: pytest.MonkeyPatch, text: str, stage: str
) -> None:
    seen: list[ProgressRecord] = []
    real = Progress.advance

    def advance(self: Progress, count: int = 1, size: int = 0) -> None:
        real(self, count, size)
        seen.append(self.record())

    monkeypatch.setattr(Progress, "advance", advance)
    assert gateway.run(text).collect() == []
    assert next(record.total for record in seen if record.stage == stage % "metadata") is None
    data = [record for record in seen if record.stage == stage % "data files"]
    size = sum(path.stat().st_size for path in Path(table.location).rglob("bucket-*/*"))
    assert [(record.done, record.total, record.total_bytes) for record in data] == [(at + 1, 15, size) for at in range(15)]
    assert data[-1].done_bytes == size


def test_progress_is_told_to_whose_statement_it_is(gateway: Gateway, held: Callable[..., Held]) -> None:
    statement = held()
    join = in_background(lambda: gateway.run("SELECT held()", name="mine").close())
    assert statement.reached.wait(60)
    operation = gateway.running_statement("mine")
    assert gateway.running_statement(operation.handle) is operation
    operation.progress.begin("working", total=4, total_bytes=100)
    operation.progress.advance(1, 25)
    told = {"stage": "working", "done": 1, "total": 4, "bytesDone": 25, "bytesTotal": 100, "stages": []}
    assert gateway.progress(operation).to_json() == told
    with pytest.raises(OperationNotExist):
        gateway.running_statement("mine", caller=Caller(principal="somebody"))
    assert gateway.running_statement("mine", caller=Caller(principal="root", administrator=True)) is operation
    statement.let_go.set()
    join()
    with pytest.raises(OperationNotExist):
        gateway.running_statement("mine")


def test_tasks_of_spark_stand_in_where_nothing_else_is_counted() -> None:
    stages = [
        SparkStage(id=7, name="scan", done=1, active=0, failed=0, total=1),
        SparkStage(id=8, name="join", done=2, active=4, failed=1, total=7),
    ]
    watch = SparkWatch({"a": stages}.get)
    progress = Progress()
    assert watch.look("b", progress) == ProgressRecord()
    assert watch.look("a", progress) == ProgressRecord(stage="Spark tasks", done=3, total=8, stages=tuple(stages))
    progress.begin("merging", total=2)
    assert watch.look("a", progress) == ProgressRecord(stage="merging", total=2, stages=tuple(stages))

    def away(statement_id: str) -> list[SparkStage] | None:
        raise RuntimeError(statement_id)

    assert SparkWatch(away).look("a", progress) == ProgressRecord(stage="merging", total=2)

    def meanwhile(statement_id: str) -> list[SparkStage]:
        progress.count_nothing()  # as when the statement's tables are looked at while Spark is asked
        return stages

    nothing = {"stage": "merging", "done": 0, "total": None, "bytesDone": 0, "bytesTotal": None, "stages": []}
    assert SparkWatch(meanwhile).look("a", progress).to_json() == nothing
    progress.begin("committing", total=1)
    progress.advance()
    assert watch.look("a", progress).to_json() == {**nothing, "stage": "committing"}
    watch.close()


@pytest.mark.parametrize("call", ["CALL sys.compact('t')", "CALL sys.compact_database(including_tables => 't')"])
def test_nothing_is_counted_for_whom_a_part_of_the_table_is_hidden(
    gateway: Gateway, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    ada = user(lake, "ada")
    gateway.run("GRANT SELECT, UPDATE ON t TO ada; CREATE POLICY p ON t TO ada USING (id = 1)").close()
    real = Cancellation.check
    stages, counts = set(), set()

    def check(self: Cancellation) -> None:
        for operation in checked_by(self, gateway):
            told = gateway.progress(operation)
            stages.add(told.stage)
            counts.add((told.done, told.total, told.done_bytes, told.total_bytes))
        real(self)

    monkeypatch.setattr(Cancellation, "check", check)
    gateway.run(call, caller=lake.access.caller(ada)).close()
    assert "merging files of default.t" in stages
    assert counts == {(0, None, 0, None)}
