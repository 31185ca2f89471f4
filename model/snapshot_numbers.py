"""Which numbers and times a snapshot can have, whoever wrote it: a client's commit, a file of the table's directory, a tag."""

from __future__ import annotations

import time

from model.event_time import is_far_ahead
from model.snapshot import Snapshot

CLOCK_SKEW_MILLIS = 3_600_000
"""So far a client's clock may be ahead of ours, or behind that of the one before it."""
_YEAR_10000 = 253_402_300_800_000
"""Milliseconds from 1970; no calendar here goes further."""
_MOST = 2**62
"""Of ids and counts: one more still fits 64 bits."""


def fault_of_numbers(snapshot: Snapshot) -> str | None:
    """What number of a snapshot no commit can have; None where there is none."""
    if not 0 <= snapshot.time_millis < _YEAR_10000:
        return f"its timeMillis is {snapshot.time_millis}, which is no time from 1970 to 9999"
    if not 1 <= snapshot.id < _MOST:
        return f"its id is {snapshot.id}"
    for name, number in (
        ("schemaId", snapshot.schema_id),
        ("totalRecordCount", snapshot.total_record_count),
        ("changelogRecordCount", snapshot.changelog_record_count),
        ("nextRowId", snapshot.next_row_id),
    ):
        if number is not None and not 0 <= number < _MOST:
            return f"its {name} is {number}"
    return None


def fault_of_times(snapshot: Snapshot, before: Snapshot | None) -> str | None:
    """What a snapshot tells of times that lie too far ahead of the clock, and of those that the one ``before`` it tells already."""
    now = time.time_ns() // 1_000_000
    made, mark = snapshot.time_millis, snapshot.watermark
    if made > now + CLOCK_SKEW_MILLIS and (before is None or made > before.time_millis):
        return f"its time {made} is {(made - now) // 60_000} minutes ahead of this server's clock"
    known = None if before is None else before.watermark
    if mark is not None and is_far_ahead(mark) and (known is None or mark > known):
        return f"its watermark {mark} lies more than a year ahead"
    return None
