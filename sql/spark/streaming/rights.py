"""What a query that runs on was allowed when it began, asked again for each of its batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from lake import LakeTable
from model.errors import Forbidden, InvalidOption
from sql.connectors import ConnectorTable, check_table
from sql.statements.base import ExecutionContext


class Rights:
    """Of a query over tables that goes on forever: no batch comes from what its caller may not read any more."""

    def __init__(self, context: ExecutionContext, tables: Iterable[LakeTable], sources: Iterable[ConnectorTable] = ()) -> None:
        self._context = context
        self._sources = tuple(sources)
        once = {(table.table_id, table.identifier.branch): table for table in tables}
        self._rules = [(table, context.lake.read_rules(table)) for table in once.values()]

    def now(self) -> ExecutionContext:
        """The query's context with what its caller may do at this moment.

        Raises `NotAuthorized` where its token was revoked or has expired, or none of a job's principal is left, `TableNotExist`, and
        `Forbidden` where the caller does not see of each table what it saw when the query began: its plan shows that, or where files it
        follows as they lie have become a table's.
        """
        lake = self._context.lake
        lake = lake.for_caller(lake.access.renewed(lake.caller))
        for table, begun_with in self._rules:
            if lake.rules_now(table) != begun_with:
                raise Forbidden(
                    f"What {lake.caller.principal} sees of table {table.identifier} was changed since this query began; begin it anew."
                )
        now = replace(self._context, lake=lake)
        for source in self._sources:
            with contextlib.suppress(InvalidOption):  # files that were read may be taken away
                check_table(source, now.connector_scope)
        return now
