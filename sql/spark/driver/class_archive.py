"""The classes that Spark's JVM loads, read and checked once and kept in a file: a JVM that maps it starts with less than half of the work.

The file is a dynamic archive of Java's class data sharing (JEP 350, Java 13 and newer). Java passes over one that was made by another Java
or with other jars, and loads its classes as ever; it does not look whether the file's bytes are those that were written, so that is done
here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from model.errors import StorageFull

_log = logging.getLogger(__name__)
MOST_BYTES = 256 << 20
"""What one may take; with Spark 4.1 it is 180 MB."""
_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Classes that cannot be kept, and a Java or a class path that has changed since, are nothing that a log needs to tell."""
_END_SECONDS = 600.0
"""A JVM of the lowest priority writes its archive as it ends."""
CALM_SECONDS = 60.0
_LOWEST_PRIORITY = 19


class Jvm(Protocol):
    """A JVM that was launched, without a context."""

    gateway: Any

    def lower_priority(self, niceness: int) -> None:
        """Let others go first."""

    def kill(self) -> None:
        """End it at once."""

    def end(self, seconds: float) -> None:
        """Let it end by itself for so many seconds, and see to it that it has."""


Launch = Callable[[Sequence[str]], Jvm]
"""Launches a JVM without a context, with further options of Java."""


class ClassArchive:
    """The archive of this machine's Java and Spark, in a directory that may hold earlier ones; safe to share among processes.

    ``space`` is entered with the bytes that a new archive may take, and raises `StorageFull` where they are not to be had.
    """

    def __init__(self, directory: Path, *, space: Callable[[int], AbstractContextManager[None]] = lambda size: nullcontext()) -> None:
        self._directory = directory
        self._space = space
        self._lock = threading.Lock()
        self._java: Jvm | None = None
        """One that makes an archive."""
        self._waiting = False
        self._closed = False

    def path(self) -> Path | None:
        """The archive, where there is one that nobody changed; one that was changed is removed."""
        for archive in self._archives():
            with contextlib.suppress(OSError):
                if archive.stem.rpartition("-")[2] == _digest(archive):
                    return archive
                archive.unlink()
        return None

    def _archives(self) -> Iterator[Path]:
        """By their names those of this Java and Spark."""
        return self._directory.glob(f"spark-{_key()}-*.jsa")

    def options(self) -> list[str]:
        """What a JVM is started with to use the archive: nothing where there is none."""
        archive = self.path()
        return [] if archive is None else [*_QUIETLY, f"-XX:SharedArchiveFile={archive}"]

    def discard(self) -> None:
        """Remove the archive: a JVM that used it did not come up."""
        for archive in self._directory.glob("spark-*.jsa"):
            archive.unlink(missing_ok=True)

    def make_when_calm(self, launch: Launch, stopping: threading.Event, calm: Callable[[], bool]) -> None:
        """Make the archive where there is none, once Spark has had nothing to do for a moment; returns at once."""
        with self._lock:
            if self._waiting or any(self._archives()):
                return
            self._waiting = True
        threading.Thread(target=self._make_when_calm, args=(launch, stopping, calm), name="spark-classes", daemon=True).start()

    def _make_when_calm(self, launch: Launch, stopping: threading.Event, calm: Callable[[], bool]) -> None:
        while not stopping.wait(CALM_SECONDS):
            if calm() and self._tried(launch):
                return

    def _tried(self, launch: Launch) -> bool:
        """Make it; False where it can be tried later."""
        try:
            self.make(launch)
        except StorageFull:
            return False
        except Exception as problem:  # without it a start takes longer, and nothing else is different
            if not self._closed:
                _log.warning("The classes of Spark's JVM could not be kept: %s", type(problem).__name__, exc_info=True)
        return True

    def make(self, launch: Launch) -> None:
        """Make it unless somebody else does so now: a JVM of the lowest priority runs a little of everything.

        Raises `StorageFull`, `OSError` and what Py4J raises.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._alone() as alone:
            if not alone:
                return
            for left in self._directory.glob("*.new"):  # by one that was killed
                shutil.rmtree(left, ignore_errors=True)
            own = self._directory / f"{uuid4().hex}.new"
            own.mkdir()
            try:
                with self._space(MOST_BYTES):
                    self._keep(self._written(launch, own))
            finally:
                shutil.rmtree(own, ignore_errors=True)

    def _written(self, launch: Launch, own: Path) -> Path:
        written = own / "classes.jsa"
        java = launch([*_QUIETLY, f"-XX:ArchiveClassesAtExit={written}"])
        try:
            with self._lock:
                if self._closed:
                    raise InterruptedError("the server stops")
                self._java = java
            java.lower_priority(_LOWEST_PRIORITY)
            _run_a_little(java.gateway, own)
        except BaseException:
            java.kill()
            raise
        finally:
            java.end(_END_SECONDS)
            with self._lock:
                self._java = None
        return written

    def _keep(self, written: Path) -> None:
        with written.open("rb") as file:
            os.fsync(file.fileno())
        for old in self._directory.glob("spark-*.jsa"):  # of another Java or Spark, or of the same: this one is as good
            old.unlink(missing_ok=True)
        written.replace(self._directory / f"spark-{_key()}-{_digest(written)}.jsa")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether nobody else makes an archive here; nobody else begins to within the block."""
        with (self._directory / "making.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def close(self) -> None:
        """Make none any more; one that is being made is given up."""
        with self._lock:
            self._closed = True
            if self._java is not None:
                self._java.kill()


_QUERIES = (
    "SELECT k, count(*), sum(id), max(s) FROM t WHERE id > 3 GROUP BY k ORDER BY k",
    "SELECT a.k, b.s FROM t a JOIN t b USING (id) WHERE a.k IN (SELECT k FROM t WHERE id < 9) LIMIT 10",
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t",
)


def _run_a_little(gateway: Any, directory: Path) -> None:
    """What most statements need of Spark: a context, files, a join, groups, a window, results in Arrow's format."""
    jvm = gateway.jvm
    session = jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
    table = str(directory / "table")
    session.range(0, 1000, 1, 2).selectExpr(_array(gateway, "id", "id % 7 AS k", "CAST(id AS STRING) AS s")).write().parquet(table)
    session.read().parquet(_array(gateway, table)).createOrReplaceTempView("t")
    for query in _QUERIES:
        session.sql(query).collectAsArrowToPython()
    session.stop()


def _array(gateway: Any, *texts: str) -> Any:
    array = gateway.new_array(gateway.jvm.java.lang.String, len(texts))
    for place, text in enumerate(texts):
        array[place] = text
    return array


def _key() -> str:
    """What the archive depends on: the Java that runs and Spark's jars, by their places and times of change."""
    home = os.environ.get("JAVA_HOME")
    java = Path(os.path.realpath(Path(home, "bin", "java") if home else shutil.which("java") or "java"))
    parts = [_place_and_time(java), _place_and_time((spark_home() / "jars").resolve())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def spark_home() -> Path:
    """Where the Spark lies that pyspark launches."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def _place_and_time(path: Path) -> str:
    try:
        return f"{path} {path.stat().st_mtime_ns}"
    except OSError:
        return str(path)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:32]
