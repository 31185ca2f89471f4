"""Sources of one alignment group wait for each other: who is too far ahead lets its next micro-batch wait."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from lake import Lake
from lake.job_records import JobRecords
from model.errors import InvalidOption, LakeError
from model.options.option import duration

_GROUP = "scan.watermark.alignment.group"
_DRIFT = "scan.watermark.alignment.max-drift"
_INTERVAL = "scan.watermark.alignment.update-interval"
_IDLE = "scan.watermark.idle-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentRule:
    """What a source's options say."""

    group: str
    drift: timedelta
    interval: timedelta
    idle: timedelta | None
    """After so long without progress a source holds nobody back."""


def rule_of(options: Mapping[str, str]) -> AlignmentRule | None:
    """The rule in a table's options and its hint's; raises `InvalidOption` for a group without its drift."""
    if _GROUP not in options:
        return None
    if _DRIFT not in options:
        raise InvalidOption(f"'{_GROUP}' needs '{_DRIFT}', such as '30 s'.")
    span = duration().parse
    return AlignmentRule(
        group=options[_GROUP],
        drift=span(options[_DRIFT]),
        interval=span(options.get(_INTERVAL, "1 s")),
        idle=idle_timeout(options),
    )


def idle_timeout(options: Mapping[str, str]) -> timedelta | None:
    """After how long without anything a source, or a partition of it, holds nobody back; None where it does forever."""
    idle = options.get(_IDLE)
    return None if idle is None else duration().parse(idle)


class Alignment:
    """One query's part in its group: how far it is, and whether it may go on."""

    def __init__(self, lake: Lake, rule: AlignmentRule, job_id: UUID, part: str) -> None:
        self._records = JobRecords(lake.catalog)
        self._rule = rule
        self._me = (str(job_id), part)
        self._watermark: int | None = None
        self._rested_at: float | None = None
        """When the last batch ended, by this process's own seconds; None while one is in flight, and before the first."""
        self._idle_at: tuple[float, float] | None = None
        """Of which rest, and when that makes the source idle by the clock of Postgres: members are on servers whose clocks differ."""

    def advance(self, watermark: int | None) -> None:
        """Note how far the query is, in milliseconds since 1970."""
        if watermark is not None and (self._watermark is None or watermark > self._watermark):
            self._watermark = watermark

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """While one is in flight the source has rows, and is not idle, however long they take."""
        self._rested_at = None
        try:
            yield
        finally:
            self._rested_at = time.monotonic()

    def told(self, *, over: bool) -> dict[str, Any]:
        """What the others are to know; it goes into the job's progress. ``over``: nothing more comes, so that nobody is held back."""
        watermark = None if over else self._watermark
        return {"group": self._rule.group, "watermark": watermark, "idleAt": self._becomes_idle()}

    def _becomes_idle(self) -> float | None:
        """When the source counts as idle if nothing comes, in seconds since 1970; None for never, and while that is not known."""
        rested_at = self._rested_at
        if self._rule.idle is None or rested_at is None:
            return None
        if self._idle_at is None or self._idle_at[0] != rested_at:
            try:
                now = self._records.clock()
            except LakeError:
                return None  # Postgres is away: it could not be told this either
            self._idle_at = rested_at, now - (time.monotonic() - rested_at) + self._rule.idle.total_seconds()
        return self._idle_at[1]

    def wait(self, stopping: Callable[[], bool]) -> None:
        """Return when the query is no further ahead of the slowest of its group than it may be, or is to stop."""
        while self._watermark is not None and not stopping():
            slowest = self._slowest()
            if slowest is None or self._watermark <= slowest + self._rule.drift / timedelta(milliseconds=1):
                return
            time.sleep(self._rule.interval.total_seconds())

    def _slowest(self) -> int | None:
        try:
            members = self._records.watermarks(self._rule.group)
        except LakeError:
            return None  # Postgres is away: nothing could be committed either
        return min((watermark for job_id, part, watermark in members if (job_id, part) != self._me), default=None)
