"""How long pages take where there is much to show: a catalog of 10,000 tables, and a table of 100,000 files."""

from __future__ import annotations

import httpx

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import median_millis
from benchmarks.planning import build

_TIMES = 30
_AT_ONCE = 100
"""Tables a text creates."""
_SIDES = ("", "/schema", "/snapshots", "/files", "/files?bucket=0", "/options", "/maintenance", "/consumers", "/access", "/connect")
_GOAL = "≤ 100 ms"


def measure(run: Run) -> list[Table]:
    """The median time of each page, over HTTP by one client, once it was asked for before."""
    tables, files = run.size(10_000, 200), run.size(100_000, 5_000)
    location = run.scratch / "pages" / "default.db" / "many"
    build(str(location), files)
    with run.server(SLUICE_COMPACTION_ENABLED="false") as server:
        server.sql("CALL sys.register_table('default.many', '" + str(location) + "')")
        server.sql("CREATE DATABASE lake")
        _create(server, tables)
        rows = [
            (f"{name}, {count:,} {what}", f"{_page(server, path):.0f} ms", _GOAL)
            for name, path, count, what in (
                ("Overview", "/ui/", tables, "tables"),
                ("Catalog", "/ui/catalog", tables, "tables"),
                ("Catalog, the last page by size", f"/ui/catalog?order=size&from={tables - 50}", tables, "tables"),
                ("Catalog, a column searched", "/ui/catalog?q=only_in_77", tables, "tables"),
                *((f"Table: {side.strip('/') or 'overview'}", f"/ui/tables/default/many{side}", files, "files") for side in _SIDES),
            )
        ]
    note = f"The median of {_TIMES} requests by one client, headers to last byte. No data file is there, so rows are not read."
    return [Table(head=("page", "p50", "goal"), rows=rows, note=note)]


def _create(server: BenchServer, count: int) -> None:
    with httpx.Client(base_url=server.url, timeout=300) as client:
        for start in range(0, count, _AT_ONCE):
            some = range(start, min(count, start + _AT_ONCE))
            texts = [f"CREATE TABLE lake.t{n:05d} (id BIGINT, name STRING, only_in_{n} DOUBLE)" for n in some]
            server.sql("; ".join(texts), client)


def _page(server: BenchServer, path: str) -> float:
    with httpx.Client(base_url=server.url, timeout=120) as client:

        def look() -> None:
            answer = client.get(path)
            assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"

        look()
        return median_millis(look, _TIMES)
