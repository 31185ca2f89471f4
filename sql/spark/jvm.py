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
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

_log = logging.getLogger(__name__)
_LOG_BYTES = 8 << 20
_LINE_BYTES = 1 << 16
_END_SECONDS = 10.0
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

    def remove(self) -> None:
        """Delete it; safe to call twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._base is not None:
            _lock_of(self.path).unlink(missing_ok=True)


class Jvm:
    """A JVM we launched, and its Py4J gateway."""

    def __init__(self, conf: Mapping[str, str], log: Path | None) -> None:
        """Launch it; raises what pyspark raises where it does not come up, and `OSError` where the log cannot be written."""
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        launch: Callable[..., Any] = launch_gateway
        if log is None:
            self.gateway = launch(settings, {"start_new_session": True})
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            words, out = os.pipe()
            threading.Thread(target=_keep, args=(words, log), name="spark-log", daemon=True).start()
            try:
                self.gateway = launch(settings, {"start_new_session": True, "stdout": out, "stderr": out})
            finally:
                os.close(out)
        self._process: subprocess.Popen[bytes] = self.gateway.proc

    def end(self) -> None:
        """See to it that it is gone: it ends by itself when the pipe to it is closed, unless it is stuck."""
        with contextlib.suppress(Exception):  # whatever its connections are in the middle of
            self.gateway.shutdown()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            _log.warning("Spark's JVM does not end by itself; it is killed")
            self._process.kill()
            self._process.wait()


class _Log(logging.handlers.RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A full disk must not stop the JVM, which waits for whoever reads its words."""


def _keep(words: int, path: Path) -> None:
    """Write what comes out of a pipe to a file until the other side is gone."""
    log = _Log(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    with open(words, "rb") as source, contextlib.closing(log):
        while line := source.readline(_LINE_BYTES):
            log.emit(logging.makeLogRecord({"msg": line.decode(errors="replace").rstrip("\r\n")}))


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
            if "java" in process.name() and any(str(directory) in word for word in process.cmdline()):
                _log.warning("Killing the Spark of a server that was killed (process %d)", process.pid)
                process.kill()
