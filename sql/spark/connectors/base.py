"""How Spark reads and writes the tables of one connector."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from model.errors import UnsupportedStatement
from sql.connectors import ConnectorScope, ConnectorTable


class SparkConnector:
    """The Spark side of a `sql.connectors.Connector`; one for all tables, without state."""

    def read(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """What is there now, under the table's columns."""
        raise UnsupportedStatement(f"{table.name}: connector {table.connector} is not read; it only takes rows.")

    def follow(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """A streaming frame of all that is there and comes, under the table's columns."""
        raise UnsupportedStatement(f"{table.name}: connector {table.connector} is not read; it only takes rows.")

    def write(self, frame: DataFrame, table: ConnectorTable, scope: ConnectorScope) -> int | None:
        """Write rows that have the table's columns, in order; a batch of a job may come twice. Returns how many, where that is known."""
        raise UnsupportedStatement(f"{table.name}: connector {table.connector} is not written by SQL.")

    def ended(self, table: ConnectorTable, offset: object) -> bool:
        """Of a table whose bound is `Bound.OFFSET`: whether nothing comes after this offset (as Spark's progress tells it, parsed)."""
        raise NotImplementedError
