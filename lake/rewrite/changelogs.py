"""The long-lived changelogs of a table, which the catalog has not: clients keep them as files, and their streams read on from them."""

from __future__ import annotations

from collections.abc import Callable

from lake.register.foreign_tables import names_of_branches
from lake.register.unknown_branches import files_of_branch
from lake.tables.handle import LakeTable
from model.identifier import MAIN_BRANCH
from table.retention.changelogs import changelogs_of, names_needed
from table.retention.expiry import Garbage


def ids_of_changelogs(table: LakeTable) -> list[int]:
    """The ids of the snapshots of which changelogs are kept, of whichever branch."""
    return sorted({one for branch in _branches(table) for one in files_of_branch(table, branch).changelog_ids()})


def names_in_changelogs(table: LakeTable, check: Callable[[], None] = lambda: None) -> set[str]:
    """Names of all files that readers of changelogs need; raises `TableDamaged` where a changelog cannot be read."""
    names: set[str] = set()
    for branch in _branches(table):
        files = files_of_branch(table, branch)
        for changelog in changelogs_of(files):
            check()
            names |= names_needed(files, changelog)
    return names


def spared(table: LakeTable, garbage: Garbage) -> Garbage:
    """What of garbage no changelog needs; raises what `names_in_changelogs` raises."""
    return garbage.without(names_in_changelogs(table)) if garbage.data or garbage.metadata else garbage


def _branches(table: LakeTable) -> list[str]:
    return [MAIN_BRANCH, *names_of_branches(table.files.io, table.location)]
