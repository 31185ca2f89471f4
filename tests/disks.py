"""Disks of a test's own: small ones, full ones, and ones that may only be read."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

MEGABYTE = 1 << 20
PAGE = 4096
_BUSY_SECONDS = 60.0


@contextlib.contextmanager
def mounted(directory: Path, *, megabytes: int) -> Iterator[Path]:
    """A file system of so many megabytes, mounted at a directory that is made; the test is skipped where that is not allowed."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    if os.getuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("Only root can mount a disk: one that is full or may only be read is not tried.")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@contextlib.contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """A block in which nothing can be written to a mounted disk."""
    _remount(disk, "ro")
    try:
        yield
    finally:
        _remount(disk, "rw")


def _remount(disk: Path, how: str) -> None:
    """Raise `subprocess.CalledProcessError` where it cannot be; it may have to wait until nobody is writing there just now."""
    until = time.monotonic() + _BUSY_SECONDS
    while (done := subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], capture_output=True)).returncode:
        if time.monotonic() > until:
            done.check_returncode()
        time.sleep(0.01)


def with_inodes(disk: Path, left: int) -> None:
    """Let a mounted disk hold so many files more."""
    _remount(disk, f"nr_inodes={(stat := os.statvfs(disk)).f_files - stat.f_ffree + left}")


def fill(ballast: Path, *, leave: int) -> None:
    """Let a file take its disk but for so many bytes."""
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while (free := shutil.disk_usage(ballast.parent).free) > leave and file.write(b"x" * min(MEGABYTE, free - leave)):
            pass
