"""Of very many tables that are due a round hears of some: those in greatest need, and the others in turns."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from lake import Lake
from maintenance.coordinator import Coordinator
from tests.lake.rewrite.test_compaction import append, live
from tests.maintenance.test_coordinator import LIMITS, LOOSE, until
from tests.sql.tables import make_table


def test_a_round_hears_of_those_in_need_of_others_in_turns_and_of_its_own(lake: Lake) -> None:
    made = [make_table(lake, f"t{number}", options=LOOSE, id="INT") for number in range(6)]
    for number, table in enumerate(made):
        for n in range(number + 1):
            append(lake, table, [n])
    by_id = sorted(table.table_id for table in made)
    owner = uuid4()

    def due(**limits: object) -> list[UUID]:
        with lake.catalog.reading() as tx:
            return [table.table_id for table in tx.leases.due("main", owner, **limits)]  # type: ignore[arg-type]

    needy = [table.table_id for table in reversed(made)]
    assert due() == needy
    assert set(due(most=1)) == {needy[0], by_id[0]}
    assert set(due(most=2, after=by_id[1])) == {*needy[:2], *by_id[2:4]}
    assert set(due(most=1, after=by_id[-1])) == {needy[0]}
    assert set(due(most=1, after=by_id[-1], also=[needy[4]])) == {needy[0], needy[4]}
    with lake.catalog.transaction() as tx:
        tx.leases.renew(owner, "here")
        assert tx.leases.take([needy[5]], owner) == [needy[5]]
    assert set(due(most=1, after=by_id[-1])) == {needy[0], needy[5]}


def test_all_are_worked_off_however_few_a_round_hears_of(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those behind tables that keep being in greater need."""
    monkeypatch.setattr("maintenance.coordinator._LOOKED_AT_ONCE", 1)
    monkeypatch.setattr("maintenance.coordinator._IN_HAND", 2)
    tables = [make_table(lake, f"t{number}", options=LOOSE, id="INT") for number in range(5)]
    for table in tables:
        for n in range(6):
            append(lake, table, [n])
    busy = tables[0]
    coordinator = Coordinator(lake, LIMITS)

    def one() -> bool:
        for n in range(8):
            append(lake, busy, [n])
        coordinator.round()
        return all(len(live(table)) == 1 for table in tables[1:])

    try:
        until(one)
    finally:
        coordinator.close()
