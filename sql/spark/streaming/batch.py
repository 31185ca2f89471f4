"""A job's micro-batch between its rows and its commit, and the watermark that it carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.event_time import is_far_ahead
from model.options.watermark import is_over
from model.schema.schema import Schema
from sql.spark.streaming.streaming_query import millis_of
from table.format.manifests.entries import NewFile
from table.write.event_time import largest_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch whose rows are written, on its way to be committed."""

    number: int
    files: Sequence[NewFile]
    progress: Mapping[str, Any] | None
    """What Spark told last of the query; None for its first batch."""
    schema: Schema
    rowtime: tuple[str, int] | None = None
    """The target's column that holds the source's event time as it was read, and its watermark's delay in milliseconds."""


def batch_watermark(batch: Batch) -> int | None:
    """The watermark a batch's snapshot carries, in milliseconds since 1970; None where the query has no event time.

    Spark's own, of the batches before this one; and, as in Flink, that of the batch's own rows, where they keep their event time.
    One that is far ahead, by a row with a wrong time, is not told to the table: it would have it for ever.
    """
    watermark = (batch.progress or {}).get("eventTime", {}).get("watermark")
    millis = None if watermark is None else millis_of(watermark)
    known = [millis] if millis and not is_over(millis) else []  # at a stream's end time is over, and its table goes on
    if batch.rowtime is not None:
        column, delay = batch.rowtime
        latest = largest_time(batch.files, batch.schema, column)
        known += [] if latest is None else [latest - delay]
    return max((mark for mark in known if not is_far_ahead(mark)), default=None)
