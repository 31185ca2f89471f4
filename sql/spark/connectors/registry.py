"""The Spark side of each connector."""

from __future__ import annotations

from collections.abc import Mapping

from sql.connectors import ConnectorScope, ConnectorTable, check_table
from sql.spark.connectors.base import SparkConnector
from sql.spark.connectors.blackhole import SparkBlackhole
from sql.spark.connectors.datagen import SparkDatagen
from sql.spark.connectors.filesystem import SparkFilesystem
from sql.spark.connectors.kafka import SparkKafka
from sql.spark.connectors.paimon import SparkPaimon
from sql.spark.connectors.print import SparkPrint

SPARK_CONNECTORS: Mapping[str, SparkConnector] = {
    "filesystem": SparkFilesystem(),
    "kafka": SparkKafka(),
    "datagen": SparkDatagen(),
    "paimon": SparkPaimon(),
    "print": SparkPrint(),
    "blackhole": SparkBlackhole(),
}
"""By the names in `sql.connectors.CONNECTORS`."""


def spark_connector(table: ConnectorTable, scope: ConnectorScope) -> SparkConnector:
    """What reads and writes the table; raises for one that may not be used as it is."""
    check_table(table, scope)
    return SPARK_CONNECTORS[table.connector]
