"""``format("sluice")`` for PySpark ≥ 4.2: tables of a Sluice server as batch and streaming source and sink (`docs/spark.md`).

Spark finds the module by its name and takes `DefaultSource` from it; nothing is to be registered.
"""

from pyspark_sluice.source import DefaultSource as DefaultSource

__all__ = ["DefaultSource"]
