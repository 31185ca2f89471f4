"""Table options that say where and how a read goes; also given in `/*+ OPTIONS(…) */` (`paimon-append.md` §8.1, 10)."""

from __future__ import annotations

import datetime as dt
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from model.errors import InvalidOption
from model.options.names import object_name
from model.options.option import TUNING, Option, Parser, boolean, duration, integer, memory_size, one_of, only_false, optional, text


def _time_text(raw: str) -> str:
    """A time, as it is written."""
    try:
        dt.datetime.fromisoformat(raw)
    except ValueError:
        raise ValueError("a time such as '2026-01-31 12:00:00' is expected") from None
    return raw


SCAN_OPTIONS: tuple[Option[Any], ...] = (
    Option(
        "scan.mode",
        one_of(
            "default",
            "latest-full",
            "full",
            "latest",
            "latest-delta",
            "compacted-full",
            "from-timestamp",
            "from-snapshot",
            "from-snapshot-full",
            "from-file-creation-time",
            "from-creation-timestamp",
            "incremental",
        ),
        "default",
        "Where a read starts.",
        former=("log.scan",),
    ),
    Option("scan.snapshot-id", optional(integer(at_least=1, bits=64)), None, "Snapshot for from-snapshot(-full)."),
    Option(
        "scan.timestamp-millis", optional(integer(bits=64)), None, "Epoch ms for from-timestamp.", former=("log.scan.timestamp-millis",)
    ),
    Option("scan.timestamp", optional(Parser("time", _time_text, everywhere=False)), None, "Text form of it (local zone)."),
    Option("scan.creation-time-millis", optional(integer(bits=64)), None, "For from-creation-timestamp."),
    Option("scan.file-creation-time-millis", optional(integer(bits=64)), None, "For from-file-creation-time."),
    Option("scan.tag-name", optional(object_name()), None, "Batch: tag to read."),
    Option("scan.watermark", optional(integer(bits=64)), None, "Batch: first snapshot with watermark ≥ this."),
    Option("scan.bounded.watermark", optional(integer(bits=64)), None, "Stop streaming before the first snapshot beyond this watermark."),
    Option("incremental-between", optional(text()), None, "Two ids or two tags, batch."),
    Option("incremental-between-timestamp", optional(text()), None, "Two times."),
    Option("incremental-to-auto-tag", optional(text()), None, "End tag; start = previous period tag."),
    Option("incremental-between-scan-mode", one_of("auto", "delta", "changelog", "diff"), "auto", "Auto | delta | changelog | diff."),
    Option("incremental-between-tag-to-snapshot", boolean(), False, "Resolve tags to snapshots and read the deltas between."),
    Option("consumer-id", optional(object_name()), None, "Remember progress under 'consumer/'."),
    Option(
        "consumer.mode",
        one_of("exactly-once", "at-least-once"),
        "exactly-once",
        "Exactly-once | at-least-once.",
        kept="a consumer's progress is what its reader has taken, which both values allow",
    ),
    Option("consumer.ignore-progress", boolean(), False, "Do not start from stored progress."),
    Option("continuous.discovery-interval", duration(), timedelta(seconds=10), "Poll interval for new snapshots."),
    Option("scan.max-splits-per-task", integer(at_least=1), 10, "Back-pressure for split enumeration.", kept=TUNING),
    Option("scan.plan-sort-partition", boolean(), False, "Order splits by partition value."),
    Option("streaming-read-overwrite", only_false(), False, "Rejected for append tables."),
    Option("streaming-read-append-overwrite", boolean(), False, "Stream the added files of OVERWRITE snapshots."),
    Option("streaming.read.snapshot.delay", optional(duration()), None, "Read snapshots behind the starting one only after this age."),
    Option("source.split.target-size", memory_size(), 128 << 20, "Split packing size.", kept=TUNING),
    Option("source.split.open-file-cost", memory_size(), 4 << 20, "Minimum weight of a file in packing (and in unaware compaction bins)."),
    Option("scan.manifest.parallelism", optional(integer(at_least=1)), None, "Threads for manifest reading.", kept=TUNING),
    Option("scan.ignore-lost-files", only_false(), False, "Skip missing data files instead of failing."),
    Option("scan.ignore-corrupt-files", only_false(), False, "Skip unreadable files."),
    Option("read.batch-size", integer(at_least=1), 1024, "Rows per reader batch.", kept=TUNING),
    Option("file-reader-async-threshold", memory_size(), 10 << 20, "Larger files are read in a background thread.", kept=TUNING),
    Option(
        "file-operation.thread-num",
        optional(integer(at_least=1)),
        None,
        "Threads for deletions/listings.",
        kept=TUNING,
        former=("delete-file.thread-num",),
    ),
    Option("file-index.read.enabled", boolean(), True, "Use file indexes to skip."),
    Option("file-index.in-manifest-threshold", memory_size(), 500, "Max index bytes kept inside the manifest."),
    Option("scan.bounded", optional(boolean()), None, "Force bounded."),
    Option(
        "scan.max-snapshot.count",
        integer(at_least=-1),
        -1,
        "Snapshots with rows that a micro-batch on Spark takes at most, as a checkpoint of Flink does; no limit below 1.",
    ),
    Option("scan.dedicated-split-generation", only_false(), False, "Plan in a task rather than the JobManager."),
    Option(
        "scan.watermark.idle-timeout",
        optional(duration()),
        None,
        "After so long without progress a source holds nobody of its alignment group back; without a group it is kept for Flink.",
    ),
    Option(
        "scan.watermark.emit.strategy",
        one_of("on-event", "on-periodic"),
        "on-event",
        "On-event, on-periodic.",
        kept="watermarks advance with a job's batches here",
    ),
    Option(
        "read.shuffle-bucket-with-partition",
        boolean(),
        True,
        "Pin (partition,bucket) rather than bucket only to a reader.",
        kept=TUNING,
        former=("streaming-read.shuffle-bucket-with-partition",),
    ),
    Option("scan.version", optional(text()), None, "Batch: a tag, a snapshot id or watermark-<millis> to read."),
    Option("scan.parallelism", optional(integer(at_least=1)), None, "Tasks of a Flink read; Spark chooses its own.", kept=TUNING),
    Option("scan.infer-parallelism", boolean(), True, "Whether Flink derives the parallelism; Spark chooses its own.", kept=TUNING),
    Option("scan.watermark.alignment.group", optional(text()), None, "Streams of one group wait for each other's watermarks."),
    Option("scan.watermark.alignment.max-drift", optional(duration()), None, "How far a stream may be ahead of its group."),
    Option("scan.watermark.alignment.update-interval", duration(), timedelta(seconds=1), "How often a group's watermarks are compared."),
)


def parse_time(value: str, zone: str, *, key: str = "scan.timestamp") -> int:
    """A time as milliseconds since the epoch; without a zone of its own it is in the one given. Raises `InvalidOption`."""
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError:
        raise InvalidOption(f"Option '{key}' = '{value}': a time such as '2026-01-31 12:00:00' is expected.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return int(moment.timestamp() * 1000)
