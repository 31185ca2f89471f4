"""Table options that say what maintenance keeps, expires and merges (`paimon-append.md` §10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from model.event_time import is_far_ahead
from model.options.clustering import CLUSTERING_OPTIONS
from model.options.names import object_name
from model.options.option import (
    TUNING,
    Option,
    Parser,
    boolean,
    duration,
    integer,
    memory_size,
    number,
    one_of,
    only_false,
    optional,
    text,
    time_zone,
    words,
)
from model.options.times import time_format


def _event_time() -> Parser[int]:
    """A watermark in milliseconds since 1970; nobody may store one that is never passed, which each later snapshot would inherit."""
    whole = integer(bits=64)

    def judge(raw: str) -> None:
        whole.judge(raw)
        if is_far_ahead(int(raw)):
            raise ValueError("lies more than a year ahead; a time in milliseconds since 1970 is expected")

    return replace(whole, judge=judge)


PRECOMMIT_COMPACT = Option(
    "precommit-compact",
    boolean(),
    False,
    "Merge the small files of one commit before it becomes a snapshot.",
    former=("changelog.precommit-compact",),
)
_CHANGELOGS = "what expires here becomes no changelog, and the files that theirs need stay"
DROP_RETENTION = Option(
    "drop.retention",
    optional(duration()),
    None,
    "How long the table can be brought back by UNDROP once it is dropped; without it the server's SLUICE_DROP_RETENTION. "
    "Dropping a table that says less than the server takes PURGE.",
)

PERIODS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}
"""How long the named periods of automatic tags are."""

MAINTENANCE_OPTIONS: tuple[Option[Any], ...] = (
    *CLUSTERING_OPTIONS,
    Option("zorder.var-length-contribution", integer(at_least=1), 8, "Bytes a string/binary column adds to the z-order key."),
    Option("end-input.check-partition-expire", only_false(), False, "Expire partitions at end of bounded input."),
    Option("snapshot.num-retained.min", integer(at_least=1), 10, "Always keep this many newest snapshots (≥1)."),
    Option("snapshot.num-retained.max", optional(integer(at_least=1)), None, "Never keep more than this."),
    Option("snapshot.time-retained", duration(), timedelta(hours=1), "Age after which expirable."),
    Option("snapshot.expire.limit", integer(at_least=1), 50, "Max snapshots expired per run."),
    Option(
        "snapshot.expire.execution-mode",
        one_of("sync", "async"),
        "sync",
        "Sync or async.",
        kept="snapshots expire in the background here, so that no commit waits for it, and none of a server that ends is left out",
    ),
    Option(
        "snapshot.clean-empty-directories",
        boolean(),
        False,
        "Remove the directories of buckets and partitions whose last files go as snapshots and tags do.",
        former=("snapshot.expire.clean-empty-directories",),
    ),
    Option(
        "changelog.num-retained.min",
        optional(integer(at_least=1)),
        None,
        "Like snapshot, for decoupled changelog (unset = snapshot value).",
        kept=_CHANGELOGS,
    ),
    Option("changelog.num-retained.max", optional(integer(at_least=1)), None, "Same.", kept=_CHANGELOGS),
    Option("changelog.time-retained", optional(duration()), None, "Same.", kept=_CHANGELOGS),
    DROP_RETENTION,
    Option("consumer.expiration-time", optional(duration()), None, "Consumers not updated for this long are removed."),
    Option(
        "consumer.changelog-only",
        boolean(),
        False,
        "Consumers pin only decoupled changelogs.",
        kept=f"{_CHANGELOGS}, so that consumers always keep the snapshots they have not read",
    ),
    Option(
        "tag.automatic-creation", one_of("none", "process-time", "watermark", "batch"), "none", "None | process-time | watermark | batch."
    ),
    Option("tag.creation-period", one_of(*PERIODS), "daily", "Daily | hourly | two-hours."),
    Option("tag.creation-period-duration", optional(duration()), None, "Free period, replaces the former."),
    Option("tag.creation-delay", duration(), timedelta(milliseconds=0), "Wait after period end."),
    Option(
        "tag.period-formatter",
        one_of("with_dashes", "without_dashes", "without_dashes_and_spaces"),
        "with_dashes",
        "With_dashes | without_dashes | without_dashes_and_spaces.",
    ),
    Option("tag.num-retained-max", optional(integer(at_least=1)), None, "Cap for auto tags."),
    Option("tag.default-time-retained", optional(duration()), None, "TTL for new tags."),
    Option("tag.time-expire-enabled", boolean(), True, "Honour tag TTLs."),
    Option("tag.automatic-completion", boolean(), False, "Fill missing periods."),
    Option("tag.batch.customized-name", optional(object_name("tag")), None, "Tag name for batch auto tags."),
    Option("tag.create-success-file", only_false(), False, "Also write a success marker per tag."),
    Option("sink.watermark-time-zone", time_zone(), "UTC", "Zone to turn watermarks into tag names."),
    Option("sink.process-time-zone", optional(time_zone()), None, "Zone for process-time tags; without it each server's own."),
    Option("partition.expiration-time", optional(duration()), None, "Drop partitions older than this."),
    Option("partition.expiration-check-interval", duration(), timedelta(hours=1), "How often to look."),
    Option("partition.expiration-strategy", one_of("values-time", "update-time"), "values-time", "Values-time or update-time."),
    Option("partition.expiration-max-num", integer(at_least=1), 100, "Max partitions per run."),
    Option("partition.expiration-batch-size", optional(integer(at_least=1)), None, "Partitions per drop commit."),
    Option(
        "partition.timestamp-pattern", optional(text()), None, "How to build a time text from partition columns, e.g. '$dt $hour:00:00'."
    ),
    Option(
        "partition.timestamp-formatter",
        optional(time_format()),
        None,
        "Format of that text, with yyyy, MM, dd, HH, mm, ss and S; without one it is `2026-01-31` or `2026-01-31 23:59:59`.",
    ),
    Option(
        "partition.timestamp-format.strict",
        boolean(),
        False,
        "Whether rows are refused whose partition has no time that `partition.timestamp-pattern` or `partition.timestamp-formatter` reads.",
    ),
    Option(
        "partition.mark-done-action",
        words("success-file", "done-partition", "mark-event"),
        ("success-file",),
        "What marks a partition as done, parted by commas: a file `_SUCCESS` in it, a partition of its name with `.done` behind, "
        "the mark `done` in the catalog.",
    ),
    Option(
        "partition.end-input-to-done",
        boolean(),
        False,
        "Whether partitions are marked as done as soon as a batch INSERT or an upload has brought them rows.",
    ),
    Option(
        "partition.idle-time-to-report-statistic",
        duration(),
        timedelta(milliseconds=0),
        "Idle time before reporting stats to metastore.",
        kept="the catalog knows each partition's figures at every commit",
    ),
    Option("compaction.min.file-num", integer(at_least=1), 5, "How many neighbouring small files are worth merging."),
    Option("compaction.small-file-ratio", number(at_least=0), 0.7, "Small limit = ratio × target-file-size."),
    Option(
        "compaction.delete-ratio-threshold",
        number(at_least=0),
        0.2,
        "A file of which a larger share of rows is deleted by deletion vectors is rewritten without them, whatever its size.",
    ),
    Option("compaction.file-num-limit", integer(at_least=1), 100000, "Files considered per unaware scan."),
    Option("compaction.force-rewrite-all-files", boolean(), False, "Full compaction takes every file."),
    Option("compaction.skip-expired-partitions", boolean(), False, "Do not compact partitions that are to expire."),
    Option("full-compaction.delta-commits", optional(integer(at_least=1)), None, "Fixed bucket: full compaction every N commits."),
    Option(
        "sort-compaction.range-strategy",
        one_of("size", "quantity"),
        "size",
        "What is even among the tasks of a compaction that sorts: the bytes of their rows, or their number.",
    ),
    Option(
        "sort-compaction.local-sample.magnification",
        integer(at_least=1),
        1000,
        "How many rows are looked at for each of these tasks, to find their ranges; 1000 at most.",
    ),
    Option("deletion-vectors.enabled", only_false(), False, "DELETE/UPDATE write DVs instead of rewriting."),
    Option("deletion-vectors.bitmap64", only_false(), False, "64-bit DV format."),
    Option("deletion-vectors.modifiable", only_false(), False, "Allow toggling DV mode later."),
    Option(
        "deletion-vector.index-file.target-size",
        memory_size(),
        2 << 20,
        "Roll size of DV files.",
        kept="deletion vectors are read here, and those left of an index file are copied whole",
    ),
    Option("sink.parallelism", optional(integer(at_least=1)), None, "Writer parallelism.", kept="Spark writes with the tasks it has"),
    Option("sink.committer-operator-chaining", boolean(), True, "Chain committer behind the writer.", kept=TUNING),
    Option("sink.savepoint.auto-tag", only_false(), False, "Tag snapshots made by savepoints."),
    PRECOMMIT_COMPACT,
    Option(
        "unaware-bucket.compaction.parallelism",
        optional(integer(at_least=1)),
        None,
        "Workers that compact a table without buckets.",
        kept=TUNING,
    ),
    Option(
        "end-input.watermark",
        optional(_event_time()),
        None,
        "Watermark of what batch INSERTs and HTTP bodies commit, in milliseconds since 1970, a year ahead at most; "
        "a job's comes from its rows.",
    ),
    Option(
        "partition.mark-done-action.mode",
        one_of("process-time", "watermark"),
        "process-time",
        "What tells that a partition's time is over: the clock, or the table's watermark.",
    ),
    Option("compaction.max.file-num", integer(at_least=2), 50, "So many files of any size are merged (the rule of Paimon up to 1.0)."),
    Option(
        "partition.idle-time-to-done",
        optional(duration()),
        None,
        "A partition to which nothing came for so long after its time was over is marked as done, whoever wrote it; "
        "needs 'partition.time-interval'.",
    ),
    Option(
        "partition.time-interval", optional(duration()), None, "Span of time one partition covers; needs 'partition.idle-time-to-done'."
    ),
)

TAKE_AWAY = frozenset(
    {
        "partition.expiration-time", "partition.expiration-strategy", "partition.timestamp-formatter", "partition.timestamp-pattern",
        "snapshot.num-retained.min", "snapshot.num-retained.max", "snapshot.time-retained", "tag.num-retained-max",
        "tag.time-expire-enabled", "tag.default-time-retained", "tag.batch.customized-name",
        "consumer.expiration-time",
    }
)  # fmt: skip
"""By these the server takes live rows or history away by itself, so that who sets them needs the right to do so.

`tag.default-time-retained` is what others' tags get, and `tag.batch.customized-name` may be the name of a tag that is there, which each
batch then replaces.
"""
PUSH_OUT = frozenset(
    {
        "tag.automatic-creation", "tag.creation-period", "tag.creation-period-duration", "tag.creation-delay", "tag.period-formatter",
        "tag.automatic-completion", "sink.process-time-zone", "sink.watermark-time-zone", "end-input.watermark",
    }
)  # fmt: skip
"""These say how soon tags are made by themselves: where `tag.num-retained-max` bounds them, each new one takes an old one away."""
