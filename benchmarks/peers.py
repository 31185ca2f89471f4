"""The same pypaimon on this server's catalog and on its own file-system catalog, in turns."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-pypaimon" / "bin" / "python"
"""Made by ``make pypaimon``."""
WRITERS = (1, 4)
LIMIT_SECONDS = 600


def _command(act: str, catalog: dict[str, str], *more: object) -> list[str]:
    return [str(PYTHON), str(ROOT / "benchmarks" / "pypaimon_client.py"), act, json.dumps(catalog), *map(str, more)]


def _run(act: str, catalog: dict[str, str], *more: object) -> dict[str, Any]:
    done = subprocess.run(_command(act, catalog, *more), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def appends(catalog: dict[str, str], table: str, writers: int, seconds: float, log: IO[str]) -> tuple[float, int]:
    """Acknowledged appends of one row per second, by so many processes on one table, and how many were given up."""
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
    told = [json.loads(process.communicate(timeout=LIMIT_SECONDS)[0].splitlines()[-1]) for process in started]
    return sum(one["done"] for one in told) / seconds, sum(one["refused"] for one in told)


def rows(url: str, scratch: Path, *, tables: int, seconds: float) -> list[str]:
    """Lines of a table: this server's catalog beside pypaimon's own on a directory of the same disk."""
    catalogs = {
        "ours": {"metastore": "rest", "uri": url, "warehouse": "sluice", "token.provider": "bear", "token": "any"},
        "files": {"warehouse": str(scratch / "pypaimon")},
    }
    lines = ["| pypaimon, one-row appends to one table | this catalog | file-system catalog |", "|---|---|---|"]
    for writers in WRITERS:
        found = {}
        for name, catalog in catalogs.items():
            table = f"default.appends{writers}"
            _run("make", catalog, table)
            with (scratch / "pypaimon.log").open("a") as log:  # it tells of every lost race
                found[name] = appends(catalog, table, writers, seconds, log)
        shown = " | ".join(f"{rate:.1f} commits/s, {refused} given up" for rate, refused in (found["ours"], found["files"]))
        lines.append(f"| {writers} writer{'s' if writers > 1 else ''} | {shown} |")
    names = {name: _run("names", catalog, tables) for name, catalog in catalogs.items()}
    lines.append(f"| list of {tables:,} tables | {names['ours']['list']:.0f} ms | {names['files']['list']:.0f} ms |")
    lines.append(f"| load of a table of 500 columns | {names['ours']['load']:.1f} ms | {names['files']['load']:.1f} ms |")
    return lines
