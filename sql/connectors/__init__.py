"""Connectors: tables whose rows lie elsewhere, declared by ``CREATE TABLE … WITH ('connector' = …)``.

A new connector is two modules of its name: here its options and what it can do, in `sql.spark.connectors` how Spark reads and writes it;
and a line in the registry of each.
"""

from __future__ import annotations

from sql.connectors.base import Bound as Bound
from sql.connectors.base import Connector, ConnectorScope, ConnectorTable
from sql.connectors.registry import CONNECTORS, check_table, connector_named, connector_table

__all__ = ["CONNECTORS", "Bound", "Connector", "ConnectorScope", "ConnectorTable", "check_table", "connector_named", "connector_table"]
