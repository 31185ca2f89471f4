"""A queue and a scalable table that look after themselves under eight writers, while the server is killed again and again."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from functools import partial
from pathlib import Path

import httpx

from tests.running import Refused, RunningServer
from tests.torture.writers import Book, Writers, check_rows
from tests.waiting import eventually

QUEUE, SCALABLE = "q", "s"
MOST_FILES = 60
# What is kept is short, so that expiry has files to remove all along.
_RETENTION = "'snapshot.num-retained.min' = '5', 'snapshot.num-retained.max' = '20'"


def create(server: RunningServer, suffix: str = "", *, options: str = _RETENTION) -> list[str]:
    """A queue and a scalable table; their names."""
    server.sql(f"CREATE TABLE {QUEUE}{suffix} (w INT, n INT) WITH ({options})")
    server.sql(f"CREATE TABLE {SCALABLE}{suffix} (w INT, n INT) WITH ({options}, 'bucket' = '-1')")
    return [f"{QUEUE}{suffix}", f"{SCALABLE}{suffix}"]


class Watch:
    """Looks at the files of each bucket twice a second, and keeps the most it saw."""

    def __init__(self, server: RunningServer, tables: list[str]) -> None:
        self.most = dict.fromkeys(tables, 0)
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            for table in self.most:
                try:
                    counts = [row[0] for row in self._server.sql(f"SELECT file_count FROM {table}$buckets")]
                except (httpx.HTTPError, Refused):  # killed at the moment, or about to be ready
                    continue
                self.most[table] = max([self.most[table], *counts])

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def run(server: RunningServer, *, kills: int, seed: int, seconds: float, pause: float = 0.0) -> dict[str, int]:
    """Write for so long, killing the server so often; verify after each kill, and everything at the end.

    Returns the most files a bucket had, by table.
    """
    moments = random.Random(seed)
    tables = create(server)
    book = Book()
    watch = Watch(server, tables)
    writers = Writers(server, tables, book, pause=pause).start()
    try:
        begin, each = time.monotonic(), seconds / (kills + 1)
        for number in range(kills):
            at = begin + each * (number + moments.uniform(0.5, 1.5))
            time.sleep(max(moments.uniform(0.0, 0.5), at - time.monotonic()))
            server.kill()
            server.start()
            where = f"seed {seed}, kill {number}"
            check_rows(server, moments.choice(tables), book, ordered=False, where=where)
            check_rows(server, QUEUE, book, ordered=True, where=where)
        time.sleep(each)
        for table in tables:  # the last kill's lease has to run out first
            assert eventually(partial(_any_merged, server, table), seconds=120), f"seed {seed}: {table} was never merged"
    finally:
        writers.stop()
        watch.stop()
    assert not book.problems, book.problems[:3]
    for table in tables:
        where = f"seed {seed}, at the end"
        check_rows(server, table, book, ordered=table == QUEUE, where=where)
        assert len(book.taken[table]) > kills, f"{where}: the writers got through hardly anything"
        check_orphans(server, table)
        check_rows(server, table, book, ordered=table == QUEUE, where=f"{where}, without orphans")
    return watch.most


def _any_merged(server: RunningServer, table: str, outcome: str = "done") -> bool:
    return bool(server.value(f"SELECT COUNT(*) > 0 FROM {table}$compaction WHERE outcome = '{outcome}'"))


def check_orphans(server: RunningServer, table: str) -> None:
    """Once all but the latest snapshot and the orphans are gone, a table's directory holds what it needs and nothing else."""
    server.sql(f"ALTER TABLE {table} SET ('write-only' = 'true')")
    assert eventually(lambda: not _any_merged(server, table, "running"), seconds=60)
    server.sql(f"CALL sys.expire_snapshots(`table` => '{table}', retain_max => 1, retain_min => 1)")
    root = Path(server.table_path(f"default.{table}"))
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # the server's own expiry may still take files away
            os.utime(path, (0, 0))
    server.sql(f"CALL sys.remove_orphan_files('{table}')")
    assert sum(1 for _ in root.rglob("*.parquet")) == server.value(f"SELECT COUNT(*) FROM {table}$files")
    manifests = server.value(f"SELECT COUNT(*) FROM {table}$manifests")
    assert sum(1 for _ in (root / "manifest").iterdir()) == manifests + 2, "manifests, and the two lists of the only snapshot"
    assert not list(root.rglob("*.tmp"))
    assert len(list((root / "snapshot").glob("snapshot-*"))) == 1


def side_by_side(server: RunningServer, *, seconds: float, turns: int) -> tuple[Book, dict[str, int]]:
    """Write to tables that look after themselves and to `write-only` ones, in turns of the same run; nobody is killed.

    Returns what the writers saw, the `write-only` tables under names that end in ``_only``, and the most files a bucket had.
    """
    server.wait_for_spark()
    kept = create(server)
    only = create(server, "_only", options="'write-only' = 'true'")
    book = Book()
    watch = Watch(server, kept)
    try:
        for turn in range(2 * turns):
            writers = Writers(server, (kept, only)[turn % 2], book).start()
            time.sleep(seconds / turns)
            writers.stop()
    finally:
        watch.stop()
    assert not book.problems, book.problems[:3]
    for table in (*kept, *only):
        check_rows(server, table, book, ordered=table.startswith(QUEUE), where="side by side")
    return book, watch.most
