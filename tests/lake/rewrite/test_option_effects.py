"""What an option does is seen with it and gone without it; every option that works has such a proof here or names its test."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake import Lake, LakeTable
from lake.rewrite.auto_tags import create_automatic_tags
from lake.rewrite.compaction import plan
from lake.rewrite.expiry import create_tag, expire_snapshots, tags_of
from lake.rewrite.maintenance import maintain
from lake.rewrite.partition_expiry import drop_partitions
from model.errors import LakeError
from model.options.table import TABLE_OPTIONS
from model.predicate import Compare, Op
from model.schema.change import UpdateColumnNullability
from model.snapshot import CommitKind
from sql.execution.writing import append_batches
from table.format.consumers import write_consumer
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import fit
from table.retention.expiry import ExpiryRules
from table.scan.planning.entry_scan import plan_scan
from table.write.snapshot_builder import CommitRequest
from tests.lake.kept import history
from tests.lake.rewrite import reads_observed, rules_observed, writes_observed
from tests.lake.rewrite.test_compaction import append
from tests.short import one_in
from tests.sql.tables import make_table

ROOT = Path(__file__).parents[3]
Observe = Callable[[Lake, Mapping[str, str]], Any]
UNORDERED = {"bucket": "-1"}


def _table(lake: Lake, options: Mapping[str, str]) -> LakeTable:
    return make_table(lake, f"t{time.monotonic_ns()}", options={**UNORDERED, **options}, partition="dt", id="INT", dt="DATE", s="STRING")


def _rows(lake: Lake, table: LakeTable, count: int, day: dt.date | None = dt.date(2024, 1, 2)) -> None:
    append(lake, table, list(range(count)), dt=[day] * count, s=[f"word {n % 7}" * 9 for n in range(count)])


def written(lake: Lake, options: Mapping[str, str]) -> Any:
    """The files of two writes: where they lie, how they are called, how they are made, what manifests say of them."""
    table = _table(lake, options)
    _rows(lake, table, 8000)
    _rows(lake, table, 3, None)
    found = []
    for entry in table.files.live_entries(table.latest()):
        path = table.files.data_path(table.schema, entry)
        name = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "*", path.removeprefix(table.location))
        file = pq.ParquetFile(path) if path.endswith(".parquet") else None
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)] if file else []
        chunks = [(c.compression, tuple(sorted(c.encodings)), c.total_compressed_size) for g in groups for c in (g.column(0), g.column(1))]
        found.append((name, chunks, entry.file.row_count, entry.file.value_stats, entry.file.value_stats_cols))
    return sorted(found, key=repr)


def row_groups(lake: Lake, options: Mapping[str, str]) -> Any:
    """Into how many groups of rows a file is parted."""
    table = _table(lake, {"parquet.enable.dictionary": "false", "file.compression": "none", **options})
    rows = {"id": list(range(8000)), "dt": [dt.date(2024, 1, 2)] * 8000, "s": ["a longer text of the row"] * 8000}
    batch = pa.RecordBatch.from_pydict(rows, schema=arrow_schema(table.schema.fields))
    append_batches(lake, table, [fit(batch, table.schema)] * 4)
    (entry,) = table.files.live_entries(table.latest())
    return pq.ParquetFile(table.files.data_path(table.schema, entry)).metadata.num_row_groups


def altered(lake: Lake, options: Mapping[str, str]) -> bool:
    """Whether a column may become NOT NULL."""
    table = _table(lake, options)
    try:
        lake.alter_table(table.identifier, [UpdateColumnNullability(name="s", nullable=False)])
    except LakeError:
        return False
    return True


def taken(lake: Lake, options: Mapping[str, str]) -> bool:
    """Whether rows of a partition are taken whose time the table's format does not read."""
    table = _table(lake, {"partition.timestamp-formatter": "yyyyMMdd", **options})
    try:
        _rows(lake, table, 1)
    except LakeError:
        return False
    return True


def merged(full: bool, *sizes: int) -> Observe:
    """How many files each merge would take."""

    def observe(lake: Lake, options: Mapping[str, str]) -> Any:
        table = _table(lake, {"target-file-size": "4 kb", "source.split.open-file-cost": "1 b", **options})
        for size in sizes:
            _rows(lake, table, size)
        return [len(task.inputs) for task in plan(table, full=full)]

    return observe


def tagged(lake: Lake, options: Mapping[str, str]) -> Any:
    """The tags of a moment, and how long they stay."""
    table = _table(lake, {"tag.automatic-creation": "process-time", **options})
    _rows(lake, table, 1)
    create_automatic_tags(lake, table, now=dt.datetime(2024, 5, 6, 7, 8))
    return [(tag.name, tag.retained) for tag in tags_of(lake, table)]


