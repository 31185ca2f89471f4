"""ORC files are decoded beside the process that reads them, so that a damaged one cannot end it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from server.settings.options import ROWS_WORKER_MEMORY, ROWS_WORKER_SECONDS, ROWS_WORKERS
from server.settings.settings import Settings
from workers.orc import OrcProcesses
from workers.pool import WorkerLimits


def worker_limits(settings: Settings) -> WorkerLimits:
    """What processes that decode may take."""
    return WorkerLimits(count=settings[ROWS_WORKERS], memory_bytes=settings[ROWS_WORKER_MEMORY], seconds=settings[ROWS_WORKER_SECONDS])


@contextlib.contextmanager
def orc_decoded_beside(settings: Settings) -> Iterator[None]:
    """While in force, this process decodes no ORC file itself."""
    processes = OrcProcesses(worker_limits(settings), settings.warehouse)
    processes.begin()
    try:
        yield
    finally:
        processes.close()
