"""Tables of other REST catalogs, by our own data source."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sql.connectors import ConnectorScope, ConnectorTable, connector_named
from sql.connectors.paimon import TABLE, TOKEN, URI, scan_options
from sql.spark.connectors.base import SparkConnector


class SparkPaimon(SparkConnector):
    """Reads with ``format("sluice")``."""

    def read(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """The table's latest snapshot, or the one its options mean."""
        return _loaded(session.read, table, scope)

    def follow(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """Its rows, and every new one."""
        return _loaded(session.readStream, table, scope)


def _loaded(reader: Any, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
    connector_named(table.connector).check(table, scope)  # what is trusted may have changed since the table was made
    reader = reader.format("sluice").option("uri", URI.read(table.options)).options(**scan_options(table))
    reader = reader.option("timeZone", scope.zone)
    token = TOKEN.read(table.options)
    if token is not None:
        reader = reader.option("token", token)
    loaded: DataFrame = reader.load(TABLE.read(table.options))
    return loaded
