"""Tags: snapshots kept under a name (`paimon-append.md` §1.3)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.snapshot import Snapshot

CREATED, RETAINED = "tagCreateTime", "tagTimeRetained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A snapshot with a name, and how long it keeps it."""

    name: str
    snapshot: Snapshot
    created_millis: int | None = None
    """When it was made, local time stored as if it were UTC; None where it was made without a time to live."""
    retained_seconds: float | None = None

    def expired(self, now: dt.datetime) -> bool:
        """Whether its time is over; ``now`` is local time."""
        if self.created_millis is None or self.retained_seconds is None:
            return False
        return now > dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=self.created_millis, seconds=self.retained_seconds)


def tag_from_json(name: str, body: Mapping[str, Any]) -> Tag:
    """Read a tag file's JSON."""
    plain = {key: value for key, value in body.items() if key not in (CREATED, RETAINED)}
    created = body.get(CREATED)
    retained = body.get(RETAINED)
    return Tag(
        name=name,
        snapshot=Snapshot.from_json(plain),
        created_millis=None if created is None else _millis(created),
        retained_seconds=None if retained is None else float(retained),
    )


def tag_body(snapshot: Mapping[str, Any], *, retained: dt.timedelta | None, now: dt.datetime) -> dict[str, Any]:
    """A tag file's JSON: the snapshot's, with the two fields of a tag that will end."""
    if retained is None:
        return dict(snapshot)
    parts = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
    return {**snapshot, CREATED: parts, RETAINED: retained.total_seconds()}


def _millis(parts: list[int]) -> int:
    """Java's local date and time as a list; what is zero at its end may be missing."""
    year, month, day, hour, minute, second, nanos = [*parts, 0, 0, 0, 0][:7]
    moment = dt.datetime(year, month, day, hour, minute, second, nanos // 1000)
    return int((moment - dt.datetime(1970, 1, 1)) / dt.timedelta(milliseconds=1))
