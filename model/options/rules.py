"""What a table's options say together; each value by itself is checked where it is declared."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from model.errors import InvalidOption
from model.options.maintenance import PERIODS
from model.options.scan_mode import TRAVEL_OPTIONS, scan_mode
from model.options.table import TABLE_OPTIONS

_OF_PARTITIONS = ("partition.expiration", "partition.timestamp", "partition.mark-done", "partition.idle-time-to-done", "partition.time-")
_LEAST_AND_MOST = (
    ("snapshot.num-retained.min", "snapshot.num-retained.max"),
    ("changelog.num-retained.min", "changelog.num-retained.max"),
    ("commit.min-retry-wait", "commit.max-retry-wait"),
)
_CODECS = {"parquet": ("zstd", "snappy", "gzip", "lz4", "none", "uncompressed"), "orc": ("zstd", "snappy", "zlib", "lz4", "none")}
"""What Java's writers of each format take (`RowDataParquetBuilder`, `OrcWriterFactory`), but for brotli and lzo, which no reader brings."""
_SHARES = ("compaction.small-file-ratio", "compaction.delete-ratio-threshold")
_JAVAS_TIME = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}( [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]{0,9})?|T[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{0,9})?)?)?"
)
"""What other Paimon clients read as a time (`DateTimeUtils.parseTimestampData`)."""
_BOTH = (("partition.idle-time-to-done", "partition.time-interval"),)


def check_together(options: Mapping[str, str], partition_keys: Sequence[str], stated: Collection[str]) -> None:
    """Raise `InvalidOption` for what a statement gives that cannot be beside the other options of its table."""
    for key in stated:
        if not partition_keys and key.startswith(_OF_PARTITIONS):
            raise InvalidOption(f"Option '{key}' needs a table with partitions; PARTITIONED BY makes them.")
    for low, high in _LEAST_AND_MOST:
        least, most = TABLE_OPTIONS.read(options, low), TABLE_OPTIONS.read(options, high)
        if {low, high} & {*stated} and least is not None and most is not None and least > most:
            settings = (f"'{key}' = '{options.get(key, TABLE_OPTIONS.known(key).default_text())}'" for key in (low, high))
            raise InvalidOption(f"Options {' and '.join(settings)}: the first may not be above the second; give both.")
    if {"file.format", "file.compression"} & {*stated}:
        format_, codec = (TABLE_OPTIONS.read(options, key) for key in ("file.format", "file.compression"))
        if codec not in _CODECS[format_]:
            raise InvalidOption(
                f"'file.compression' = '{codec}' is none of 'file.format' = '{format_}': {', '.join(_CODECS[format_])} are."
            )
    for first, other in _BOTH:
        if (first in options) != (other in options) and {first, other} & {*stated}:
            raise InvalidOption(f"'{first}' and '{other}' belong together; give both.")
    _check_reading(options, stated)
    _check_maintenance(options, stated)


def _check_reading(options: Mapping[str, str], stated: Collection[str]) -> None:
    """Where reads start by themselves, every SELECT would fail otherwise, and Java would not load the table."""
    if TRAVEL_OPTIONS & {*stated}:
        scan_mode(options)
    time = options.get("scan.timestamp")
    if "scan.timestamp" in stated and time is not None and not _JAVAS_TIME.fullmatch(time.strip()):
        raise InvalidOption(
            f"Option 'scan.timestamp' = '{time}': other Paimon clients read a time such as '2026-01-31 12:00:00' alone, without a zone; "
            "'scan.timestamp-millis' says it in milliseconds."
        )


def _check_maintenance(options: Mapping[str, str], stated: Collection[str]) -> None:
    for key in _SHARES:
        if key in stated and TABLE_OPTIONS.read(options, key) > 1:
            raise InvalidOption(f"Option '{key}' = '{options[key]}': it is a share of the whole, 1 at most.")
    if {"tag.creation-period", "tag.creation-period-duration", "tag.creation-delay"} & {*stated}:
        delay, period = (TABLE_OPTIONS.read(options, key) for key in ("tag.creation-delay", "tag.creation-period-duration"))
        length = period if period is not None else PERIODS[TABLE_OPTIONS.read(options, "tag.creation-period")]
        if delay >= length:
            raise InvalidOption("Option 'tag.creation-delay' must be shorter than the period of tags, and a period is longer than nothing.")
