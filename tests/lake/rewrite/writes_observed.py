"""What options do that say how rows are written and how long they stay: of files, manifests, tags, snapshots and partitions."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lake import Lake, LakeTable
from lake.rewrite.auto_tags import create_automatic_tags
from lake.rewrite.compaction import plan
from lake.rewrite.expiry import expire_snapshots, tags_of
from lake.rewrite.maintenance import maintain
from model.errors import LakeError
from model.predicate import Compare, Op
from model.schema.change import AddColumn, UpdateColumnType
from model.schema.types import IntType
from sql.execution.writing import append_batches
from table.format.consumers import write_consumer
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import fit
from table.retention.expiry import ExpiryRules
from table.scan.planning.entry_scan import plan_scan
from tests.lake.kept import history
from tests.lake.rewrite.test_compaction import append
from tests.sql.tables import make_table

Observe = Callable[[Lake, Mapping[str, str]], Any]
BUCKETS = {"bucket": "3", "bucket-key": "id"}
AT_ONCE = {"snapshot.time-retained": "0 s", "snapshot.num-retained.min": "1"}
OLD = {"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyy-MM-dd"}


def made(lake: Lake, options: Mapping[str, str], *, of: Mapping[str, str] | None = None) -> LakeTable:
    """An empty table without buckets, or as ``of`` says, with the options."""
    given = {**({"bucket": "-1"} if of is None else of), **options}
    return make_table(lake, f"t{time.monotonic_ns()}", options=given, partition="day", id="BIGINT", day="STRING", s="STRING")


def put(lake: Lake, table: LakeTable, count: int, day: str = "2024-01-02") -> None:
    append(lake, table, list(range(count)), day=[day] * count, s=[f"word {n}" for n in range(count)])


def placed(of: Mapping[str, str]) -> Observe:
    """In which bucket each row lies."""

    def observe(lake: Lake, options: Mapping[str, str]) -> Any:
        table = made(lake, options, of=of)
        put(lake, table, 60)
        return sorted((entry.bucket, entry.file.row_count) for entry in table.files.live_entries(table.latest()))

    return observe


def files(lake: Lake, options: Mapping[str, str]) -> int:
    """How many files a write makes of batches that come one by one."""
    table = made(lake, options)
    fields = [table.schema.field(name) for name in ("id", "day", "s")]
    texts = [f"{n * 7919 % 100_003}" * 9 for n in range(5000)]
    rows = {"id": list(range(5000)), "day": ["2024-01-02"] * 5000, "s": texts}
    batch = pa.RecordBatch.from_pydict(rows, schema=arrow_schema(fields))
    append_batches(lake, table, [fit(batch, table.schema)] * 6)
    return len(list(table.files.live_entries(table.latest())))


def manifests(times: int) -> Observe:
    """How many manifests the last of several commits names."""

    def observe(lake: Lake, options: Mapping[str, str]) -> int:
        table = made(lake, options)
        for n in range(times):
            put(lake, table, 2, f"2024-01-{n % 20 + 1:02}")
        latest = table.latest()
        assert latest is not None
        return len(table.files.manifests_of(latest))

    return observe


def committed(lake: Lake, options: Mapping[str, str]) -> tuple[str, int | None]:
    """What a commit says of its user and its watermark."""
    table = made(lake, options)
    put(lake, table, 1)
    latest = table.latest()
    assert latest is not None
    return latest.commit_user.rpartition("_")[0], latest.watermark


def index_files(lake: Lake, options: Mapping[str, str]) -> int:
    """How many indexes lie beside their files."""
    table = made(lake, {"file-index.bloom-filter.columns": "s", **options})
    put(lake, table, 5)
    return len(list(Path(table.location).rglob("*.index")))


def skipped(condition: Compare) -> Observe:
    """The files that a condition leaves which their statistics cannot skip."""

    def observe(lake: Lake, options: Mapping[str, str]) -> int:
        table = made(lake, {"metadata.stats-mode": "none", **options})
        put(lake, table, 5)
        return len(plan_scan(table.files, table.schema, table.latest(), condition).files)

    return observe


def snapshots(lake: Lake, options: Mapping[str, str]) -> list[int]:
    """Those that maintenance leaves of five."""
    table = made(lake, {**AT_ONCE, **options})
    for _ in range(5):
        put(lake, table, 1)
    time.sleep(0.01)
    maintain(lake, table)
    return history(lake, table)


def expired(lake: Lake, options: Mapping[str, str]) -> tuple[int, ...]:
    """The snapshots that one run takes away."""
    table = made(lake, {**AT_ONCE, **options})
    for _ in range(5):
        put(lake, table, 1)
    time.sleep(0.01)
    return tuple(expire_snapshots(lake, table, ExpiryRules.of(table.schema)).snapshots)


def gone(lake: Lake, options: Mapping[str, str]) -> tuple[int, int]:
    """The old partitions that maintenance leaves, and how many snapshots there are then."""
    table = made(lake, {"partition.timestamp-formatter": "yyyy-MM-dd", **options})
    for day in ("2020-01-01", "2020-01-02", "2020-01-03"):
        put(lake, table, 1, day)
    maintain(lake, table)
    return len(lake.partitions(table, table.latest())), len(history(lake, table))


def marked(lake: Lake, options: Mapping[str, str]) -> list[str]:
    """What says of an old partition that it is done."""
    given = {"partition.timestamp-formatter": "yyyy-MM-dd", "partition.time-interval": "1 d", "partition.idle-time-to-done": "1 ms"}
    table = made(lake, {**given, **options})
    put(lake, table, 1, "2020-01-01")
    time.sleep(0.01)
    maintain(lake, table)
    return sorted(path.name for path in Path(table.location).rglob("_SUCCESS"))


def tagged(*moments: dt.datetime, **more: str) -> Observe:
    """The tags that are there after these moments."""

    def observe(lake: Lake, options: Mapping[str, str]) -> list[str]:
        table = made(lake, {**{key.replace("__", ".").replace("_", "-"): value for key, value in more.items()}, **options})
        put(lake, table, 1)
        for now in moments:
            create_automatic_tags(lake, table, now=now)
        return [tag.name for tag in tags_of(lake, table)]

    return observe


def consumers(lake: Lake, options: Mapping[str, str]) -> int:
    """Those that maintenance leaves of one that is idle."""
    table = made(lake, options)
    put(lake, table, 1)
    write_consumer(table.files, "c", 2)
    time.sleep(0.05)
    maintain(lake, table)
    return len(lake.consumers(table))


def merged(lake: Lake, options: Mapping[str, str]) -> list[int]:
    """How many small files of a bucket each merge takes."""
    table = made(lake, options, of={"bucket": "1", "bucket-key": "id"})
    for _ in range(4):
        put(lake, table, 3)
    return [len(task.inputs) for task in plan(table, full=False)]


def columns(lake: Lake, options: Mapping[str, str]) -> list[str]:
    """The order of columns when one was added."""
    table = made(lake, options)
    lake.alter_table(table.identifier, [AddColumn(name="more", type=IntType())])
    return [field.name for field in lake.open(table.identifier).schema.fields]


def narrowed(lake: Lake, options: Mapping[str, str]) -> bool:
    """Whether a number's type may become a smaller one."""
    table = made(lake, options)
    try:
        lake.alter_table(table.identifier, [UpdateColumnType(name="id", type=IntType())])
    except LakeError:
        return False
    return True


