"""How far a job's tables are ahead of it: what Spark does not tell of a source that is written in Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from lake import LakeTable
from lake.job_records import JobRecords
from model.errors import LakeError
from sql.analysis.references import table_references
from sql.connectors.stored import find_connector
from sql.statements.base import ExecutionContext


class SourceTables:
    """The tables a query names, its views expanded, as they were when it began."""

    def __init__(self, context: ExecutionContext, query: exp.Expr) -> None:
        self._records = JobRecords(context.lake.catalog)
        self._tables = list(_tables(context, query))

    def complete(self, sources: Sequence[dict[str, Any]]) -> None:
        """Add to what Spark tells of each source the table's name, its newest offset and the snapshots with rows not read yet."""
        for source in sources:
            end = source.get("endOffset")
            if isinstance(end, dict) and isinstance(end.get("snapshot"), int) and source.get("latestOffset") is None:
                with contextlib.suppress(LakeError):  # the catalog is away, or the table gone: the query itself says so
                    self._complete(source, end)

    def _complete(self, source: dict[str, Any], end: dict[str, Any]) -> None:
        table = self._table_at(end)
        if table is None:
            return
        unread = self._records.unread(table, end["snapshot"])
        source["description"] = str(table.identifier)
        source["latestOffset"] = {"snapshot": unread.next_snapshot}
        source["snapshotsBehind"] = unread.snapshots

    def _table_at(self, end: dict[str, Any]) -> LakeTable | None:
        """The table an offset is about: of several, the one that has the snapshot before it."""
        if len(self._tables) == 1:
            return self._tables[0]
        for table in self._tables:
            key = self._records.key_of(table, end["snapshot"] - 1)
            if key is not None and key == end.get("after"):
                return table
        return None


def _tables(context: ExecutionContext, query: exp.Expr) -> Iterator[LakeTable]:
    known = set()
    for reference in table_references(query):
        if find_connector(context.lake, context.session, reference.parts) is None:
            identifier = context.session.identifier(reference.parts)
            if identifier not in known:
                known.add(identifier)
                with contextlib.suppress(LakeError):  # a common table expression, or what the query's start refuses by itself
                    yield context.lake.open(identifier)
