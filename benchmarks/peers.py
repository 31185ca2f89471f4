"""The same pypaimon on this server's catalog and on its own file-system catalog, in turns."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import IO, Any

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-pypaimon" / "bin" / "python"
"""Made by ``make pypaimon``."""
WRITERS = (1, 4)
LIMIT_SECONDS = 300
"""A process that takes longer than that is given up: pypaimon retries a lost race for minutes."""


def measure(run: Run) -> list[Table]:
    """This server's catalog beside pypaimon's own on a directory of the same disk."""
    with run.server(spark=True) as server:
        catalogs = {
            "ours": {"metastore": "rest", "uri": server.url, "warehouse": "sluice", "token.provider": "bear", "token": "any"},
            "files": {"warehouse": str(run.scratch / "pypaimon")},
        }
        rows = [_appended(run, catalogs, writers) for writers in WRITERS]
        names = {name: _run("names", catalog, run.size(10_000, 200), 6 * run.seconds) for name, catalog in catalogs.items()}
    ours, files = names["ours"], names["files"]
    rows.append(("list of tables", f"{ours['tables']:,} in {ours['list']:.0f} ms", f"{files['tables']:,} in {files['list']:.0f} ms"))
    rows.append(("load of a table of 500 columns", f"{ours['load']:.1f} ms", f"{files['load']:.1f} ms"))
    return [Table(head=("pypaimon's work", "this catalog", "file-system catalog"), rows=rows)]


def _appended(run: Run, catalogs: dict[str, dict[str, str]], writers: int) -> tuple[str, str, str]:
    table = f"default.appends{writers}"
    rates = {}
    for name, catalog in catalogs.items():
        _run("make", catalog, table)
        with (run.scratch / "pypaimon.log").open("a") as log:  # it tells of every lost race
            rates[name] = appends(catalog, table, writers, run.seconds, log)
    ours, files = (f"{rate:.1f} commits/s, {refused} given up" for rate, refused in (rates["ours"], rates["files"]))
    return f"one-row appends to one table, {writers} writer{'s' if writers > 1 else ''}", ours, files


def _command(act: str, catalog: dict[str, str], *more: object) -> list[str]:
    return [str(PYTHON), str(ROOT / "benchmarks" / "harness" / "pypaimon_client.py"), act, json.dumps(catalog), *map(str, more)]


def _run(act: str, catalog: dict[str, str], *more: object) -> dict[str, Any]:
    done = subprocess.run(_command(act, catalog, *more), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def appends(catalog: dict[str, str], table: str, writers: int, seconds: float, log: IO[str]) -> tuple[float, int]:
    """Acknowledged appends of one row per second, by so many processes on one table, and how many were given up.

    A process that does not come back in time (pypaimon waits and retries without end) is stopped.
    """
    command = _command("append", catalog, table, seconds)
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True) for _ in range(writers)]
    for process in started:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("A pypaimon writer did not start.")
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    until = time.monotonic() + 3 * seconds
    reports = [_told(process, max(1.0, until - time.monotonic())) for process in started]
    return sum(report["done"] for report in reports) / seconds, sum(report["refused"] for report in reports)


def _told(process: subprocess.Popen[str], patience: float) -> dict[str, int]:
    try:
        output = process.communicate(timeout=patience)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0]
    lines = output.splitlines()
    return dict(json.loads(lines[-1])) if lines else {"done": 0, "refused": 1}
