"""Commits against lost answers and against renames: nothing twice, nothing in a place where nobody looks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore, CatalogTransaction
from catalog.commits.reservations import Turn
from lake import Lake, LakeTable
from lake.commit.core import Prepared
from model.catalog_errors import CatalogFull
from model.commit_phase import CommitProgress
from model.errors import OutcomeUnknown
from model.identifier import Identifier
from sql.execution.cancellation import Cancellation
from tests.gateway.held import HeldStep, in_background
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table
from tests.waiting import eventually

U = Identifier("default", "u")


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_is_found_out(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    whole = catalog.transaction
    lost: list[bool] = []

    @contextlib.contextmanager
    def losing() -> Iterator[CatalogTransaction]:
        if lost:
            with whole() as tx:
                yield tx
            return
        lost.append(True)
        with contextlib.suppress(InterruptedError), whole() as tx:
            yield tx
            if not landed:
                raise InterruptedError
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(catalog, "transaction", losing)
    assert lake.commit(table, append("a")).id == 1
    assert names(table) == ["a"]


def test_a_commit_that_lands_after_it_was_looked_for_is_not_repeated(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, found = catalog.transaction, lake._core._find_outcome
    first = [True]

    @contextlib.contextmanager
    def losing() -> Iterator[CatalogTransaction]:
        with whole() as tx:
            yield tx
        if first:
            raise OutcomeUnknown("lost")

    def too_early(first_of_all: Prepared, lost: OutcomeUnknown) -> bool:
        """Looks as if Postgres had not finished the COMMIT yet."""
        first.clear()
        with monkeypatch.context() as blind:
            blind.setattr("catalog.objects.snapshots.SnapshotRepository.by_uuid", lambda *_: None)
            return found(first_of_all, lost)

    monkeypatch.setattr(catalog, "transaction", losing)
    monkeypatch.setattr(lake._core, "_find_outcome", too_early)
    assert lake.commit(table, append("a")).id == 1
    assert names(table) == ["a"]


def test_a_group_whose_answer_was_lost_is_decided_to_its_end_though_one_of_it_is_canceled(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, whole, canceled = HeldStep(), catalog.deciding, Cancellation()
    monkeypatch.setattr(lake._core, "_hook", step)
    step.hold("synced")
    first = in_background(lambda: lake.commit(table, append("a")))
    assert step.reached.wait(60)
    (queue,) = lake._committer._groups._queues.values()
    requests = [append("b", progress=CommitProgress(decider=canceled)), append("c", progress=CommitProgress(decider=Cancellation()))]
    others = [in_background(lambda request=request: lake.commit(table, request)) for request in requests]  # type: ignore[misc]
    assert eventually(lambda: len(queue.waiting) == 2, pause=0.01)
    lost: list[bool] = []

    @contextlib.contextmanager
    def losing(turn: Turn | None = None) -> Iterator[CatalogTransaction]:
        if step.name == "lose" and not lost:
            lost.append(True)
            canceled.cancel()
            raise OutcomeUnknown("lost")
        with whole(turn) as tx:
            yield tx

    def lose_next(name: str) -> None:
        if name == "synced":
            step.name = "lose"

    monkeypatch.setattr(catalog, "deciding", losing)
    monkeypatch.setattr(lake._core, "_hook", lose_next)
    step.let_go.set()
    assert first().id == 1
    assert [join().id for join in others] == [2, 2]
    assert lost
    assert sorted(names(table)) == ["a", "b", "c"]


def test_a_snapshot_decided_before_a_rename_is_published_where_the_table_lies(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path
) -> None:
    lake.commit(table, append("a"))
    slow = Lake(catalog, str(warehouse), hook=lambda step: lake.rename_table(T, U) if step == "decided" else None)
    slow.commit(slow.open(T), append("b"))
    slow.close()
    assert snapshot_file(warehouse, 2).exists()
    assert names(lake.open(U)) == ["a", "b"]
    lake.create_table(T, table.schema)
    for name in ("c", "d"):
        lake.commit(lake.open(T), append(name))
    assert names(lake.open(T)) == ["c", "d"]


def test_each_of_a_group_that_fails_has_an_error_of_its_own(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What took effect before a statement is added to it, and is not for the others."""
    step = HeldStep()
    monkeypatch.setattr(lake._core, "_hook", step)
    step.hold("synced")
    first = in_background(lambda: lake.commit(table, append("a")))
    assert step.reached.wait(60)
    (queue,) = lake._committer._groups._queues.values()
    others = [in_background(lambda name=name: lake.commit(table, append(name))) for name in "bc"]  # type: ignore[misc]
    assert eventually(lambda: len(queue.waiting) == 2, pause=0.01)

    def full(name: str) -> None:
        if name == "synced":
            raise CatalogFull

    monkeypatch.setattr(lake._core, "_hook", full)
    step.let_go.set()
    assert first().id == 1
    one, other = (join() for join in others)
    assert one is not other
    assert type(one) is type(other) is CatalogFull
    assert one.message == other.message == CatalogFull().message
    assert str(one) == str(other) == str(CatalogFull())
