"""What a stream gives, by a model written from Paimon's source: `DataTableStreamScan` and its starting scanners, not from ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

SHOWN = "streaming-read-append-overwrite"
DELAY = "streaming.read.snapshot.delay"
"""Of a model's stream always longer than its history."""
Row = tuple[int, int, int]
"""``id, k, p``: a number that grows, a key, a partition."""


def seconds(row: Row) -> int:
    """The event time of a row, where its table has one: the later it was written, the later it is."""
    return row[0] * 7


Windows = Counter[tuple[int, int, int]]
"""How many rows there are by begin and end in seconds, and by key."""
WINDOWS: Mapping[str, Callable[[int], list[tuple[int, int]]]] = {
    # TumblingEventTimeWindows, SlidingEventTimeWindows and Flink's CumulativeWindowAssigner
    "TUMBLE": lambda at: [(at // 60 * 60, at // 60 * 60 + 60)],
    "HOP": lambda at: [(begin, begin + 60) for begin in (at // 30 * 30, at // 30 * 30 - 30)],
    "CUMULATE": lambda at: [(at // 60 * 60, end) for end in range((at // 20 + 1) * 20, at // 60 * 60 + 61, 20)],
}
"""The windows a row of so many seconds falls into."""


def windows(kind: str, rows: Iterable[Row]) -> Windows:
    """All windows of rows, of which none is late."""
    return Counter(found for row in rows for found in ((*window, row[1]) for window in WINDOWS[kind](seconds(row))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A snapshot that was made: its kind, what it added, what the table held after it."""

    id: int
    kind: str
    millis: int
    watermark: int
    added: tuple[Row, ...]
    held: tuple[Row, ...]
    newest_files_since: int
    """No row of the table lies in a file that was made before."""
    in_place: bool = False
    """Whether an OVERWRITE wrote rows anew that were there: where Paimon's streams show them again, ours do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a stream gives of the history: the rows of its starting snapshot, of each later one, and whether it ends there."""

    parts: tuple[tuple[Row, ...], ...]
    ends: bool


class History:
    """The snapshots of a table as far as they are there; of a stream that began on the empty table all came later."""

    def __init__(self, steps: Sequence[Step], *, from_empty: bool = False) -> None:
        self._steps = {step.id: step for step in steps}
        self._from_empty = from_empty
        # Without a snapshot the starting scanner answers NoSnapshot and is asked again: at its first answer one is there.
        self._first, self._last = steps[0].id, steps[0 if from_empty else -1].id
        self.last = steps[-1].id

    def stream(self, options: Mapping[str, str]) -> Expected:
        """`tryFirstPlan`, then `nextPlan` until there is nothing or the end."""
        start, whole = self._start(options)
        bound = options.get("scan.bounded.watermark")
        parts: list[tuple[Row, ...]] = []
        if whole is not None:
            parts.append(whole)
            following = start + 1
        else:
            following = start
        before = self._steps.get(following - 1)
        ended = before is not None and self._past(before, bound)
        while not ended and following in self._steps:
            step = self._steps[following]
            if self._past(step, bound):
                ended = True
            elif DELAY in options:  # `shouldDelaySnapshot`: of nextPlan alone, and behind the bound
                break
            elif step.kind == "APPEND" or (step.kind == "OVERWRITE" and not step.in_place and options.get(SHOWN) == "true"):
                parts.append(step.added)
            following += 1
        return Expected(parts=tuple(parts), ends=ended)

    def read(self, options: Mapping[str, str]) -> tuple[Row, ...]:
        """What a batch query reads, and a stream with `scan.bounded`: a snapshot, or what was added between two."""
        match options:
            case {"scan.snapshot-id": at}:  # StaticFromSnapshotStartingScanner
                return self._steps[int(at)].held
            case {"scan.timestamp-millis": at}:  # StaticFromTimestampStartingScanner
                return self._steps[self._until(int(at))].held
            case {"incremental-between": between}:  # IncrementalDeltaStartingScanner: after the first, up to and with the last
                start, end = map(int, between.split(","))
            case {"incremental-between-timestamp": between}:
                first, last = map(int, between.split(","))
                start, end = self._until(first) if self._steps[self._first].millis <= first else self._first - 1, self._until(last)
            case _:
                return self._steps[self._last].held
        added = [step.added for step in self._steps.values() if start < step.id <= end and step.kind == "APPEND"]
        return tuple(row for rows in added for row in rows)

    def survives(self, options: Mapping[str, str], last: int) -> bool:
        """Whether a stream that began, and has read nothing, goes on after a rollback to a snapshot.

        `NextSnapshotFetcher.rangeCheck`: not where the next one would be beyond the end. Theirs have read what they read whole at once.
        """
        start, whole = self._start(options)
        return (start - 1 if whole is None else start) <= last

    @staticmethod
    def _past(step: Step, bound: str | None) -> bool:
        return bound is not None and step.watermark > int(bound)

    def _start(self, options: Mapping[str, str]) -> tuple[int, tuple[Row, ...] | None]:
        """The snapshot that is read whole and its rows; or the first whose additions are read, and None."""
        match options.get("scan.mode", "latest-full"):
            case "latest-full" | "full" | "default":  # FullStartingScanner
                return self._last, self._steps[self._last].held
            case "latest":  # ContinuousLatestStartingScanner
                return (self._first if self._from_empty else self._last + 1), None
            case "compacted-full":  # CompactedStartingScanner: pickOrLatest
                at = max((id_ for id_, step in self._steps.items() if step.kind == "COMPACT" and id_ <= self._last), default=self._last)
                return at, self._steps[at].held
            case "from-timestamp":  # ContinuousFromTimestampStartingScanner
                return self._after(int(options["scan.timestamp-millis"])), None
            case "from-snapshot":  # ContinuousFromSnapshotStartingScanner
                return max(int(options["scan.snapshot-id"]), self._first), None
            case "from-snapshot-full":  # ContinuousFromSnapshotFullStartingScanner
                at = max(int(options["scan.snapshot-id"]), self._first)
                return at, self._steps[at].held
            case "from-file-creation-time":  # FileCreationTimeStartingScanner
                return self._last, self._made_since(int(options["scan.file-creation-time-millis"]))
            case "from-creation-timestamp":  # createCreationTimestampStartingScanner
                millis = int(options["scan.creation-time-millis"])
                at = self._after(millis)
                if self._first < at <= self._last:
                    return at, None
                return self._last, self._made_since(millis)
        raise AssertionError(options)

    def _after(self, millis: int) -> int:
        """`TimeTravelUtil.earlierThanTimeMills`: the last snapshot before a time, and the one after that."""
        return max((step.id for step in self._steps.values() if step.millis < millis), default=self._first - 1) + 1

    def _until(self, millis: int) -> int:
        """`SnapshotManager.earlierOrEqualTimeMills`."""
        return max(step.id for step in self._steps.values() if step.millis <= millis)

    def _made_since(self, millis: int) -> tuple[Row, ...]:
        held = self._steps[self._last].held
        if millis <= self._steps[self._last].newest_files_since:
            return held
        later = [step for step in self._steps.values() if self._after(millis) <= step.id <= self._last]
        known = all(step.kind == "APPEND" for step in later) and millis - 1 in {step.millis for step in self._steps.values()}
        assert known, "the model knows the files of no snapshot but by what came after it"
        return tuple(row for step in later for row in step.added)
