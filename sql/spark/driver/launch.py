"""Launching JVMs for Spark: each with a directory of its own, in an environment where its Python processes find our packages."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from sql.spark.driver.jvm import LAUNCH_SECONDS, Jvm
from sql.spark.driver.standby import StartedJvm
from sql.spark.scheduling.shares import allocations
from sql.spark.session.gone import load_natives
from sql.spark.session.settings import SparkSettings, configuration, is_here, python_of

_OURS = Path(__file__).parents[3]
_PYSPARK = {"spark.serializer.objectStreamReset": "100", "spark.rdd.compress": "True"}
"""What pyspark sets where a context does not say otherwise; it does not do so to a context that it is handed."""


_ELSEWHERE = frozenset({"spark.jars", "spark.jars.packages", "spark.archives", "spark.dynamicAllocation.enabled"})
"""Settings that a Spark without tables and executors does without."""


class Launcher:
    """Makes JVMs by one set of settings; ``scratch`` holds what they forget."""

    def __init__(self, settings: SparkSettings, scratch: Path) -> None:
        self._settings = settings
        self._scratch = scratch
        self._lock = threading.Lock()
        self._launches = 0

    def set_environment(self) -> None:
        """Say in this process's environment what JVMs and the Python processes of executors are to find there."""
        # Sources in Python run by the driver's name of it on executors as well.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_of(self._settings)
        if self._settings.driver_host is None and is_here(self._settings.master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # The Python processes of the JVM and of executors on this machine find our packages the way this one does.
        _put_first("PYTHONPATH", str(_OURS))
        if self._settings.archive is not None:  # by its name, the JVM starts this one as well
            _put_first("PATH", str(Path(sys.executable).parent))

    def configuration(self, java_options: Sequence[str] = ()) -> dict[str, str]:
        """All of Spark's settings, with a directory that no other JVM has, and further options of its driver's Java."""
        pools = self._scratch / "pools.xml"
        pools.write_text(allocations())
        with self._lock:
            self._launches += 1
            own = self._scratch / str(self._launches)
        return configuration(self._settings, scratch=own, pools=pools, ours=_OURS, java_options=java_options)

    def launch(self) -> Jvm:
        """A JVM without a context, with the classes that were kept."""
        classes = self._settings.classes
        options = classes.options() if classes is not None else []
        try:
            return Jvm(self.configuration(options), self._settings.log)
        except Exception:
            if classes is not None and options:
                classes.discard()  # it may not be at fault; the next attempt does without
            raise

    def launch_apart(self, java_options: Sequence[str]) -> Jvm:
        """A JVM without a context, with further options of Java, that takes nothing from anybody but a core of this machine."""
        conf = self.configuration(java_options) | {"spark.master": "local[1]", "spark.driver.memory": "1g"}
        return Jvm({key: value for key, value in conf.items() if key not in _ELSEWHERE}, self._settings.log)

    def launch_with_context(self) -> StartedJvm:
        """A JVM with a context that has run a small query, so that the classes of one are loaded; pyspark knows nothing of it yet.

        Raises what Py4J raises where it stands still meanwhile, and is killed.
        """
        java = self.launch()
        last = threading.Timer(LAUNCH_SECONDS, java.kill)
        last.daemon = True
        last.start()
        try:
            jvm = java.gateway.jvm
            conf = jvm.org.apache.spark.SparkConf(False)
            for key, value in {**_PYSPARK, **java.conf}.items():
                conf.set(key, value)
            context = jvm.org.apache.spark.api.java.JavaSparkContext(conf)
            session = jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
            session.range(0, 10, 1, 2).count()
            load_natives(java.gateway)
        except BaseException:
            java.kill()
            java.end()
            raise
        finally:
            last.cancel()
        return StartedJvm(java, context)


def _put_first(variable: str, path: str) -> None:
    known = os.environ.get(variable, "")
    os.environ[variable] = os.pathsep.join([path, *(entry for entry in known.split(os.pathsep) if entry not in ("", path))])
