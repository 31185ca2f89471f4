"""Callers as of before tables and databases were dropped: what was granted to them then tells what they see of drops, and may do."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from catalog.objects.drops import DroppedTable
from lake.access.callers import Caller
from lake.access.permissions import sees_part
from model.identifier import Identifier


class CallerBefore:
    """A caller as of before tables and databases were dropped."""

    def __init__(self, everywhere: Caller, by_table: Mapping[UUID, Caller], bound: frozenset[UUID]) -> None:
        self.everywhere = everywhere
        self._by_table = by_table
        self._bound = bound

    def of(self, table: DroppedTable) -> Caller:
        """The caller with what was granted to it on this table."""
        return self._by_table.get(table.table_id, self.everywhere)

    def tells_counts(self, table: DroppedTable) -> bool:
        """Whether the caller may know how much the table held, as `Lake.tells_counts` says of one that is there."""
        caller = self.of(table)
        return caller.administrator or not sees_part(caller, as_kept(table), bound=table.table_id in self._bound)


def as_kept(table: DroppedTable) -> Identifier:
    """The name under which grants on what held the table are found: a new database of its name is another one."""
    return Identifier(table.kept_in, table.name)
