"""The driver's JVM: a process that a terminal's signals do not reach, that ends with ours, and whose words go to a file of bounded size."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import logging.handlers
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from sql.spark.driver.words import without_values
from sql.spark.session.settings import OUT_OF_MEMORY

_log = logging.getLogger(__name__)
_LOG_BYTES = 8 << 20
_LINE_BYTES = 1 << 16
_END_SECONDS = 10.0
LAUNCH_SECONDS = 180.0
"""A JVM on a busy machine needs one tenth of it."""
_LOOK_SECONDS = 1.0
_LOCK = ".lock"


class Scratch:
    """A directory for what Spark forgets: one of many under ``base``, or one among the machine's temporary files."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        if base is None:
            self.path = Path(tempfile.mkdtemp(prefix="sluice-spark-"))
            return
        base.mkdir(parents=True, exist_ok=True)
        self.path = base / uuid4().hex
        self._lock = os.open(_lock_of(self.path), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # the kernel lets go of it however this process ends
        self.path.mkdir(mode=0o700)

    def sweep(self) -> None:
        """Remove what servers that were killed left in the base, and the JVM of one, should it have got stuck."""
        for lock in [] if self._base is None else self._base.glob(f"*{_LOCK}"):
            if lock != _lock_of(self.path) and _abandoned(lock):
                directory = lock.with_name(lock.name.removesuffix(_LOCK))
                _kill_jvm(directory)
                shutil.rmtree(directory, ignore_errors=True)
                lock.unlink(missing_ok=True)

    def end_jvm(self) -> None:
        """End a JVM that works here, or is being launched: one that cannot write where it listens lives on without anybody."""
        _kill_jvm(self.path)

    def remove(self) -> None:
        """Delete it; safe to call twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._base is not None:
            _lock_of(self.path).unlink(missing_ok=True)


class Jvm:
    """A JVM we launched, and its Py4J gateway."""

    def __init__(self, conf: Mapping[str, str], log: Path | None) -> None:
        """Launch it; raises what pyspark raises where it does not come up, and `OSError` where the log cannot be written."""
        self.conf = dict(conf)
        self._directory = Path(conf["spark.local.dir"])
        """What is in it goes with the JVM."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self.out_of_memory = self._directory / OUT_OF_MEMORY
        """A file that is there once it ran out of memory."""
        self.out_of_memory.unlink(missing_ok=True)
        try:
            self.gateway = _logged(conf, log)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        self._process: subprocess.Popen[bytes] = self.gateway.proc

    def lives(self) -> bool:
        """Whether its process is there."""
        return self._process.poll() is None

    def ran_out_of_memory(self) -> bool:
        """Whether it ever did."""
        return self.out_of_memory.exists()

    def answer(self) -> object:
        """Ask it for next to nothing; comes back late, or never, from one that stands still."""
        return self.gateway.jvm.java.lang.System.nanoTime()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def lower_priority(self, niceness: int) -> None:
        """Let others go first; all its threads, those that it starts later as well."""
        for task in Path(f"/proc/{self._process.pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)

    def end(self, seconds: float = _END_SECONDS) -> None:
        """See to it that it is gone after so many seconds: it ends by itself when the pipe to it is closed, unless it is stuck."""
        last = threading.Timer(seconds, self.kill)  # one that stands still answers no goodbye, either
        last.daemon = True
        last.start()
        with contextlib.suppress(Exception):  # whatever its connections are in the middle of
            self.gateway.shutdown()
        last.cancel()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            _log.warning("Spark's JVM does not end by itself; it is killed")
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)  # files of shuffles, by the gigabyte, where it was killed


def _logged(conf: Mapping[str, str], log: Path | None) -> Any:
    """The gateway of a new JVM whose words go to a file, where one is named."""
    options: dict[str, Any] = {"start_new_session": True}
    if log is None:
        return _launched(conf, options)
    log.parent.mkdir(parents=True, exist_ok=True)
    words, out = os.pipe()
    threading.Thread(target=_keep, args=(words, log), name="spark-log", daemon=True).start()
    try:
        return _launched(conf, options | {"stdout": out, "stderr": out})
    finally:
        os.close(out)


def _launched(conf: Mapping[str, str], options: dict[str, Any]) -> Any:
    """The Py4J gateway of a new JVM; raises where it does not come up, or not in time.

    pyspark waits without an end for a file with the gateway's port. A JVM that got stuck never writes it, and one that ended with status 0,
    as on a full disk, is not noticed. So it is ended and the file put there, empty, when the time is up: then pyspark fails.
    """
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    launch: Callable[..., Any] = launch_gateway
    over = threading.Event()

    def give_up() -> None:
        while not over.wait(LAUNCH_SECONDS if not given_up else _LOOK_SECONDS):
            given_up.append(True)
            _kill_jvm(Path(conf["spark.local.dir"]))
            with contextlib.suppress(OSError, KeyError):  # a full disk takes no file yet; and what was not launched has no place for one
                Path(options["env"]["_PYSPARK_DRIVER_CONN_INFO_PATH"]).touch()

    given_up: list[bool] = []
    watcher = threading.Thread(target=give_up, name="spark-launch", daemon=True)
    watcher.start()
    try:
        return launch(SparkConf(loadDefaults=False).setAll(list(conf.items())), options)
    except Exception as problem:
        if given_up:
            raise TimeoutError(f"Spark's JVM did not come up within {LAUNCH_SECONDS:g} s.") from problem
        raise
    finally:
        over.set()
        watcher.join()


class _Log(logging.handlers.RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A full disk must not stop the JVM, which waits for whoever reads its words."""

    def close(self) -> None:
        """Nor is it told at the end: what found no space before finds none now."""
        with contextlib.suppress(OSError):
            super().close()


def _keep(words: int, path: Path) -> None:
    """Write what comes out of a pipe to a file until the other side is gone."""
    log = _Log(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    with open(words, "rb") as source, contextlib.closing(log):
        lines = (line.decode(errors="replace").rstrip("\r\n") for line in iter(partial(source.readline, _LINE_BYTES), b""))
        for line in without_values(lines):
            log.emit(logging.makeLogRecord({"msg": line}))


def _lock_of(directory: Path) -> Path:
    return directory.with_name(directory.name + _LOCK)


def _abandoned(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its owner lives, or another server was quicker to remove it
        return False
    return True


def _kill_jvm(directory: Path) -> None:
    """End the JVM that was told to work in a directory."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(directory) in word for word in process.cmdline()):
                _log.warning("Killing a JVM of Spark that nobody needs any more (process %d)", process.pid)
                process.kill()
