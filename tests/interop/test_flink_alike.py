"""The same statements through Flink with Paimon's jar and through Sluice, on the same tables: equal rows, equal order."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake
from lake.rewrite.compaction import compact, plan
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.write.snapshot_builder import everything
from table.write.writer import write_batches
from tests.fix_memory import LastingPath
from tests.interop import canonical
from tests.interop.conftest import HERE, flink_catalog
from tests.interop.flink_statements import COLUMNS, DIFFERENT, STATEMENTS, Asked
from tests.running import ARROW, RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.torture, pytest.mark.timeout(5400)]
LAYOUTS = {
    "q": "WITH ('bucket' = '1', 'bucket-key' = 'k')",
    "b": "WITH ('bucket' = '3', 'bucket-key' = 'k')",
    "p": "PARTITIONED BY (p) WITH ('bucket' = '2', 'bucket-key' = 'k')",
    "u": "PARTITIONED BY (p) WITH ('bucket' = '-1', 'compaction.min.file-num' = '2')",
    "e": "WITH ('bucket' = '1', 'bucket-key' = 'k')",
}
BEGIN = dt.datetime(2024, 1, 1)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(10, 2)), ("d", pa.float64()), ("ok", pa.bool_()),
     ("day", pa.date32()), ("ts", pa.timestamp("ms")), ("p", pa.string())]
)  # fmt: skip


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Rows with a NULL here and there, and times that come out of order."""
    return [
        {
            "id": n,
            "k": n % 4,
            "name": None if n % 5 == 0 else f"n{n}",
            "price": None if n % 7 == 0 else Decimal(n) + Decimal("0.25"),
            "d": n / 4,
            "ok": None if n % 6 == 0 else n % 2 == 0,
            "day": dt.date(2024, 1, 1) + dt.timedelta(days=n % 5),
            "ts": BEGIN + dt.timedelta(seconds=n * 5 - (4 if n % 3 == 0 else 0)),
            "p": "xy"[n % 2],
        }
        for n in range(first, first + count)
    ]


def put(lake: Lake, table_id: Identifier, batch: list[dict[str, Any]], kind: CommitKind = CommitKind.APPEND) -> None:
    table = lake.open(table_id)
    more: dict[str, Any] = {"overwrite": everything} if kind is CommitKind.OVERWRITE else {}
    watermark = max(int(row["ts"].replace(tzinfo=dt.UTC).timestamp() * 1000) for row in batch) - 5000
    with table.write() as write:
        write.add(write_batches(table.files, table.schema, [pa.RecordBatch.from_pylist(batch, schema=SCHEMA)]))
        lake.commit(table, write.request(kind, commit_user="alike", watermark=watermark, **more))


@pytest.fixture(scope="module")
def filled(module_dsn: str, lasting_path: LastingPath) -> Iterator[RunningServer]:
    """A server with the tables, whose snapshots have watermarks."""
    directory = lasting_path("flink-alike")
    server = RunningServer(directory, SLUICE_CATALOG_DSN=module_dsn, SLUICE_WAREHOUSE=str(directory / "warehouse"))
    catalog = CatalogStore(module_dsn)
    lake = Lake(catalog, str(directory / "warehouse"))
    try:
        server.start()
        server.wait_for_spark()
        for name, layout in LAYOUTS.items():
            server.sql(f"CREATE TABLE {name} ({COLUMNS}) {layout}")
            if name == "e":
                continue
            table = Identifier("default", name)
            put(lake, table, rows(0, 8))
            put(lake, table, rows(8, 8))
            put(lake, table, rows(16, 6))
            compact(lake.commit, lake.open(table), plan(lake.open(table), full=True))
            put(lake, table, rows(22, 5))
            server.sql(f"CALL sys.create_tag('{name}', 'two', 2)")
            put(lake, table, rows(30, 7), CommitKind.OVERWRITE)
            put(lake, table, rows(40, 6))
        yield server
    finally:
        server.stop()
        lake.close()
        catalog.close()


def by_sluice(server: RunningServer, text: str, *, streaming: bool) -> dict[str, Any]:
    answer = httpx.post(
        f"{server.url}/sql",
        params={"mode": "streaming"} if streaming else {},
        content=text.encode(),
        headers={"Accept": ARROW},
        timeout=300,
    )
    if answer.status_code != 200:
        return {"error": answer.text}
    return {"rows": canonical.rows(pa.ipc.open_stream(answer.content).read_all())}


def by_flink(python: str, server: RunningServer, statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    given = {"catalog": flink_catalog(server.url), "statements": statements}
    done = subprocess.run([python, str(HERE / "flink_alike.py")], input=json.dumps(given), capture_output=True, text=True, timeout=5000)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(statements), done.stderr[-4000:]
    return answers


def difference(asked: Asked, ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """What is not the same; empty where all is."""
    if "error" in ours or "error" in theirs:
        return "" if "error" in ours and "error" in theirs else f"ours {str(ours)[:500]}, theirs {str(theirs)[:500]}"
    one, other = ours["rows"], theirs["rows"]
    if sorted(map(json.dumps, one)) != sorted(map(json.dumps, other)):
        return f"ours {one}, theirs {other}"
    if asked.order == "whole" and one != other:
        return f"order: ours {one}, theirs {other}"
    if asked.order == "by key":
        for place in {(row[1], row[2]) for row in one}:
            if [row for row in one if (row[1], row[2]) == place] != [row for row in other if (row[1], row[2]) == place]:
                return f"order of {place}: ours {one}, theirs {other}"
    return ""


def compare(server: RunningServer, python: str, chosen: list[tuple[str, Asked]]) -> None:
    texts = [(asked, asked.text.format(t=name, **{key: key for key in LAYOUTS})) for name, asked in chosen]
    flink = by_flink(python, server, [{"text": text, "streaming": asked.streaming} for asked, text in texts])
    unlike: dict[str, str] = {}
    for (asked, text), theirs in zip(texts, flink, strict=True):
        if told := difference(asked, by_sluice(server, text, streaming=asked.streaming), theirs):
            unlike[text] = told
    known = {text for asked, text in texts if asked.text in DIFFERENT}
    unmeant = [f"{text}\n  {told}" for text, told in unlike.items() if text not in known]
    assert not unmeant, "\n".join(unmeant)
    assert not [text for text in known - unlike.keys() if " p" in text], "these are the same by now"


def test_flink_and_sluice_give_the_same_rows(filled: RunningServer, flink_python: str) -> None:
    """A few of each kind, on a layout each."""
    names = [name for name in LAYOUTS if name != "e"]
    compare(filled, flink_python, [(names[at % len(names)], asked) for at, asked in enumerate(a for a in STATEMENTS if a.short)])


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_statements_are_alike(filled: RunningServer, flink_python: str, name: str) -> None:
    compare(filled, flink_python, [(name, asked) for asked in STATEMENTS if not (asked.streaming and name == "e")])
