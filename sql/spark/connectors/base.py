"""How Spark reads and writes the tables of one connector."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

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

    def ends_event_time(self, table: ConnectorTable) -> bool:
        """Whether `follow` ends with a row that ends event time (`END_OF_TIME`) and is none of the table's."""
        return False

    def partitions(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> list[str]:
        """Names of the partitions there are whose rows each come in an order of their own; `follow` tells them in `PARTITION`."""
        return []

    def write(self, frame: DataFrame, table: ConnectorTable, scope: ConnectorScope) -> int:
        """Write rows that have the table's columns (but VIRTUAL ones) and types, and return how many; a batch of a job may come twice."""
        raise UnsupportedStatement(f"{table.name}: connector {table.connector} is not written by SQL.")


def counted(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The frame, and what tells how many rows it had once it has been written."""
    observation = Observation()
    return frame.observe(observation, F.count(F.lit(1)).alias("rows")), lambda: int(observation.get["rows"])
