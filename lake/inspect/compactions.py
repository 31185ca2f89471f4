"""Automatic compactions: a table's, and the newest of all tables that a caller sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.records import CompactionRunRow, TableRunRow
from lake.inspect.browse import seen_in_part
from lake.tables.handle import LakeTable
from model.access import table_resource
from model.identifier import Identifier

if TYPE_CHECKING:
    from lake.lake import Lake


def runs_of(lake: Lake, table: LakeTable) -> Sequence[CompactionRunRow]:
    """A table's, running ones too, the newest first."""
    with lake.catalog.reading() as tx:
        return tx.compactions.of(table.table_id)


def newest_runs(lake: Lake, *, limit: int) -> list[TableRunRow]:
    """Those among the newest whose tables' counts are told to the caller; those that have not ended come first."""
    with lake.catalog.consistent() as tx:
        caller, newest = lake.access.at(tx, lake.caller), tx.compactions.newest(limit)
    in_part = set(seen_in_part(lake.for_caller(caller), {(run.database, run.name) for run in newest}))
    whole = (run for run in newest if (run.database, run.name) not in in_part)
    return [run for run in whole if caller.sees(table_resource(Identifier(run.database, run.name)))]