def tagged_now(lake: Lake, options: Mapping[str, str]) -> Any:
    """The tag of the present hour."""
    table = _table(lake, {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly", **options})
    _rows(lake, table, 1)
    return create_automatic_tags(lake, table)


def tagged_by_watermark(lake: Lake, options: Mapping[str, str]) -> Any:
    """The tag of the hour a watermark lies in."""
    table = _table(lake, {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly", **options})
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=1_700_000_000_000))
    return create_automatic_tags(lake, table)


def old_tags(lake: Lake, options: Mapping[str, str]) -> Any:
    """The tags whose time is over and that maintenance leaves."""
    table = _table(lake, options)
    _rows(lake, table, 1)
    create_tag(lake, table, "brief", retained=dt.timedelta(0))
    time.sleep(0.01)
    maintain(lake, table)
    return [tag.name for tag in tags_of(lake, table)]


def expired(lake: Lake, options: Mapping[str, str]) -> Any:
    """The partitions that are too old."""
    more = {**UNORDERED, "partition.expiration-time": "7 d", **options}
    table = make_table(lake, f"t{time.monotonic_ns()}", options=more, partition="at", id="INT", at="STRING")
    append(lake, table, [1, 2, 3], at=["2020-01-01", "2020-01", "2020-01-02"])
    return maintain(lake, table).partitions_gone


def pinned(lake: Lake, options: Mapping[str, str]) -> Any:
    """The snapshots left where a consumer has read the first alone."""
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "0 s"}
    table = _table(lake, {**few, **options})
    for _ in range(4):
        _rows(lake, table, 1)
    write_consumer(table.files, "c", 2)
    expire_snapshots(lake, table, ExpiryRules.of(table.schema))
    return history(lake, table)


def directories_left(lake: Lake, options: Mapping[str, str]) -> Any:
    """The directories of partitions when the snapshots that had rows of the first have expired."""
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "0 s"}
    table = _table(lake, {**few, **options})
    for day in (2, 3):
        _rows(lake, table, 1, dt.date(2024, 1, day))
    drop_partitions(lake, table, lake.partitions(table, table.latest())[:1])
    maintain(lake, table)
    return [str(path.relative_to(table.location)) for path in sorted(Path(table.location).rglob("*=*/**"))]


def skipped(lake: Lake, options: Mapping[str, str]) -> int:
    """The files a condition leaves."""
    table = _table(lake, {"file-index.bloom-filter.columns": "s", "metadata.stats-mode": "none", **options})
    for _ in range(3):
        _rows(lake, table, 5)
    return len(plan_scan(table.files, table.schema, table.latest(), Compare(column="s", op=Op.EQ, value="nowhere")).files)


