"""A rollback that dies between two steps: no hint is left that names a snapshot whose file is gone, which Java's readers believe."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from model.identifier import Identifier
from tests.lake.kept import six_commits
from tests.lake.mortal import Killed, MortalIO
from tests.lake.rewrite.test_compaction import append

MOST_CHANGES = 40


def hint_of(table: LakeTable) -> int | None:
    return table.files.read_hint(table.files.layout.latest_hint())


@pytest.mark.parametrize("branch", ["main", "b"])
def test_no_hint_names_what_a_rollback_took(catalog: CatalogStore, warehouse: Path, branch: str) -> None:
    name, decided = Identifier("default", "t", branch), 0
    for changes in range(MOST_CHANGES):
        disk = MortalIO()
        lake = Lake(catalog, str(warehouse), file_io=disk)
        made = six_commits(lake)
        if branch != "main":
            lake.branches.create(made, branch)
            for number in range(6):
                append(lake, lake.open(name), [number])
        table = lake.open(name)
        disk.changes_left = changes
        with contextlib.suppress(Killed):
            lake.history.rollback_to_snapshot(table, 2)
        with contextlib.suppress(Killed):
            lake.close()
        fresh = Lake(catalog, str(warehouse))
        opened = fresh.open(name)
        latest = opened.latest()
        assert latest is not None
        assert latest.id in (2, 6)
        hint = hint_of(opened)
        assert hint is None or hint <= latest.id, f"killed before change {changes + 1}: the hint names {hint}, the latest is {latest.id}"
        decided += latest.id == 2
        fresh.drop_table(Identifier("default", "t"))
        fresh.close()
        if not disk.dead:
            break
    assert changes < MOST_CHANGES - 1
    assert decided >= 4, "it was killed after its decision, too"
