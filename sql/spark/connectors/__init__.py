"""How Spark reads and writes the tables of each connector."""

from __future__ import annotations

from sql.spark.connectors.base import SparkConnector
from sql.spark.connectors.registry import SPARK_CONNECTORS, spark_connector

__all__ = ["SPARK_CONNECTORS", "SparkConnector", "spark_connector"]
