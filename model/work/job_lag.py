"""How far a job's sources are ahead of it, by unit: snapshots of tables, records of topics."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PART = re.compile(r"(\d+) (snapshots|records)")


@dataclass(frozen=True, slots=True)
class JobLag:
    """The sum over all sources of a unit; None where no source tells it in that unit."""

    snapshots: int | None = None
    records: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> JobLag | None:
        """What `__str__` wrote, or an earlier version with a part for each source; None where no source tells."""
        sums: dict[str, int] = {}
        for count, unit in _PART.findall(text or ""):
            sums[unit] = sums.get(unit, 0) + int(count)
        return cls(**sums) if sums else None

    def __str__(self) -> str:
        """As jobs show and store it: ``3 snapshots, 120 records``."""
        return ", ".join(f"{count} {unit}" for unit, count in self.by_unit().items())

    def __add__(self, other: JobLag) -> JobLag:
        """Both together."""
        return JobLag(_sum(self.snapshots, other.snapshots), _sum(self.records, other.records))

    def by_unit(self) -> dict[str, int]:
        """The count of each unit that is told."""
        counts = {"snapshots": self.snapshots, "records": self.records}
        return {unit: count for unit, count in counts.items() if count is not None}


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def farthest(lags: list[JobLag]) -> JobLag | None:
    """The most of each unit among jobs."""
    snapshots = max((lag.snapshots for lag in lags if lag.snapshots is not None), default=None)
    records = max((lag.records for lag in lags if lag.records is not None), default=None)
    return None if snapshots is None and records is None else JobLag(snapshots, records)
