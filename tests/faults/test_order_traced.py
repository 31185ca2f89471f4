"""The order of every flush against the decision in Postgres and the note, of a real server, by the kernel's word: `strace`.

`test_order` asks the same of a library that is loaded into the process, which sees what it was made to see.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.faults.strace import traced
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
_SENDS = re.compile(r"\b(sendto|sendmsg|write)\(")
HINTS = ("EARLIEST", "LATEST")
"""Where one was lost readers list the directory."""


def files_of(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file() and path.name not in HINTS and not path.name.endswith(".tmp")}


def checked(server: RunningServer, table: str, statement: str, to: Path) -> Path:
    """Run a statement that commits once, under strace, and follow it; returns the snapshot's file."""
    directory = server.table_path(table)
    before = files_of(directory)
    with traced([server.process.pid, *(jvm.pid for jvm in server.jvms())], to) as trace:
        server.sql(statement)
        snapshot_file, key = newest(directory)
        assert eventually(lambda: len(_sent(to, key)) >= 2), "the note is sent"
    new = files_of(directory) - before
    assert snapshot_file in new
    assert len(new) >= 4, "a data file, a manifest, two lists"
    decided, noted = (call.began for call in trace.sent(key)[:2])
    for path in new - {snapshot_file}:
        assert trace.flushed(path, before=decided), f"{path} was not on disk when Postgres decided"
    assert not trace.flushed(snapshot_file, before=decided), "it is written once it is decided"
    assert trace.flushed(snapshot_file, before=noted), "Postgres was told of a snapshot's file that was not on disk"
    return snapshot_file


def newest(directory: Path) -> tuple[Path, str]:
    """The file of the latest snapshot, and what the commit calls it in Postgres."""
    file = max((directory / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name.removeprefix("snapshot-")))
    return file, str(json.loads(file.read_text())["uuid"])


def _sent(to: Path, key: str) -> list[str]:
    """Not what is received: a notice of the commit has its key, too."""
    return [line for line in to.read_text(errors="replace").splitlines() if _SENDS.search(line) and "socket:" in line and key in line]


@pytest.mark.parametrize("bulk", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["here", "also on Spark"])
def test_all_is_on_disk_before_postgres_is_told(start_server: StartServer, tmp_path: Path, bulk: bool) -> None:
    """What Spark writes is asked of the library in `tests/faults/test_spark.py`."""
    server = start_server()
    if bulk:
        server.wait_for_spark()
    server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '-1')")
    server.sql("INSERT INTO t VALUES (0, 'the first makes directories')")
    statements = {
        "insert": "INSERT INTO t VALUES (1, 'a')",
        **({"bulk": "INSERT INTO t SELECT id, CAST(id AS STRING) FROM range(20000)"} if bulk else {}),
        "compaction": "CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')",
    }
    snapshots = [checked(server, "default.t", statement, tmp_path / name) for name, statement in statements.items()]
    kinds = [json.loads(file.read_text())["commitKind"] for file in snapshots]
    assert kinds == [*["APPEND"] * (len(statements) - 1), "COMPACT"]
