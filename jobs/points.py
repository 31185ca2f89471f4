"""How far jobs were, over the last hour: points taken now and then, for pictures of their rate and lag."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from catalog import CatalogStore
from model.errors import LakeError
from model.work.job_lag import JobLag

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 5.0
_KEPT = 720
"""An hour."""


@dataclass(frozen=True, slots=True)
class JobPoint:
    """A job at one moment."""

    at: float
    """Seconds since 1970."""
    batches: int
    rows: int
    lag: JobLag | None


class JobPoints:
    """Looks at all jobs of the catalog, whichever server runs them, and keeps what it saw in memory."""

    def __init__(self, catalog: CatalogStore, *, every: float = _EVERY_SECONDS, kept: int = _KEPT) -> None:
        self._catalog = catalog
        self._every = every
        self._most = kept
        self._points: dict[UUID, deque[JobPoint]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-job-points", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def look(self) -> None:
        """Take one point of each job; jobs that ended keep theirs until they are an hour old."""
        now = time.time()
        with self._catalog.reading() as tx:
            figures = tx.jobs.figures()
        points = dict(self._points)
        for job_id, batches, rows, lag in figures:
            history = points.setdefault(job_id, deque(maxlen=self._most))
            history.append(JobPoint(now, batches, rows, lag))
        oldest = now - self._every * self._most
        self._points = {job_id: history for job_id, history in points.items() if history and history[-1].at >= oldest}

    def of(self, job_id: UUID) -> Sequence[JobPoint]:
        """A job's points, oldest first."""
        return tuple(self._points.get(job_id, ()))

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self.look()
            except LakeError as problem:
                _log.debug("Jobs could not be looked at: %s", problem.message)
            except Exception:  # pictures are drawn as long as the server lives
                _log.exception("A look at the jobs failed")


def rate(points: Sequence[JobPoint], *, seconds: float = 60.0) -> float | None:
    """Rows a second over the last so many seconds of the points; None where there are too few to tell."""
    if len(points) < 2:
        return None
    last = points[-1]
    first = next(point for point in points if point.at >= last.at - seconds)
    return (last.rows - first.rows) / (last.at - first.at) if last.at > first.at else None
