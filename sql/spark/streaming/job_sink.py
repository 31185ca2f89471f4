"""Where the rows of a job's INSERT go: into a table, or to what a connector stands for."""

from __future__ import annotations

from pyspark.sql import DataFrame
from sqlglot import exp

from lake import LakeTable
from model.errors import InvalidOption
from sql.analysis.views import sources_of
from sql.connectors import ConnectorTable
from sql.execution.session_settings import BAD_ROWS
from sql.spark.connectors import spark_connector
from sql.spark.streaming.bad_rows import bad_rows_of, given, tried
from sql.spark.streaming.streams import StartPositions
from sql.spark.write.assign import assigned, literals
from sql.statements.base import ExecutionContext
from sql.statements.insert import Target, connector_sink, sink_columns, sink_schema, source_of, target_of


class JobSink:
    """Where the rows go."""

    def __init__(self, context: ExecutionContext, insert: exp.Insert, starts: StartPositions) -> None:
        """``starts`` keep which table it is."""
        self.context = context
        self._starts = starts
        self.insert = insert
        self.connector: ConnectorTable | None = connector_sink(context, insert)
        aside = self.aside()
        self.sifts = aside is not None
        if aside is not None and (self.connector is not None or aside.table.table_id == target_of(context, insert).table.table_id):
            raise InvalidOption(f"'{BAD_ROWS.key}' is for jobs into tables without a connector, and names another table than theirs.")

    def target(self) -> Target:
        """The table as it is now; raises `JobTableReplaced` where it is not the one that the job began with."""
        target = target_of(self.context, self.insert)
        self._starts.into(target.table)
        return target

    def aside(self) -> Target | None:
        """The table for rows that do not fit, where there is one; raises as `target`, and what keeps them from being written there."""
        aside = bad_rows_of(self.context)
        if aside is not None:
            self._starts.aside(aside.table)
        return aside

    def tables(self) -> list[LakeTable]:
        """Both: a batch of bad rows alone is told by the snapshots of their table only."""
        return [each.table for each in (self.target(), self.aside()) if each is not None]

    def query(self) -> exp.Expr:
        """What gives the rows."""
        query = source_of(self.insert)
        return tried(query) if self.sifts else query

    def check_apart(self) -> None:
        """Raise `InvalidOption` for a job that would read the bad rows it puts aside."""
        aside, session = self.aside(), self.context.session
        if aside is None:
            return
        sources = {session.meant(reference.parts) for reference in sources_of(self.context, source_of(self.insert))}
        if aside.table.identifier in sources:
            raise InvalidOption(
                f"'{BAD_ROWS.key}' = '{aside.table.identifier}': the job reads this table, and its bad rows would come again for ever. "
                "Name another table."
            )

    def check(self, frame: DataFrame) -> None:
        self._fitted(given(frame) if self.sifts else frame)

    def _fitted(self, frame: DataFrame) -> DataFrame:
        if self.connector is not None:
            return assigned(frame, sink_schema(self.connector), sink_columns(self.insert), {}, self.connector.name)
        target = self.target()
        return assigned(frame, target.table.schema, target.columns, literals(target.fixed), str(target.table.identifier))

    def pass_on(self, frame: DataFrame) -> int:
        """Hand the rows to the connector."""
        assert self.connector is not None
        scope = self.context.connector_scope
        return spark_connector(self.connector, scope).write(self._fitted(frame), self.connector, scope)
