"""Rows are made and forgotten."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sql.connectors import ConnectorScope, ConnectorTable
from sql.spark.connectors.base import SparkConnector, counted


class SparkBlackhole(SparkConnector):
    """Runs the query and keeps nothing of it."""

    def write(self, frame: DataFrame, table: ConnectorTable, scope: ConnectorScope) -> int:
        """Make the rows and forget them."""
        watched, count = counted(frame)
        watched.write.format("noop").mode("append").save()
        return count()
