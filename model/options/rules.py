"""What a table's options say together; each value by itself is checked where it is declared."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from model.errors import InvalidOption
from model.options.maintenance import PERIODS
from model.options.scan_mode import INCREMENTAL_ALONE, TRAVEL_OPTIONS, scan_mode
from model.options.table import TABLE_OPTIONS

FILE_FORMATS = ("parquet", "orc", "avro", "csv", "text", "json", "blob", "row", "lance", "vortex", "mosaic")
"""Formats of data files that some release of Paimon has: its clients load no table that names another, and the names of files end so."""
_OF_PARTITIONS = (
    "partition.expiration",
    "partition.timestamp",
    "partition.mark-done",
    "partition.idle-time-to-done",
    "partition.end-input",
    "partition.time-",
)
_RETAINED = (("snapshot.num-retained.min", "snapshot.num-retained.max"), ("changelog.num-retained.min", "changelog.num-retained.max"))
_WAITS = (("commit.min-retry-wait", "commit.max-retry-wait"),)
_UNSET_IS = {
    "changelog.num-retained.min": "snapshot.num-retained.min",
    "changelog.num-retained.max": "snapshot.num-retained.max",
}
"""Options that other clients read from another where they are not set (`CoreOptions.changelogNumRetainMin`)."""
_CODECS = {"parquet": ("zstd", "snappy", "gzip", "lz4", "none", "uncompressed"), "orc": ("zstd", "snappy", "zlib", "lz4", "none")}
"""What Java's writers of each format take (`RowDataParquetBuilder`, `OrcWriterFactory`), but for brotli and lzo, which no reader brings."""
_SHARES = ("compaction.small-file-ratio", "compaction.delete-ratio-threshold")
_JAVAS_TIME = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}( [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]{0,9})?|T[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{0,9})?)?)?"
)
"""What other Paimon clients read as a time (`DateTimeUtils.parseTimestampData`)."""
_BOTH = (
    ("partition.idle-time-to-done", "partition.time-interval"),
    ("scan.watermark.alignment.group", "scan.watermark.alignment.max-drift"),
)


def check_together(options: Mapping[str, str], partition_keys: Sequence[str], stated: Collection[str]) -> None:
    """Raise `InvalidOption` for what a statement gives that cannot be beside the other options of its table, or does nothing there."""
    for key in stated:
        if not partition_keys and key.startswith(_OF_PARTITIONS):
            raise InvalidOption(f"Option '{key}' needs a table with partitions; PARTITIONED BY makes them.")
    _check_pattern(options, partition_keys, stated)
    _check_order(options, _WAITS, stated)
    for first, other in _BOTH:
        if (first in options) != (other in options) and {first, other} & {*stated}:
            raise InvalidOption(f"'{first}' and '{other}' belong together; give both.")
    for key in _SHARES:
        if key in stated and TABLE_OPTIONS.read(options, key) > 1:
            raise InvalidOption(f"Option '{key}' = '{options[key]}': a share of the whole is expected, 1 at most.")
    check_contradictions(options, stated)


def check_contradictions(options: Mapping[str, str], stated: Collection[str]) -> None:
    """Raise `InvalidOption` for what is given that no client could go by: Java's would not load the table, or not write to it.

    What does nothing in a table, such as `partition.expiration-time` without partitions, other clients may store for all of theirs.
    """
    _check_order(options, _RETAINED, stated)
    if {"file.format", "file.compression"} & {*stated}:
        _check_codec(options)
    _check_reading(options, stated)
    _check_tags(options, stated)


def _check_pattern(options: Mapping[str, str], partition_keys: Sequence[str], stated: Collection[str]) -> None:
    """A pattern that names another column gives no partition a time: none would ever expire, or strictly none be written."""
    pattern = options.get("partition.timestamp-pattern")
    if pattern is None or "partition.timestamp-pattern" not in stated:
        return
    rest = pattern
    for name in sorted(partition_keys, key=len, reverse=True):
        rest = rest.replace(f"${name}", "")
    if "$" in rest:
        raise InvalidOption(
            f"Option 'partition.timestamp-pattern' = '{pattern}': $ stands before a partition column's name; the table has "
            f"{', '.join(f'${name}' for name in partition_keys)}."
        )


def _check_order(options: Mapping[str, str], pairs: Sequence[tuple[str, str]], stated: Collection[str]) -> None:
    for pair in pairs:
        low, high = (key if key in options else _UNSET_IS.get(key, key) for key in pair)
        least, most = TABLE_OPTIONS.read(options, low), TABLE_OPTIONS.read(options, high)
        if {low, high} & {*stated} and least is not None and most is not None and least > most:
            settings = (f"'{key}' = '{options.get(key, TABLE_OPTIONS.known(key).default_text())}'" for key in (low, high))
            raise InvalidOption(f"Options {' and '.join(settings)}: the first may not be above the second; give both.")


def _check_codec(options: Mapping[str, str]) -> None:
    """Formats and codecs that only other clients know are theirs."""
    keys = "file.format", "file.compression"
    format_, codec = (options.get(key, TABLE_OPTIONS.known(key).default_text()).strip().lower() for key in keys)
    known = _CODECS.get(format_)
    if known is not None and codec not in known and any(codec in codecs for codecs in _CODECS.values()):
        raise InvalidOption(f"'file.compression' = '{codec}' is none of 'file.format' = '{format_}': {', '.join(known)} are.")


def _check_reading(options: Mapping[str, str], stated: Collection[str]) -> None:
    """Where reads start by themselves, every SELECT would fail otherwise, and Java would not load the table."""
    if (TRAVEL_OPTIONS | INCREMENTAL_ALONE) & {*stated}:
        scan_mode(options)
    time = options.get("scan.timestamp")
    if "scan.timestamp" in stated and time is not None and not _JAVAS_TIME.fullmatch(time.strip()):
        raise InvalidOption(
            f"Option 'scan.timestamp' = '{time}': other Paimon clients read a time such as '2026-01-31 12:00:00' alone, without a zone; "
            "'scan.timestamp-millis' says it in milliseconds."
        )


def _check_tags(options: Mapping[str, str], stated: Collection[str]) -> None:
    if {"tag.creation-period", "tag.creation-period-duration", "tag.creation-delay"} & {*stated}:
        delay, period = (TABLE_OPTIONS.read(options, key) for key in ("tag.creation-delay", "tag.creation-period-duration"))
        length = period if period is not None else PERIODS[TABLE_OPTIONS.read(options, "tag.creation-period")]
        if delay >= length:
            raise InvalidOption("Option 'tag.creation-delay' must be shorter than the period of tags, and a period is longer than nothing.")