DAY = dt.datetime(2026, 1, 5, 7, 8)
EFFECTS: Mapping[str, tuple[str, Observe]] = {
    "bucket": ("2", placed(BUCKETS)),
    "bucket-key": ("s", placed(BUCKETS)),
    "bucket-function.type": ("mod", placed(BUCKETS)),
    "target-file-size": ("20 kb", files),
    "manifest.target-file-size": ("1 b", manifests(40)),
    "manifest.merge-min-count": ("3", manifests(8)),
    "manifest.full-compaction-threshold-size": ("1 b", manifests(8)),
    "commit.user-prefix": ("etl", committed),
    "end-input.watermark": ("1714557600000", committed),
    "file-index.in-manifest-threshold": ("9 mb", index_files),
    "file-index.bloom-filter.columns": ("s", skipped(Compare(column="s", op=Op.EQ, value="nowhere"))),
    "file-index.bitmap.columns": ("s", skipped(Compare(column="s", op=Op.EQ, value="nowhere"))),
    "file-index.range-bitmap.columns": ("id", skipped(Compare(column="id", op=Op.GT, value=1000))),
    "snapshot.num-retained.min": ("4", lambda lake, options: snapshots(lake, {"snapshot.num-retained.max": "4", **options})),
    "snapshot.num-retained.max": ("2", lambda lake, options: snapshots(lake, {"snapshot.time-retained": "1 h", **options})),
    "snapshot.time-retained": ("1 h", snapshots),
    "snapshot.expire.limit": ("1", expired),
    "write-only": ("true", snapshots),
    "partition.expiration-time": ("7 d", gone),
    "partition.expiration-strategy": ("update-time", lambda lake, options: gone(lake, {**OLD, **options})),
    "partition.expiration-batch-size": ("1", lambda lake, options: gone(lake, {**OLD, **options})),
    "partition.mark-done-action": ("done-partition", marked),
    "tag.automatic-creation": ("process-time", tagged(DAY)),
    "tag.num-retained-max": ("1", tagged(DAY, DAY + dt.timedelta(days=1), tag__automatic_creation="process-time")),
    "tag.automatic-completion": ("true", tagged(DAY, DAY + dt.timedelta(days=3), tag__automatic_creation="process-time")),
    "tag.batch.customized-name": ("last", tagged(DAY, tag__automatic_creation="batch")),
    "consumer.expiration-time": ("1 ms", consumers),
    "compaction.max.file-num": ("3", merged),
    "add-column-before-partition": ("true", columns),
    "disable-explicit-type-casting": ("true", narrowed),
}
"""A value for each, and what is observed with it and without."""
