"""What pyspark holds of a Spark that is gone, and whether one is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def forget_gateway() -> None:
    """pyspark keeps a dead JVM's gateway; without forgetting it no new one is started (`gateway.md` 6.6)."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None  # leftovers of the dead JVM; there is no public way
    SparkSession._instantiatedSession = None


def state_of(root: SparkSession) -> str:
    """``alive``; ``stopped`` for a JVM whose context ended, as one without its master does; ``dead`` for no JVM at all."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return "alive" if root.sparkContext.defaultParallelism else "stopped"  # asks the JVM, and starts no job
    except (Py4JJavaError, PySparkException):
        return "stopped"
    except Exception:  # py4j and sockets have many names for a peer that is gone
        return "dead"


def stop_in_any_case(root: SparkSession) -> None:
    """Stop a session's context, which may be gone already."""
    with contextlib.suppress(Exception):  # where the JVM is gone, stopping tidies the Python side only
        root.stop()
