"""Names of server processes by which another can tell that one is dead: it ran where this one runs, and runs no more."""

from __future__ import annotations

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

import psutil


@cache
def process_space() -> str:
    """Where a process id means the same process: this machine since its start and, in a container, the container's ids.

    The host's name alone does not say it: machines made from one image share it, and so do containers.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        ids = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        boot, ids = str(int(psutil.boot_time())), ""
    return f"{socket.gethostname()}.{hashlib.sha256(f'{boot} {ids}'.encode()).hexdigest()[:8]}"


def is_dead(space: str, pid: int) -> bool:
    """Whether a process that ran here runs no more; False for one elsewhere, of which nothing is known.

    Our own id belonged to a former life.
    """
    if space != process_space():
        return False
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
