"""What a table's options say together; each value by itself is checked where it is declared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from model.errors import InvalidOption
from model.options.table import TABLE_OPTIONS

_OF_PARTITIONS = ("partition.expiration", "partition.timestamp", "partition.mark-done", "partition.idle-time-to-done", "partition.time-")
_LEAST_AND_MOST = (
    ("snapshot.num-retained.min", "snapshot.num-retained.max"),
    ("changelog.num-retained.min", "changelog.num-retained.max"),
    ("commit.min-retry-wait", "commit.max-retry-wait"),
)
_CODECS = {"parquet": ("zstd", "snappy", "gzip", "lz4", "none", "uncompressed"), "orc": ("zstd", "snappy", "zlib", "lz4", "none")}
"""What Java's writers of each format take (`RowDataParquetBuilder`, `OrcWriterFactory`), but for brotli and lzo, which no reader brings."""
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
