"""Which process runs a Postgres cluster: its pid file names one, which may be somebody else after a restart of the machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil


def pid_lines(directory: Path) -> list[str]:
    """What the cluster's pid file says; nothing where there is none."""
    try:
        return (directory / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def pid_is_alive(directory: Path) -> bool:
    """Whether the process that the pid file names is there; changes nothing, for any thread at any time."""
    lines = pid_lines(directory)
    return bool(lines) and lines[0].strip().isdecimal() and psutil.pid_exists(int(lines[0]))


def running_postmaster(directory: Path) -> psutil.Process | None:
    """The postmaster of the cluster, where one runs; a pid file that names somebody else, as after a restart of the machine, is removed."""
    lines = pid_lines(directory)
    if not lines or not lines[0].strip().isdecimal():
        return None
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(int(lines[0]))
        if process.status() != psutil.STATUS_ZOMBIE and "postgres" in process.name() and _works_in(process, directory):
            return process
    (directory / "postmaster.pid").unlink(missing_ok=True)
    return None


def left_of(directory: Path) -> list[psutil.Process]:
    """Processes of a cluster whose postmaster was killed: each ends by itself when it notices, and until then holds files and memory."""
    left = []
    for process in psutil.process_iter(["name", "cwd"]):  # None where they are another user's
        with contextlib.suppress(OSError):  # its directory may be gone
            if "postgres" in (process.info["name"] or "") and os.path.samefile(process.info["cwd"] or "", directory):
                left.append(process)
    return left


def _works_in(process: psutil.Process, directory: Path) -> bool:
    try:
        return os.path.samefile(process.cwd(), directory)
    except (psutil.AccessDenied, OSError):  # another user's: its name must do
        return True
