"""Clustered tables: columns by which rows are sorted, so that conditions on them skip files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model.errors import InvalidOption
from model.options.option import Option, boolean, columns, duration, integer, one_of, optional
from model.schema.types import AtomicType, Field

BUCKET_APPEND_ORDERED = Option(
    "bucket-append-ordered",
    boolean(),
    True,
    "Whether the order inside a bucket is a promise to readers. Without it, too, it is kept here, unless 'clustering.incremental' sorts.",
)
CLUSTERING_COLUMNS = Option(
    "clustering.columns",
    columns(),
    "",
    "Columns, parted by commas, by which incremental clustering sorts rows, and Spark's bulk writes ('bucket' = '-1').",
    former=("sink.clustering.by-columns",),
)
INCREMENTAL = Option(
    "clustering.incremental",
    boolean(),
    False,
    "Merge files by sorting ever more of them together, instead of by size alone; with buckets needs 'bucket-append-ordered' = 'false'.",
)
CLUSTERING_OPTIONS: tuple[Option[Any], ...] = (
    CLUSTERING_COLUMNS,
    Option(
        "clustering.strategy",
        one_of("auto", "order", "zorder", "hilbert"),
        "auto",
        "Auto (1 col order, <5 zorder, else hilbert).",
        former=("sink.clustering.strategy",),
    ),
    INCREMENTAL,
    Option(
        "clustering.incremental.mode",
        one_of("global-sort", "local-sort"),
        "global-sort",
        "Whether files sorted together follow one another, or each task sorts what it reads.",
    ),
    Option("clustering.incremental.optimize-write", boolean(), False, "Incremental clustering: also sort what bulk writes add."),
    Option(
        "clustering.history-partition.idle-to-full-sort",
        optional(duration()),
        None,
        "Idle time after which a partition a call did not choose is sorted as a whole along with it.",
    ),
    Option("clustering.history-partition.limit", integer(at_least=1), 5, "Max history partitions handled per run."),
    Option("num-levels", optional(integer(at_least=2)), None, "Incremental clustering: levels of files; without it one more than runs."),
    Option("num-sorted-run.compaction-trigger", integer(at_least=1), 5, "Incremental clustering: runs from which some are merged."),
    Option(
        "compaction.max-size-amplification-percent",
        integer(at_least=0),
        200,
        "Incremental clustering: size of the younger runs, in per cent of the oldest, from which all are sorted together.",
    ),
    Option("compaction.size-ratio", integer(at_least=0), 1, "Incremental clustering: per cent by which the next run may be larger."),
)


def cluster_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns rows are sorted by; none where the table is not clustered."""
    return tuple(name.strip() for name in CLUSTERING_COLUMNS.read(options).split(",") if name.strip())


def check_clustering(options: Mapping[str, str], find: Callable[[str], Field | None], bucket: int) -> None:
    """Raise `InvalidOption` for clustering that cannot be done."""
    columns = cluster_columns(options)
    incremental = INCREMENTAL.read(options)
    if not columns and not incremental:
        return
    if incremental and bucket > 0 and BUCKET_APPEND_ORDERED.read(options):
        raise InvalidOption(
            "Option 'clustering.incremental': rows in buckets keep the order they came in, and sorting them would break it; "
            "'bucket-append-ordered' = 'false' gives it up."
        )
    if not columns:
        raise InvalidOption("Option 'clustering.incremental' needs 'clustering.columns': the columns rows are sorted by.")
    for name in columns:
        field = find(name)
        if field is None:
            raise InvalidOption(f"Option 'clustering.columns': there is no column {name}.")
        if not isinstance(field.type, AtomicType):
            raise InvalidOption(f"Option 'clustering.columns': column {name} is {field.type.sql()}, by which rows cannot be sorted.")
