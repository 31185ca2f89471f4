"""What one table keeps, enforced beside its compaction: a long expiry must not keep small files waiting."""

from __future__ import annotations

import math
import time
from uuid import UUID

from lake import Lake
from lake.rewrite.maintenance import maintain
from model.identifier import Identifier
from model.options.table import TABLE_OPTIONS

_PAUSE_SECONDS = 10.0
_TICK_SECONDS = 60.0
_BY_THE_CLOCK = (
    "tag.automatic-creation", "partition.expiration-time", "partition.idle-time-to-done", "tag.default-time-retained",
    "consumer.expiration-time",
)  # fmt: skip
"""Options whose work falls due without a commit."""


class Retention:
    """When a table was last looked at for what is too old, and the looking; used by one thread at a time."""

    def __init__(self, lake: Lake, table_id: UUID, identifier: Identifier) -> None:
        self._lake = lake
        self._table_id = table_id
        self.identifier = identifier
        self.failures = 0
        """How often in a row it failed."""
        self._at = 0.0
        self._partitions_at = 0.0
        self._kept: str | None = None
        self._ticks = False

    def due(self, now: float, seen: str | None) -> bool:
        """Whether there is something to look at: commits since the last time, or what falls due by the clock."""
        if seen is None:
            return False
        waited = now - self._at
        return not self._at or (self._kept != seen and waited >= _PAUSE_SECONDS) or (self._ticks and waited >= _TICK_SECONDS)

    def settled_for(self, now: float, seen: str) -> float | None:
        """For how many seconds nothing falls due unless something is committed; None where it is not known that nothing is."""
        if self._kept != seen:
            return None
        return max(0.0, self._at + _TICK_SECONDS - now) if self._ticks else math.inf

    def work(self, identifier: Identifier, seen: str | None) -> None:
        """Let go what is too old as of a snapshot."""
        self.identifier = identifier
        table = self._lake.open(identifier)
        if table.table_id != self._table_id:
            return
        now = self._at = time.monotonic()  # also where it fails: what makes trouble is not tried at every round
        options = table.schema.options
        interval = TABLE_OPTIONS.read(options, "partition.expiration-check-interval").total_seconds()
        partitions_due = not self._partitions_at or now - self._partitions_at >= interval
        done = maintain(self._lake, table, partitions_due=partitions_due)
        self._ticks = any(options.get(key, "none").lower() != "none" for key in _BY_THE_CLOCK)
        if done.waits:
            return
        self._kept = seen
        if partitions_due:
            self._partitions_at = now
