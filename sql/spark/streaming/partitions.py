"""Partitions of a topic, each with an event time of its own: a stream's watermark is that of the slowest that is not idle."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from model.errors import LakeError, Unavailable
from sql.execution.spool import Spool

PARTITION = "__sluice_partition"
"""The hidden column of a topic's rows that says where they come from, as `name_of` does."""


def name_of(topic: str, partition: int | str) -> str:
    """How a partition is called, as Kafka's tools call it."""
    return f"{topic}-{partition}"


def names_in(offsets: Any) -> dict[str, int]:
    """The partitions that a Kafka source's offset in Spark's progress holds, and where each stands; none of another source's."""
    positions: dict[str, int] = {}
    with contextlib.suppress(ValueError):
        offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
    if isinstance(offsets, Mapping):
        for topic, places in offsets.items():
            if isinstance(places, Mapping):
                positions |= {name_of(topic, partition): at for partition, at in places.items() if isinstance(at, int)}
    return positions


class Partitions:
    """Those that one mention of a topic has, and since when which of them is idle."""

    def __init__(self, names: Sequence[str], idle: timedelta | None, spool: Spool, *, now: Callable[[], float] = time.monotonic) -> None:
        self.names = tuple(names)
        self._idle = idle.total_seconds() if idle else None  # no time at all means never, as Flink's
        self._now = now
        self._moved = dict.fromkeys(self.names, (-1, now()))
        self._told = "0" * len(self.names)
        self._added: str | None = None
        self._lock = threading.Lock()
        self._io = spool.file_io
        self._entry = spool.new() if self._idle is not None else None
        self._file = ""
        if self._entry is not None:
            place = self._entry.path
            self._file = f"{place}/idle"
            self._io.write(self._file, self._told.encode())

    def idle(self, session: SparkSession) -> list[Column] | None:
        """For each partition whether it is idle, as was known when a micro-batch began; None where none ever is.

        A file of always the same length tells it to the running query: Spark lists a file once, and reads it anew in each batch.
        """
        if self._entry is None:
            return None
        flags = session.read.schema("value string").text(self._file).select("value").scalar()
        return [F.substring(flags, at + 1, 1) == F.lit("1") for at in range(len(self.names))]

    def look(self, progress: Mapping[str, Any] | None) -> None:
        """Learn from what Spark told last which partitions gave something."""
        for source in (progress or {}).get("sources", ()):
            ends = names_in(source.get("endOffset"))
            if not ends.keys() & self._moved.keys():
                continue
            self._added = min(ends.keys() - self._moved.keys(), default=None)
            with self._lock:
                for name, at in ends.items():
                    if name in self._moved and at != self._moved[name][0]:
                        self._moved[name] = (at, self._now())
        self._tell()

    def check(self) -> None:
        """Raise `Unavailable` where there is a partition that was not there when the query started: who starts it anew counts that."""
        if self._added is not None:
            raise Unavailable(f"The topic has a new partition, {self._added}: the query starts again, to count its event time, too.")

    def _tell(self) -> None:
        if self._entry is None or self._idle is None:
            return
        with self._lock:
            flags = self._flags(self._now() - self._idle)
            if "0" not in flags:
                # Nothing comes from any, as between two bursts or while the broker is away: who was idle then stays so, and nobody else is.
                newest = max(self.names, key=lambda name: self._moved[name][1])
                behind = self._flags(self._moved[newest][1] - self._idle)
                flags = "".join("01"[name != newest and "1" in pair] for name, *pair in zip(self.names, self._told, behind, strict=True))
            if flags == self._told:
                return
            with contextlib.suppress(LakeError):  # a store that is away is asked again a second later
                self._io.write(self._file, flags.encode())
                self._told = flags

    def _flags(self, since: float) -> str:
        """For each partition whether it has given nothing since then."""
        return "".join("01"[self._moved[name][1] < since] for name in self.names)

    def close(self) -> None:
        """Forget what was told."""
        if self._entry is not None:
            self._entry.remove()


def times(instant: Column, partitions: Partitions, session: SparkSession) -> list[Column]:
    """For each partition the event time of its own rows, and, while it is idle, of all rows; another row's is long ago."""
    long_ago = F.timestamp_millis(F.lit(-62_135_596_800_000))
    idle = partitions.idle(session)
    times = []
    for at, name in enumerate(partitions.names):
        counts = F.col(PARTITION) == F.lit(name)
        if idle is not None:
            counts = counts | idle[at]
        times.append(F.when(counts & instant.isNotNull(), instant).otherwise(long_ago))
    return times
