"""What it costs that a commit is on disk before it is answered: two servers in turns, one of which does without (`warehouse.sync`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.commits import make_table
from benchmarks.harness.page import Table
from benchmarks.harness.rest_client import Client, Committer
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import in_turns

ROUNDS = 300
_FLUSH = "one flush"
_PAGE = bytes(4096)
_NDJSON = {"Content-Type": "application/x-ndjson"}


def measure(run: Run) -> list[Table]:
    """Medians of each kind of work with and without flushes, and how many flushes of this disk lie between them."""
    with ExitStack() as stack:
        servers = {sync: stack.enter_context(run.server(spark=True, SLUICE_WAREHOUSE_SYNC=sync)) for sync in ("true", "false")}
        kinds = {sync: _kinds(run, server) for sync, server in servers.items()}
        short = _measured(run, {sync: {name: kinds[sync][name] for name in list(kinds[sync])[:-1]} for sync in kinds}, ROUNDS)
        bulk = _measured(run, {sync: {name: kinds[sync][name] for name in list(kinds[sync])[-1:]} for sync in kinds}, 5)
    rows = [_row(name, taken, short[_FLUSH]) for name, taken in _pairs(short).items()]
    rows += [(*_row(name, taken, 1.0)[:-1], "") for name, taken in _pairs(bulk).items()]  # megabytes, and no number of flushes
    head = ("work", "flushed", "`SLUICE_WAREHOUSE_SYNC=false`", "difference", "in flushes of this disk")
    note = (
        "Median milliseconds of one client, all kinds in turns. One flush is a new file of 4 kB made durable under its name (the file and "
        f"its directory), measured in the same turns: {short[_FLUSH] * 1000:.2f} ms beside the short ones. Postgres flushes its decision "
        "in both columns. A commit flushes its files at the same time, and the snapshot's own before it is noted, which nobody waits for. "
        f"The machine's load was {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores."
    )
    return [Table(head=head, rows=rows, note=note)]


def _kinds(run: Run, server: BenchServer) -> dict[str, Callable[[], object]]:
    """The work, by what it is called; the last one is long."""
    server.sql("CREATE TABLE small (id BIGINT, s STRING) WITH ('write-only' = 'true')")
    server.sql("CREATE TABLE parts (id BIGINT, p INT) PARTITIONED BY (p) WITH ('write-only' = 'true')")
    server.sql("CREATE TABLE large (id BIGINT, a DOUBLE) WITH ('write-only' = 'true')")
    body = b"".join(json.dumps({"id": number, "s": f"text {number}"}).encode() + b"\n" for number in range(1000))
    make_table(Client(server.url), server.warehouse, "commits")
    committer = Committer(server.url, "commits")
    partitions = ", ".join(f"({number}, {number})" for number in range(20))

    def post() -> None:
        server.client.post("/tables/default/small/rows", content=body, headers=_NDJSON).raise_for_status()

    rows = run.size(1_000_000, 10_000)
    return {
        "`INSERT … VALUES`, one row": lambda: server.sql("INSERT INTO small VALUES (1, 'x')"),
        "1,000 rows as NDJSON": post,
        "`INSERT … VALUES` into 20 partitions": lambda: server.sql(f"INSERT INTO parts VALUES {partitions}"),
        "commit of a REST client (its files are its own to flush)": committer.commit,
        "`ALTER TABLE … SET`": lambda: server.sql("ALTER TABLE large SET ('snapshot.num-retained.max' = '1000')"),
        f"`INSERT … SELECT` of {rows:,} rows by Spark": lambda: server.sql(f"INSERT INTO large SELECT id, rand() FROM range({rows})"),
    }


def _measured(run: Run, kinds: dict[str, dict[str, Callable[[], object]]], rounds: int) -> dict[str, float]:
    """Median seconds, by kind and whether it was flushed, and of one flush."""
    directory = run.scratch / "flushes"
    directory.mkdir(exist_ok=True)
    made = iter(range(10**9))
    works: dict[str, Callable[[], object]] = {_FLUSH: lambda: _flush(directory, f"{rounds}-{next(made)}")}
    for name in kinds["true"]:
        for sync in ("true", "false"):
            works[f"{name}\t{sync}"] = kinds[sync][name]
    return in_turns(works, rounds, most_seconds=6 * run.seconds)


def _flush(directory: Path, name: str) -> None:
    handle = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    above = os.open(directory, os.O_RDONLY)
    try:
        os.write(handle, _PAGE)
        os.fsync(handle)
        os.fsync(above)
    finally:
        os.close(handle)
        os.close(above)


def _pairs(taken: dict[str, float]) -> dict[str, tuple[float, float]]:
    names = [name.removesuffix("\ttrue") for name in taken if name.endswith("\ttrue")]
    return {name: (taken[f"{name}\ttrue"], taken[f"{name}\tfalse"]) for name in names}


def _row(name: str, taken: tuple[float, float], flush: float) -> tuple[str, ...]:
    flushed, without = taken
    return (
        name,
        f"{flushed * 1000:.1f} ms",
        f"{without * 1000:.1f} ms",
        f"{(flushed - without) * 1000:+.1f} ms",
        f"{(flushed - without) / flush:.1f}",
    )
