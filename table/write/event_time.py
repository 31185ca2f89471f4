"""Event time of written files, from their statistics."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace

from model.schema.schema import Schema
from table.format.manifests.entries import NewFile
from table.format.rows.stats import column_stats

_EPOCH = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)


def telling_time(schema: Schema, column: str) -> Schema:
    """The schema as files are written under whose statistics tell a column's largest time, also where the table keeps none of it."""
    return replace(schema, options={**schema.options, f"fields.{column}.stats-mode": "full"})


def largest_time(files: Iterable[NewFile], schema: Schema, column: str) -> int | None:
    """The latest time in a TIMESTAMP or TIMESTAMP_LTZ column, in milliseconds since 1970 (UTC); None where no file tells."""
    times: list[int] = []
    for new in files:
        known = column_stats(new.file.value_stats, new.file.value_stats_cols, schema).get(column)
        if known is not None and isinstance(known.max, dt.datetime):
            times.append((known.max.replace(tzinfo=None) - _EPOCH) // _MILLISECOND)
    return max(times, default=None)
