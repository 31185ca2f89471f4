"""Planning a scan of a million files, most of which a filter leaves out; manifests are synthetic, data files there are none."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import median_millis, seconds
from benchmarks.peers import PYTHON, ROOT
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, ManifestEntry, ManifestFile
from table.format.rows.stats import ColumnStats, StatsModes
from table.format.store import TableFiles

LIMIT_SECONDS = 120
"""A peer that takes longer is given up."""
_PART = 100_000
_TARGET = 8 << 20
"""Bytes of a manifest, as tables have it by default."""
START = dt.datetime(2024, 1, 1)


def measure(run: Run) -> list[Table]:
    """Cold, after a restart and warm; memory; beside plain decoding and pypaimon."""
    count = run.size(1_000_000, 20_000)
    location = run.scratch / "warehouse" / "default.db" / "many"
    built = seconds(lambda: build(str(location), count))
    cache = run.scratch / "manifests"
    cold, restart = (_worker(location, count, cache, "plan") for _ in range(2))
    commit = _worker(location, count, cache, "commit")
    again = max(restart["again"].values())
    rows = [
        ("first plan of a process, nothing kept yet", f"{cold['first']['a number']:.1f} s", f"{cold['most']} MB", ""),
        ("first plan after a restart", _millis(restart["first"]["a number"]), f"{restart['most']} MB", "≤ 1 s, ≤ 1024 MB"),
        *((f"the same by {name}, p50", f"{millis:.1f} ms", "", "≤ 50 ms") for name, millis in restart["again"].items()),
        ("plan of all files", _millis(restart["whole"]), "", ""),
        ("append of one file", _millis(commit["commit"]), f"{commit['most']} MB", "≤ 1024 MB"),
        ("plan after it", _millis(commit["plan"]), "", ""),
        ("first look for small files", _millis(commit["look"]), "", ""),
        *_through_the_server(run, location, count),
    ]
    plain, peer = _worker(location, count, cache, "plain"), _peer(location, count)
    rows.append(("every entry decoded and looked at", _told(plain), _most(plain), _ratio(plain, again)))
    rows.append(("pypaimon on the same files, filter on a number", _told(peer), _most(peer), _ratio(peer, again)))
    size = sum(file.stat().st_size for file in cache.iterdir()) >> 20
    note = f"{count:,} files in manifests of 8 MB, made in {built:.0f} s; {size} MB of decoded manifests on disk."
    return [Table(head=("planning", "measured", "most memory", "goal"), rows=rows, note=note)]


def build(location: str, count: int) -> Snapshot:
    """A table of so many files, each a range of its own in three columns."""
    schema = new_schema([column("a", "BIGINT"), column("s", "STRING"), column("ts", "TIMESTAMP(6)")], options={"bucket": "-1"})
    files = TableFiles(LocalFileIO(), location)
    files.write_schema(schema)
    metas: list[ManifestFile] = []
    pending: list[ManifestEntry] = []
    for start in range(0, count, _PART):
        pending += _entries(StatsModes(schema), start, min(count, start + _PART))
        metas += files.new_manifests(pending, [], target=_TARGET)
        if start + _PART >= count or metas[-1].file_size >= _TARGET:
            pending = []
        else:  # a commit would merge it with the next
            short = metas.pop()
            pending = pending[-short.num_added_files :]
            files.io.delete(files.layout.manifest(short.file_name))
    base, delta = files.new_manifest_list(metas), files.new_manifest_list([])
    snapshot = Snapshot(
        id=1, uuid=str(uuid4()), schema_id=0, base_manifest_list=base[0], base_manifest_list_size=base[1], delta_manifest_list=delta[0],
        delta_manifest_list_size=delta[1], commit_user="benchmark", commit_identifier=1, commit_kind=CommitKind.APPEND,
        time_millis=int(time.time() * 1000), total_record_count=10 * count, delta_record_count=0,
    )  # fmt: skip
    with files.snapshots() as place:
        files.publish_snapshot(snapshot, place)
        files.write_hints(1, place, earliest=1)
    return snapshot


def _entries(modes: StatsModes, start: int, end: int) -> Iterator[ManifestEntry]:
    nothing = DataFile(
        file_name="", file_size=1 << 20, row_count=10, value_stats=modes.store({})[0], value_stats_cols=None, min_sequence_number=0,
        max_sequence_number=9, schema_id=0, creation_time_millis=0,
    )  # fmt: skip
    for n in range(start, end):
        moment = START + dt.timedelta(seconds=n)
        stats, cols = modes.store(
            {
                "a": ColumnStats(min=n * 10, max=n * 10 + 9, null_count=0),
                "s": ColumnStats(min=f"user-{n:08d}", max=f"user-{n:08d}z", null_count=0),
                "ts": ColumnStats(min=moment, max=moment + dt.timedelta(microseconds=999_999), null_count=0),
            }
        )
        name = f"data-{uuid4()}-0.parquet"
        file = replace(nothing, file_name=name, value_stats=stats, value_stats_cols=cols, creation_time_millis=1_700_000_000_000 + n)
        yield ManifestEntry(kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=-1, file=file)


def _through_the_server(run: Run, location: Path, count: int) -> list[tuple[str, ...]]:
    """A query that plans and reads nothing, over HTTP: by a server that takes the table over, then by the next on its directory."""
    query = f"SELECT a FROM many WHERE a = {count * 5} LIMIT 0"
    directory = Path(tempfile.mkdtemp(prefix="server-", dir=run.scratch))
    server = BenchServer(directory, run.scratch, {})
    try:
        server.wait_for_spark()
        server.sql(f"CALL sys.register_table('default.many', '{location}')")
        server.sql(query)
    finally:
        server.stop()
    server = BenchServer(directory, run.scratch, {})
    try:
        server.wait_for_spark()
        first = seconds(lambda: server.sql(query))
        again = median_millis(lambda: server.sql(query), 50)
        memory = server.resident_bytes() >> 20
    finally:
        server.stop()
    return [
        ("first query after a restart of the server, over HTTP", _millis(first), "", "≤ 1 s"),
        ("the same, p50", f"{again:.1f} ms", f"{memory} MB", "≤ 1024 MB"),
    ]


def _worker(location: Path, count: int, cache: Path, act: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.planning_worker", str(location), str(count), str(cache), act]
    return _answer(command)


def _peer(location: Path, count: int) -> dict[str, Any]:
    client = ROOT / "benchmarks" / "harness" / "pypaimon_client.py"
    command = [str(PYTHON), str(client), "plan", json.dumps({"warehouse": str(location.parents[1])})]
    return _answer([*command, "default.many", str(count * 5)])


def _answer(command: list[str]) -> dict[str, Any]:
    """What a process told last; nothing where it took too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _millis(taken: float) -> str:
    return f"{taken * 1000:.0f} ms"


def _told(measured: dict[str, Any]) -> str:
    return f"{measured['plan']:.1f} s" if measured else f"given up after {LIMIT_SECONDS} s"


def _most(measured: dict[str, Any]) -> str:
    return f"{measured['most']} MB" if measured else ""


def _ratio(measured: dict[str, Any], millis: float) -> str:
    return f"{measured['plan'] * 1000 / millis:,.0f} × ours, warm" if measured else ""
