"""One process of `benchmarks.planning`: plans scans of the table there and tells as JSON how long that took and what memory it had.

``python -m benchmarks.planning_worker TABLE FILES CACHE ACT``, where CACHE is the directory of decoded manifests.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.timing import median_millis
from model.predicate import And, Compare, Op, Predicate
from model.snapshot import CommitKind
from model.work.work_limits import MaintenanceLimits
from server.process.process import do_without_pandas
from table.compaction.backlog import BacklogLedger
from table.compaction.candidates import CompactionRules
from table.format.io.file_io import LocalFileIO
from table.format.manifests.codec import decode_manifest
from table.format.manifests.entries import EMPTY_ROW, DataFile, NewFile, SimpleStats
from table.format.store import TableFiles
from table.scan.planning.column_cache import COLUMNS
from table.scan.planning.entry_scan import plan_entries, plan_scan
from table.scan.planning.plan import ScanPlan
from table.write.snapshot_builder import CommitRequest, build_snapshot

START = dt.datetime(2024, 1, 1)


def memory(key: str) -> int:
    """A line of the process's status in MiB: ``VmHWM`` is the most there was in memory, mapped files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(f"{key}:"))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and the result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


class Work:
    """The acts."""

    def __init__(self, location: str, count: int, cache: str) -> None:
        self.files = TableFiles(LocalFileIO(), location)
        self.schema = self.files.read_schema(0)
        latest = self.files.read_snapshot(1)
        assert latest is not None
        self.latest = latest
        self.count = count
        COLUMNS.keep_in(Path(cache), 4 << 30)
        middle = START + dt.timedelta(seconds=count // 2)
        self.filters: dict[str, Predicate] = {
            "a number": Compare("a", Op.EQ, count * 5),
            "a text": Compare("s", Op.EQ, f"user-{count // 2:08d}"),
            "a time range": And((Compare("ts", Op.GE, middle), Compare("ts", Op.LT, middle + dt.timedelta(minutes=1)))),
        }

    def plan(self) -> dict[str, Any]:
        """Plan once with each filter, then again and again."""
        measured: dict[str, Any] = {"before": memory("VmRSS"), "first": {}, "again": {}}
        for name in self.filters:
            measured["first"][name], plan = timed(partial(self._planned, name))
            assert plan.total_files == self.count
            assert 0 < len(plan.files) < 100
        for name in self.filters:
            measured["again"][name] = median_millis(partial(self._planned, name), 50)
        measured["most"] = memory("VmHWM")
        measured["whole"], plan = timed(lambda: plan_scan(self.files, self.schema, self.latest))
        measured["rows"] = plan.kept_rows
        return measured

    def _planned(self, name: str) -> ScanPlan:
        return plan_scan(self.files, self.schema, self.latest, self.filters[name])

    def commit(self) -> dict[str, Any]:
        """Append a file; then look for small files as the compaction coordinator does when it takes the table over."""
        name = f"data-{time.time_ns()}-0.parquet"
        file = DataFile(
            file_name=name, file_size=9, row_count=1, value_stats=SimpleStats(), value_stats_cols=(), min_sequence_number=0,
            max_sequence_number=0, schema_id=0, creation_time_millis=0,
        )  # fmt: skip
        adds = (NewFile(partition=EMPTY_ROW, bucket=0, file=file),)
        request = CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u")
        taken, after = timed(lambda: build_snapshot(self.files, self.schema, self.latest, [request], uuid="u", time_millis=1))
        planned, _ = timed(lambda: plan_scan(self.files, self.schema, after, self.filters["a number"]))
        rules = CompactionRules.of(self.schema, task_bytes=MaintenanceLimits().job_bytes)
        ledger = BacklogLedger(rules, time.monotonic)

        def look() -> None:
            ledger.begin(self.files.live_of(after).sums(below=rules.small_bytes))

        looked, _ = timed(look)
        assert sum(debt.files for _, debt in ledger.items()) == self.count + 1
        return {"commit": taken, "plan": planned, "look": looked, "most": memory("VmHWM")}

    def plain(self) -> dict[str, Any]:
        """Decode every manifest and look at every entry, as it was done before there were columns."""

        def work() -> int:
            metas = self.files.manifests_of(self.latest)
            read = (self.files.io.read(self.files.layout.manifest(meta.file_name)) for meta in metas)
            entries = (entry for data in read for entry in decode_manifest(data))
            return len(plan_entries(self.files, self.schema, self.latest, entries, self.filters["a number"]).files)

        taken, files = timed(work)
        assert files == 1
        return {"plan": taken, "most": memory("VmHWM")}


def main() -> None:
    """Do one act."""
    do_without_pandas()  # as the server does
    location, count, cache, act = sys.argv[1:]
    work = Work(location, int(count), cache)
    print(json.dumps({"plan": work.plan, "commit": work.commit, "plain": work.plain}[act]()))


if __name__ == "__main__":
    main()
