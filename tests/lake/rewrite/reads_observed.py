"""What options do that say what is read: of a batch read's files, of a stream's steps."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from typing import Any

from lake import Lake, LakeTable
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.scan.time_travel import plan_batch
from table.write.snapshot_builder import CommitRequest, everything
from tests.lake.test_commit import append

Observe = Callable[[Lake, Mapping[str, str]], Any]
OPTIONS = {"bucket": "1", "bucket-key": "id", "tag.automatic-creation": "process-time", "tag.creation-period": "daily"}


def past(lake: Lake) -> LakeTable:
    """Snapshots: 1 +a, 2 +b, 3 compacts a and b into c, 4 +d, 5 overwrites all with e, 6 +f; the later the larger the watermark."""
    identifier = Identifier("default", f"t{time.monotonic_ns()}")
    lake.create_table(identifier, new_schema([column("id", "BIGINT")], options=OPTIONS))
    table = lake.open(identifier)
    lake.commit(table, append("a", watermark=1))
    time.sleep(0.002)  # snapshots are told apart by their milliseconds
    lake.commit(table, append("b", watermark=2))
    time.sleep(0.002)
    old = tuple(table.files.live_entries(table.latest()))
    lake.commit(table, CommitRequest(kind=CommitKind.COMPACT, adds=append("c", rows=2).adds, deletes=old, commit_user="u"))
    lake.commit(table, append("d", watermark=4))
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=append("e").adds, overwrite=everything, commit_user="u", watermark=5))
    lake.commit(table, append("f", watermark=6))
    for name, snapshot in (("old", 1), ("new", 6), ("2026-01-01", 2), ("2026-01-02", 4)):
        lake.tags.create(table, name, snapshot_id=snapshot)
    return table


def read(lake: Lake, options: Mapping[str, str]) -> list[str]:
    """The files of a batch read, its options' times being those of the table's snapshots."""
    table = past(lake)
    at = {s.id: s.time_millis for s in lake.history.page(table, below=None, limit=9)}
    clock = dt.datetime.fromtimestamp(at[2] / 1000, dt.UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    given = {key: value.format(first=at[1], second=at[2], clock=clock) for key, value in options.items()}
    return [one.file.file_name for one in plan_batch(table.files, table.schema, lake.scan(table, given)).files]


def beside(**other: str) -> Observe:
    """The same beside another option."""
    return lambda lake, options: read(lake, {**{key.replace("_", "-"): value for key, value in other.items()}, **options})


def followed(lake: Lake, table: LakeTable, options: Mapping[str, str]) -> list[list[str] | None]:
    """The files of each of a stream's steps, and None where it waits for more."""
    stream = lake.follow(table, {"scan.snapshot-id": "1", **options})
    found: list[list[str] | None] = []
    try:
        for step in stream.steps():
            found.append(None if step is None else [one.file.file_name for one in step.planned])
            if step is None:
                break
    finally:
        stream.close()
    return found


def steps(lake: Lake, options: Mapping[str, str]) -> list[list[str] | None]:
    """The same of the whole past."""
    return followed(lake, past(lake), options)


def went_on(lake: Lake, options: Mapping[str, str]) -> list[list[str] | None]:
    """The same of a stream that begins where another has ended before."""
    table = past(lake)
    followed(lake, table, {"scan.bounded.watermark": "2", **options})
    return followed(lake, table, options)


EFFECTS: Mapping[str, tuple[str, Observe]] = {
    "scan.mode": ("latest-delta", read),
    "scan.snapshot-id": ("2", read),
    "scan.timestamp-millis": ("{second}", read),
    "scan.timestamp": ("{clock}", read),
    "scan.creation-time-millis": ("9999999999999", read),
    "scan.file-creation-time-millis": ("2", read),
    "scan.tag-name": ("old", read),
    "scan.version": ("old", read),
    "scan.watermark": ("2", read),
    "incremental-between": ("1,4", read),
    "incremental-between-timestamp": ("{first},{second}", read),
    "incremental-to-auto-tag": ("2026-01-02", read),
    "incremental-between-scan-mode": ("diff", beside(incremental_between="1,6")),
    "incremental-between-tag-to-snapshot": ("true", beside(incremental_between="old,new")),
    "scan.bounded.watermark": ("2", steps),
    "streaming-read-append-overwrite": ("true", steps),
    "consumer-id": ("c", went_on),
    "consumer.ignore-progress": ("true", lambda lake, options: went_on(lake, {"consumer-id": "c", **options})),
}
"""A value for each, and what is observed with it and without."""
