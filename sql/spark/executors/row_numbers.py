"""A Python source that counts, from which the rows that a datagen table makes up are made."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

MICROS = 1_000_000
_SCHEMA = "n BIGINT, at BIGINT"
_ROWS_AT_ONCE = 65_536


class RowNumbers(DataSource):
    """Numbers from 0 on, so many a second, each with the moment its turn came (microseconds since 1970)."""

    @classmethod
    def name(cls) -> str:
        """Its format's name."""
        return "sluice_row_numbers"

    def schema(self) -> str:
        """The number and the moment."""
        return _SCHEMA

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """What counts; with ``lastNumber`` the count itself comes, too, behind all others, and again where a query starts again."""
        count = self.options.get("count")
        return _Counter(
            speed=int(self.options["speed"]),
            tasks=int(self.options["tasks"]),
            count=None if count is None else int(count),
            last_number=self.options.get("lastNumber") == "true",
        )


class _Range(InputPartition):
    """Numbers of one task, and the moments of the whole batch's first and last."""

    def __init__(self, low: int, high: int, first: tuple[int, int], last: tuple[int, int]) -> None:
        self.low, self.high, self.first, self.last = low, high, first, last


class _Counter(DataSourceStreamReader):
    """Its offset is the next number and the moment the one before was made; a stopped stream makes up for nothing.

    The last number does not move it, so that a query whose count has grown by its next start goes on with that number's row.
    """

    def __init__(self, *, speed: int, tasks: int, count: int | None, last_number: bool = False) -> None:
        self._speed = speed
        self._tasks = tasks
        self._count = count
        self._last = count if last_number else None
        self._begun: tuple[int, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"next": 0, "at": int(time.time() * MICROS)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The rows due by now: those of each second at its beginning, as Flink makes them, counted from when this process began to."""
        now = int(time.time() * MICROS)
        is_first, self._begun = self._begun is None, self._begun or (start["next"], now)
        if self._last is not None and start["next"] >= self._last:
            # A batch of its own, so that the one before is told with a watermark of its rows. Spark forgets the watermarks of its
            # sources when it stops: what ends them is told again.
            is_told = "end" in start and not is_first
            return start if is_told else {"next": start["next"], "at": max(now, start["at"] + 1), "end": True}
        due = self._begun[0] + (max(now - self._begun[1], 0) // MICROS + 1) * self._speed
        due = due if self._count is None else min(due, self._count)
        is_last = due == self._count and self._last is None
        if due <= start["next"] and ("end" in start or not is_last):
            return start
        made = {"next": max(due, start["next"]), "at": max(now, start["at"])}
        return made | {"end": True} if is_last else made

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = (start["next"], start["at"]), (end["next"], end["at"])
        if self._last is not None and first[0] == last[0]:
            return [_Range(self._last, self._last + 1, (self._last, end["at"]), (self._last + 1, end["at"]))] if "end" in end else []
        bounds = [first[0] + (last[0] - first[0]) * task // self._tasks for task in range(self._tasks + 1)]
        return [_Range(low, high, first, last) for low, high in pairwise(bounds) if low < high]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        (first, begun), (last, ended) = partition.first, partition.last
        for low in range(partition.low, partition.high, _ROWS_AT_ONCE):
            numbers = np.arange(low, min(low + _ROWS_AT_ONCE, partition.high), dtype=np.int64)
            moments = begun + ((numbers - first) * ((ended - begun) / (last - first))).astype(np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(moments)], names=["n", "at"])
