"""How much maintenance, and running jobs, may take; the server's options fill it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from model.options.option import Parser


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceLimits:
    """What automatic compaction and retention may use."""

    enabled: bool = True
    jobs: int = 1
    """Tables worked on at the same time."""
    job_bytes: int = 2 << 30
    """Input of one merge at most."""
    interval: float = 2.0
    """Seconds between two looks at the catalog."""
    patience: float = 60.0
    """Seconds after which the few small files of a partition nothing comes to any more are merged, however few they are."""
    quiet: tuple[dt.time, dt.time] | None = None
    """Local time during which no compaction begins."""

    def quiet_now(self, now: dt.time) -> bool:
        """Whether compactions wait."""
        if self.quiet is None:
            return False
        begin, end = self.quiet
        return begin <= now < end if begin <= end else now >= begin or now < end


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """What jobs may use on one server."""

    most: int = 8
    """Jobs run at the same time; the others wait for another server, or for their turn."""
    checkpoints: str | None = None
    """Where checkpoints lie; in the warehouse without it."""
    kept_days: int = 30
    """For so long a job that has ended is shown, and can be started again."""

    def checkpoint(self, warehouse: str, job: str) -> str:
        """Where a job's checkpoint lies."""
        return f"{(self.checkpoints or f'{warehouse}/.sluice/jobs').rstrip('/')}/{job}"


def hours() -> Parser[tuple[dt.time, dt.time]]:
    """``22:00-06:00``."""

    def parse(raw: str) -> tuple[dt.time, dt.time]:
        begin, dash, end = raw.partition("-")
        try:
            if not dash:
                raise ValueError
            return dt.time.fromisoformat(begin.strip()), dt.time.fromisoformat(end.strip())
        except ValueError:
            raise ValueError("two times of day such as 08:00-20:00 are expected") from None

    return Parser("hours", parse, lambda value: f"{value[0]:%H:%M}-{value[1]:%H:%M}")
