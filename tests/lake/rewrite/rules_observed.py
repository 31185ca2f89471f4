"""What options do that are read by rules: of incremental clustering, of spill files, of streams, of retention, of alignment."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lake import Lake
from maintenance.retention import Retention
from model.schema.schema import column, new_schema
from model.work.job import JobLease
from sql.spark.streaming.alignment import Alignment, rule_of
from table.compaction.clustering import choose_clusters
from table.write.spill import BufferRules, Spill
from tests.lake.rewrite.test_compaction import append
from tests.sql.spark.test_alignment import tell
from tests.sql.tables import make_table
from tests.table.compaction.test_clustering import at, rules_of

Observe = Callable[[Lake, Mapping[str, str]], Any]


def clustered(*files: tuple[int, int]) -> Observe:
    """How many files of these levels and sizes are sorted together, and the level they go to."""

    def observe(_: Lake, options: Mapping[str, str]) -> Any:
        live = [at(level, size, n) for n, (level, size) in enumerate(files)]
        tasks = choose_clusters(rules_of(**options), live, full=False, columns_at=lambda _: ("a", "b"))
        return [(len(task.inputs), task.level) for task in tasks]

    return observe


def spilled(_: Lake, options: Mapping[str, str]) -> int:
    """The bytes of rows that were put aside."""
    spill = Spill(BufferRules.of(new_schema([column("a", "INT")], options={"bucket": "-1", **options})))
    spill.put(iter([("key", pa.RecordBatch.from_pydict({"a": pa.array([7] * 10_000, pa.int32())}))]))
    size = spill.size
    spill.close()
    return size


def streamed_at_once(lake: Lake, options: Mapping[str, str]) -> list[int]:
    """The snapshots that a stream gives as soon as they are there."""
    table = make_table(lake, f"t{time.monotonic_ns()}", id="INT")
    append(lake, table, [1])
    stream = lake.follow(table, {"scan.snapshot-id": "1", **options})
    try:
        steps = stream.steps()
        return [step.snapshot.id for step in (next(steps), next(steps)) if step is not None]
    finally:
        stream.close()


def partitions_kept(lake: Lake, options: Mapping[str, str]) -> int:
    """The partitions that are too old and there a moment after others have gone."""
    more = {"bucket": "-1", "partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyy-MM-dd", **options}
    table = make_table(lake, f"t{time.monotonic_ns()}", options=more, partition="at", id="INT", at="STRING")
    retention = Retention(lake, table.table_id, table.identifier)
    for day in ("2020-01-01", "2020-01-02"):
        append(lake, table, [1], at=[day])
        time.sleep(0.01)
        retention.work(table.identifier, day)
    return len(lake.partitions(table, table.latest()))


def looks_often(lake: Lake, options: Mapping[str, str]) -> bool:
    """Whether who waits for its alignment group looks more than three times in 1.9 seconds."""
    for name in ("slow", "fast"):
        lake.jobs.create(name=name, statement="INSERT …", database="default", settings={}, tables={})
    with lake.catalog.transaction() as tx:
        jobs = tx.jobs.take(uuid4(), "here", most=2)
    group = {"scan.watermark.alignment.group": str(uuid4()), "scan.watermark.alignment.max-drift": "1 s", **options}
    rule = rule_of(group)
    assert rule is not None
    slow, fast = (Alignment(lake, rule, job.job_id, "0") for job in jobs)
    slow.advance(0)
    fast.advance(dt.timedelta(hours=1) // dt.timedelta(milliseconds=1))
    tell(lake, JobLease(job_id=jobs[0].job_id, epoch=jobs[0].epoch), **{"0": slow.told(over=False)})
    until = time.monotonic() + 1.9
    looks = 0

    def stopping() -> bool:
        nonlocal looks
        looks += 1
        return looks > 3 or time.monotonic() > until

    fast.wait(stopping)
    return looks > 3


EFFECTS: Mapping[str, tuple[str, Observe]] = {
    "num-levels": ("8", clustered(*[(0, 10)] * 5)),
    "num-sorted-run.compaction-trigger": ("3", clustered(*[(0, 10)] * 3)),
    "compaction.max-size-amplification-percent": ("1", clustered(*[(0, 10)] * 5, (5, 1000))),
    "compaction.size-ratio": ("50", clustered(*[(0, 10)] * 5, (4, 60), (5, 10_000))),
    "spill-compression": ("none", spilled),
    "streaming.read.snapshot.delay": ("1 h", streamed_at_once),
    "partition.expiration-check-interval": ("1 ms", partitions_kept),
    "scan.watermark.alignment.update-interval": ("10 ms", looks_often),
}
"""A value for each, and what is observed with it and without."""
