"""Automatic compaction under writers, with the server killed meanwhile: nothing lost, doubled or reordered."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer

KILLS = 3
WRITERS = 4


def write_until(server: RunningServer, table: str, writer: int, stop: threading.Event, sent: list[int]) -> None:
    """Append numbered rows one by one; a number whose answer was lost is asked for again under its key."""
    n = 0
    while not stop.is_set():
        body = f'{{"w": {writer}, "n": {n}}}'.encode()
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"{table}-{writer}-{n}"}
        try:
            answer = httpx.post(f"{server.url}/tables/default/{table}/rows", content=body, headers=headers, timeout=30)
        except httpx.HTTPError:
            time.sleep(0.1)
            continue
        if answer.status_code == 200:
            n += 1
            sent[writer] = n
        else:
            assert answer.status_code in (409, 503), answer.text
            time.sleep(0.1)


@pytest.mark.parametrize("options", ["", "WITH ('bucket' = '-1')"])
def test_a_killed_server_loses_nothing_while_it_merges(start_server: StartServer, options: str) -> None:
    server = start_server(SLUICE_COMPACTION_INTERVAL_SECONDS="0.2")
    server.sql(f"CREATE TABLE t (w INT, n INT) {options}")
    stop, sent = threading.Event(), [0] * WRITERS
    threads = [threading.Thread(target=write_until, args=(server, "t", w, stop, sent)) for w in range(WRITERS)]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        time.sleep(2.5)
        server.kill()
        server.start()
    time.sleep(2.5)
    stop.set()
    for thread in threads:
        thread.join()
    rows = [(w, n) for w, n in server.sql("SELECT w, n FROM t")]
    assert len(rows) == len(set(rows)), "rows are doubled"
    for writer in range(WRITERS):
        numbers = [n for w, n in rows if w == writer]
        assert sorted(numbers) == list(range(sent[writer])), "rows are lost"
        if not options:
            assert numbers == sorted(numbers), "rows are out of order"
    assert server.value("SELECT COUNT(*) FROM t$snapshots WHERE commit_kind = 'COMPACT'") > 0
    check_orphans(server)


def check_orphans(server: RunningServer) -> None:
    """After everything but the latest snapshot is gone, a table's directory holds what it needs and nothing else."""
    server.sql("ALTER TABLE t SET ('write-only' = 'true')")
    server.sql("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    root = Path(server.table_path("default.t"))
    for path in root.rglob("*"):
        os.utime(path, (0, 0))
    before = server.sql("SELECT w, n FROM t")
    server.sql("CALL sys.remove_orphan_files('t')")
    assert server.sql("SELECT w, n FROM t") == before
    assert sum(1 for _ in root.rglob("*.parquet")) == server.value("SELECT COUNT(*) FROM t$files")
