"""What pyspark holds of a Spark that is gone, and whether one is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NATIVES = (
    ("org.xerial.snappy.Snappy", "getNativeLibraryVersion"),
    ("com.github.luben.zstd.util.Native", "load"),
    ("net.jpountz.lz4.LZ4Factory", "fastestInstance"),
)
"""The codecs that are unpacked to a file, and what of them has them unpacked."""


def forget_gateway() -> None:
    """pyspark keeps a dead JVM's gateway; without forgetting it no new one is started (`gateway.md` 6.6)."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None  # leftovers of the dead JVM; there is no public way
    SparkSession._instantiatedSession = None


def load_natives(gateway: Any) -> None:
    """Have a JVM unpack its codecs of files and shuffles; raises what Java raises where one cannot be.

    Each is unpacked when it is first used, and a class that failed then, as on a full disk, fails as long as its JVM lives. A codec that
    Spark does not have is left out.
    """
    for path, method in _NATIVES:
        codec = gateway.jvm
        for name in path.split("."):
            codec = getattr(codec, name)
        if type(codec).__name__ == "JavaClass":  # and a package where there is no class of that name
            getattr(codec, method)()


def state_of(root: SparkSession, gateway: Any) -> str:
    """What became of a Spark.

    ``alive``; ``stopped`` for a JVM whose context ended, as one without its master does; ``stuck`` for one that lost classes for good;
    ``dead`` for no JVM at all.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        if not root.sparkContext.defaultParallelism:  # asks the JVM, and starts no job
            return "stopped"
    except (Py4JJavaError, PySparkException):
        return "stopped"
    except Exception:  # py4j and sockets have many names for a peer that is gone
        return "dead"
    try:
        load_natives(gateway)
    except Py4JJavaError:
        return "stuck"
    except Exception:
        return "dead"
    return "alive"


def stop_in_any_case(root: SparkSession) -> None:
    """Stop a session's context, which may be gone already."""
    with contextlib.suppress(Exception):  # where the JVM is gone, stopping tidies the Python side only
        root.stop()
