"""Moments that files tell in milliseconds, as times.

Data files tell when they were made by local wall time, stored as if it were UTC (Paimon's ``DataFileMeta``).
"""

from __future__ import annotations

import datetime as dt
import time

_EPOCH = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)
_FIRST, _LAST = (dt.datetime(year, month, day, tzinfo=dt.UTC) for year, month, day in ((1, 1, 2), (9999, 12, 30)))
"""A day from the ends of the calendar, so that there is a local time in every zone."""


def utc_of(millis: int) -> dt.datetime:
    """Milliseconds since 1970 as a time in UTC; the calendar's first or last for a number beyond it, as anybody may have written one."""
    try:
        return min(max(_EPOCH.replace(tzinfo=dt.UTC) + millis * _MILLISECOND, _FIRST), _LAST)
    except OverflowError:
        return _FIRST if millis < 0 else _LAST


def local_wall_millis() -> int:
    """The local wall clock stored as if it were UTC: how Paimon records when a file was made."""
    return wall_of_epoch(time.time_ns() // 1_000_000)


def wall_of_epoch(millis: int) -> int:
    """A moment as files made then tell it."""
    offset = dt.datetime.fromtimestamp(millis / 1000).astimezone().utcoffset() or dt.timedelta()
    return millis + offset // _MILLISECOND


def epoch_of_wall(millis: int) -> int:
    """The moment a file tells of, as Java's ``creationTimeEpochMillis``: in this process's zone; what no clock shows stays as it is."""
    try:
        return round((_EPOCH + millis * _MILLISECOND).timestamp() * 1000)
    except (OverflowError, ValueError, OSError):
        return millis
