"""Table options that shape files and writes (`paimon-append.md` §10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from model.options.clustering import BUCKET_APPEND_ORDERED
from model.options.names import inner_directory, name_part
from model.options.option import (
    TUNING,
    Option,
    Parser,
    boolean,
    columns,
    duration,
    integer,
    memory_size,
    one_of,
    only_false,
    optional,
    stats_mode,
    text,
)

T = TypeVar("T")
DISABLE_EXPLICIT_CASTS = Option(
    "disable-explicit-type-casting",
    boolean(),
    False,
    "Whether ALTER refuses a type to which values come only by an explicit cast, such as STRING to BIGINT.",
)


def _set_only(parser: Parser[T], is_of_use: Callable[[T], bool], expected: str) -> Parser[T]:
    """The same parser, by which only values of use are set; others that were stored before are read."""

    def judge(raw: str) -> None:
        parser.judge(raw)
        if not is_of_use(parser.parse(raw)):
            raise ValueError(expected)

    return replace(parser, judge=judge)


_ZSTD_LEVEL = _set_only(integer(at_least=1), lambda level: level <= 22, "must be at most 22")
_SPILL_CODEC = _set_only(text(), lambda codec: codec.lower() in ("zstd", "lz4", "lzo", "none"), "one of zstd, lz4, lzo, none is expected")

WRITE_OPTIONS: tuple[Option[Any], ...] = (
    Option("type", one_of("table"), "table", "Kind of table.", mutable=False),
    Option(
        "bucket",
        integer(at_least=-1),
        -1,
        "Buckets per partition: 1 is one queue, N are N ordered queues, -1 leaves rows unordered. SQL stores 1.",
    ),
    Option("bucket-key", optional(columns()), None, "Columns, separated by commas, whose values pick a row's bucket.", mutable=False),
    Option(
        "bucket-function.type",
        one_of("default", "mod", "hive"),
        "default",
        "How a key becomes a bucket: Paimon's hash, the value modulo N, or Hive's hash.",
        mutable=False,
    ),
    BUCKET_APPEND_ORDERED,
    Option("partition.default-name", text(), "__DEFAULT_PARTITION__", "Directory text for null/blank partition values.", mutable=False),
    Option(
        "partition.legacy-name",
        boolean(),
        True,
        "True = toString form of values in directories, false = SQL cast form. A table with BINARY partitions is made with false.",
        mutable=False,
    ),
    Option("data-file.prefix", name_part(), "data-", "Data file name prefix."),
    Option("data-file.path-directory", optional(inner_directory()), None, "Sub-directory under the table for all data.", mutable=False),
    Option("file.suffix.include.compression", boolean(), False, "Put the codec in the file suffix (.zstd.parquet)."),
    Option("file.format", one_of("parquet", "orc"), "parquet", "Format of new data files."),
    Option(
        "file.compression",
        one_of("zstd", "snappy", "gzip", "zlib", "lz4", "none", "uncompressed"),
        "zstd",
        "Codec of new data files; gzip and uncompressed are Parquet's, zlib is ORC's.",
    ),
    Option("file.compression.zstd-level", _ZSTD_LEVEL, 1, "Zstd level, up to 22."),
    Option(
        "file.block-size", optional(memory_size()), None, "Row-group / stripe size; unset = format default (Parquet 128 MB, ORC 64 MB)."
    ),
    Option("parquet.enable.dictionary", boolean(), True, "Whether Parquet columns may be dictionary-encoded."),
    Option(
        "target-file-size",
        optional(_set_only(memory_size(), lambda size: size > 0, "a size above zero is expected")),
        None,
        "Size at which a data file is closed and the next begun; 256 mb where unset.",
    ),
    Option("target-file-row-num", integer(at_least=1, bits=64), 2**63 - 1, "Roll-over row count."),
    Option("index-file-in-data-file-dir", only_false(), False, "Put index files in bucket dirs instead of 'index/'.", mutable=False),
    Option("add-column-before-partition", boolean(), False, "New columns go before the partition columns."),
    Option("alter-column-null-to-not-null.disabled", boolean(), True, "Forbid nullable → NOT NULL."),
    DISABLE_EXPLICIT_CASTS,
    Option("auto-create", only_false(), False, "Create the table directory on first use (connector tables)."),
    Option(
        "row-tracking.enabled",
        only_false(),
        False,
        "Give each row a stable id; fills firstRowId/nextRowId; needs bucket=-1.",
        mutable=False,
    ),
    Option("data-evolution.enabled", only_false(), False, "Partial-column files; out of scope.", mutable=False),
    Option("write-only", boolean(), False, "No compaction and no table maintenance in this writer.", former=("write.compaction-skip",)),
    Option("write-buffer-for-append", boolean(), False, "Buffer rows before writing files.", kept=TUNING),
    Option("write-buffer-size", memory_size(), 256 << 20, "Memory for the buffer / total for writers."),
    Option("write-buffer-spillable", boolean(), True, "Buffer may spill to local disk."),
    Option("write-buffer-spill.max-disk-size", optional(memory_size()), None, "Cap for spilled bytes."),
    Option(
        "write-max-writers-to-spill", integer(at_least=1), 10, "Batch: with more open writers than this, switch them to spilling buffers."
    ),
    Option(
        "write.batch-size",
        integer(at_least=1),
        1024,
        "Rows per batch handed to the format writer.",
        kept=TUNING,
        former=("orc.write.batch-size",),
    ),
    Option("write.batch-memory", memory_size(), 128 << 20, "Memory bound per write batch.", kept=TUNING),
    Option("async-file-write", boolean(), True, "Write files in a background thread.", kept=TUNING),
    Option("page-size", memory_size(), 64 << 10, "Memory page size of buffers.", kept=TUNING),
    Option("spill-compression", _SPILL_CODEC, "zstd", "Codec of spill files: zstd, lz4, lzo or none."),
    Option("spill-compression.zstd-level", _ZSTD_LEVEL, 1, "Level of it, up to 22.", kept=TUNING),
    Option("local-sort.max-num-file-handles", integer(at_least=1), 128, "Merge fan-in of external sort.", kept=TUNING),
    Option("sort-spill-buffer-size", memory_size(), 64 << 20, "Memory for spilled sort.", kept=TUNING),
    Option("sort-spill-threshold", optional(integer()), None, "Max readers before a merge spills.", kept=TUNING),
    Option(
        "dynamic-partition-overwrite",
        boolean(),
        True,
        "INSERT OVERWRITE replaces only the partitions present in the data, none where there is none; a table without partitions wholly.",
    ),
    Option(
        "partition.sink-strategy",
        one_of("none", "hash", "partition_dynamic"),
        "none",
        "NONE | HASH | PARTITION_DYNAMIC shuffle in front of unaware writers.",
        kept=TUNING,
    ),
    Option(
        "metastore.partitioned-table",
        boolean(),
        False,
        "Whether the catalog keeps the partitions of a format table, which clients tell it; without it they are the directories that lie "
        "there. Of other tables it always keeps them.",
    ),
    Option(
        "rows.erasable",
        boolean(),
        False,
        "Whether DELETE takes single rows away and UPDATE and MERGE change them, for who holds the privileges; without it the table only "
        "grows.",
    ),
    Option("manifest.target-file-size", memory_size(), 8 << 20, "Roll size of manifests."),
    Option("manifest.merge-min-count", integer(at_least=1), 30, "Files needed for a trailing minor merge."),
    Option(
        "manifest.full-compaction-threshold-size",
        memory_size(),
        16 << 20,
        "Size of delete-bearing/small manifests that triggers full merge.",
    ),
    Option("manifest.compression", one_of("zstd"), "zstd", "Avro codec of manifests (level 1)."),
    Option(
        "manifest.merge-optimize.enabled",
        boolean(),
        True,
        "Block-copy when merging.",
        kept="manifests hold the same entries either way, and are merged in one way here",
    ),
    Option("manifest.delete-file-drop-stats", only_false(), False, "Write DELETE entries without stats; scans too."),
    Option("manifest-sort.enabled", only_false(), False, "Sort entries by a partition column while merging."),
    Option("metadata.stats-mode", stats_mode(), "truncate(16)", "Value statistics per file: none, counts, truncate(n) or full."),
    Option("metadata.stats-dense-store", boolean(), True, "Store only columns having stats, with '_VALUE_STATS_COLS'."),
    Option("metadata.stats-keep-first-n-columns", integer(at_least=-1), -1, "Collect stats only for the first n columns (-1 all)."),
    Option(
        "commit.user-prefix",
        optional(name_part()),
        None,
        "Stands, with an underscore, before the `commit_user` of what statements and HTTP requests commit.",
    ),
    Option(
        "commit.max-retries",
        integer(at_least=0),
        10,
        "How often a commit that lost a race is tried again; a server's tries until its turn has come unless the table states this.",
    ),
    Option(
        "commit.timeout",
        optional(duration()),
        None,
        "For how long; without it there is no limit.",
    ),
    Option(
        "commit.min-retry-wait",
        duration(),
        timedelta(milliseconds=10),
        "Pause before the first retry, twice as long before each further one; a server's commits pause only where the table states one.",
    ),
    Option("commit.max-retry-wait", duration(), timedelta(seconds=10), "The longest of these pauses."),
    Option("commit.force-compact", only_false(), False, "Wait for/force a compaction before each commit."),
    Option("commit.force-create-snapshot", only_false(), False, "Streaming: snapshot even without data."),
    Option("commit.discard-duplicate-files", only_false(), False, "Drop ADDs already live instead of failing."),
)