EFFECTS: Mapping[str, tuple[str, Observe]] = {
    "partition.default-name": ("nothing", written),
    "partition.legacy-name": ("false", written),
    "data-file.prefix": ("rows-", written),
    "data-file.path-directory": ("data", written),
    "file.suffix.include.compression": ("true", written),
    "file.format": ("orc", written),
    "file.compression": ("snappy", written),
    "file.compression.zstd-level": ("19", written),
    "file.block-size": ("8 kb", row_groups),
    "parquet.enable.dictionary": ("false", written),
    "target-file-row-num": ("1000", written),
    "metadata.stats-mode": ("counts", written),
    "metadata.stats-dense-store": ("false", lambda lake, options: written(lake, {"fields.s.stats-mode": "none", **options})),
    "metadata.stats-keep-first-n-columns": ("1", written),
    "alter-column-null-to-not-null.disabled": ("false", altered),
    "compaction.small-file-ratio": ("0.01", merged(False, 5, 5, 5, 5, 5, 5)),
    "compaction.min.file-num": ("3", merged(False, 5, 5, 5)),
    "source.split.open-file-cost": ("4 mb", merged(False, 5, 5, 5)),
    "compaction.file-num-limit": ("5", merged(False, *[5] * 12)),
    "compaction.force-rewrite-all-files": ("true", merged(True, 8000, 8000)),
    "compaction.skip-expired-partitions": (
        "true",
        lambda lake, options: merged(False, *[5] * 12)(lake, {"partition.expiration-time": "7 d", **options}),
    ),
    "snapshot.clean-empty-directories": ("true", directories_left),
    "tag.creation-period": ("hourly", tagged),
    "tag.creation-period-duration": ("15 min", tagged),
    "tag.creation-delay": ("3 d", tagged),
    "tag.period-formatter": ("without_dashes", tagged),
    "tag.default-time-retained": ("9 h", tagged),
    "tag.time-expire-enabled": ("false", old_tags),
    "sink.process-time-zone": ("Etc/GMT-14", tagged_now),
    "sink.watermark-time-zone": ("Etc/GMT-9", tagged_by_watermark),
    "partition.expiration-max-num": ("1", expired),
    "partition.timestamp-formatter": ("yyyy-MM", expired),
    "partition.timestamp-pattern": ("$at-01", expired),
    "partition.timestamp-format.strict": ("true", taken),
    "file-index.read.enabled": ("false", skipped),
    **rules_observed.EFFECTS,
    **reads_observed.EFFECTS,
    **writes_observed.EFFECTS,
}
"""A value for each, and what is observed with it and without."""
SHOWN: Mapping[str, str] = {
    "write-buffer-size": "tests/table/write/test_wide_writes.py",
    "write-buffer-spillable": "tests/table/write/test_wide_writes.py",
    "write-buffer-spill.max-disk-size": "tests/table/write/test_wide_writes.py",
    "write-max-writers-to-spill": "tests/table/write/test_wide_writes.py",
    "commit.max-retries": "tests/lake/commit/test_retries.py",
    "commit.timeout": "tests/lake/commit/test_retries.py",
    "commit.min-retry-wait": "tests/lake/commit/test_retries.py",
    "commit.max-retry-wait": "tests/lake/commit/test_retries.py",
    "bucket-append-ordered": "tests/table/compaction/test_clustering.py",
    "clustering.columns": "tests/table/compaction/test_clustering.py",
    "clustering.incremental": "tests/table/compaction/test_clustering.py",
    "clustering.strategy": "tests/sql/spark/test_compaction.py",
    "clustering.history-partition.idle-to-full-sort": "tests/table/compaction/test_clustering.py",
    "clustering.history-partition.limit": "tests/table/compaction/test_clustering.py",
    "clustering.incremental.mode": "tests/sql/spark/test_compaction.py",
    "clustering.incremental.optimize-write": "tests/sql/spark/test_compaction.py",
    "zorder.var-length-contribution": "tests/sql/spark/test_compaction.py",
    "sort-compaction.range-strategy": "tests/sql/spark/test_ranges.py",
    "sort-compaction.local-sample.magnification": "tests/sql/spark/test_ranges.py",
    "drop.retention": "tests/lake/tables/test_drops.py",
    "partition.mark-done-action.mode": "tests/lake/rewrite/test_done.py",
    "partition.end-input-to-done": "tests/lake/rewrite/test_done.py",
    "partition.idle-time-to-done": "tests/lake/rewrite/test_done.py",
    "partition.time-interval": "tests/lake/rewrite/test_done.py",
    "full-compaction.delta-commits": "tests/maintenance/test_coordinator.py",
    "precommit-compact": "tests/sql/spark/test_job_query.py",
    "compaction.delete-ratio-threshold": "tests/sql/statements/test_deletions.py",
    "continuous.discovery-interval": "tests/server/streams/test_streams.py",
    "scan.max-snapshot.count": "tests/server/streams/test_spark_source.py",
    "scan.plan-sort-partition": "tests/server/streams/test_spark_source.py",
    "scan.bounded": "tests/sql/local/test_stream_checks.py",
    "scan.watermark.idle-timeout": "tests/sql/spark/test_alignment.py",
    "scan.watermark.alignment.group": "tests/jobs/test_alignment.py",
    "scan.watermark.alignment.max-drift": "tests/jobs/test_alignment.py",
    "metastore.partitioned-table": "tests/server/paimon/test_metadata.py",
    "partition": "tests/model/test_schema.py",
    "rows.erasable": "tests/sql/statements/test_delete.py",
    "dynamic-partition-overwrite": "tests/sql/spark/test_named_partitions.py",
}
"""Where a test elsewhere shows what an option does; `test_options_taken_away.py` sees it fail without."""
UNSHOWN = frozenset({"type", "manifest.compression"})
"""They have one value; whoever declares an option adds none here."""


def test_every_option_that_works_is_shown_once() -> None:
    works = {option.key for option in TABLE_OPTIONS if not option.kept and option.parser.kind != "false"}
    assert works == {*EFFECTS, *SHOWN, *UNSHOWN}
    assert len(works) == len(EFFECTS) + len(SHOWN) + len(UNSHOWN)


@pytest.mark.parametrize("key", one_in(2, sorted(EFFECTS)))
def test_with_the_option_something_is_other_than_without(lake: Lake, key: str) -> None:
    value, observe = EFFECTS[key]
    without = observe(lake, {})
    assert observe(lake, {}) == without  # nothing but the option makes a difference
    assert observe(lake, {key: value}) != without


@pytest.mark.parametrize("key", sorted(SHOWN))
def test_the_named_test_speaks_of_the_option(key: str) -> None:
    assert re.search(rf"""["']{re.escape(key)}["']""", (ROOT / SHOWN[key]).read_text())


def test_what_a_consumer_has_not_read_stays_also_with_changelogs_alone(lake: Lake) -> None:
    assert pinned(lake, {"consumer.changelog-only": "true", "changelog.num-retained.max": "9"}) == pinned(lake, {}) == [2, 3, 4]
