"""An upgrade, step by step, in processes under the shim (`tests.faults.worker`): each is killed at another step.

``python -m tests.migrations.upgrading``; a request names what is done: ``migrate``, ``heal`` or ``cluster``.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401  # loaded before anything is counted

from catalog import CatalogStore
from lake import Lake
from lake.register.upgrade import remove_schema_files
from migrations import upgrade
from server.process.postgres import EmbeddedPostgres
from tests.faults.below import ROOT
from tests.faults.shim import KILL, Shim
from tests.faults.worker import counted, serve


def heal(dsn: str, warehouse: str) -> None:
    """Do what a start does with what an earlier version left, but in one thread."""
    catalog = CatalogStore(dsn, max_connections=2)
    lake = Lake(catalog, warehouse)
    lake.standing.compare()
    lake.recover()
    remove_schema_files(lake)
    lake.close()
    catalog.close()


def _bring_cluster(data: str) -> None:
    """Start the Postgres of a data directory, which brings it to this version, and stop it."""
    del os.environ["LD_PRELOAD"]  # counted is what the server does, not what Postgres does
    postgres = EmbeddedPostgres(Path(data))
    postgres.start()
    postgres.stop()


_WORKS: Mapping[str, Callable[..., None]] = {"migrate": upgrade, "heal": heal, "cluster": _bring_cluster}


class Upgrading:
    """Processes that are to end at a step."""

    def __init__(self, shim: Shim, environment: Mapping[str, str]) -> None:
        self._shim = shim
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tests.migrations.upgrading"],
            cwd=ROOT,
            env={**os.environ, **shim.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kill(self, at: int, work: str, *arguments: str) -> bool:
        """Do a work, killed at a step: a call on a file, or before or after a message to Postgres; False where it is done before."""
        self._shim.load(fail_at=at, error=KILL, sends=True)
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        print(json.dumps({"work": work, "arguments": arguments}), file=self._worker.stdin, flush=True)
        report = json.loads(self._worker.stdout.readline())
        self._shim.disarm()
        assert "failure" not in report, report
        return "killed" in report

    def close(self) -> None:
        """Let the worker end."""
        self._worker.communicate()


@contextmanager
def upgrading(library: Path, directory: Path, root: Path, **environment: str) -> Iterator[Upgrading]:
    """Processes whose calls below ``root`` count, with a control file in ``directory``."""
    shim = Shim(library, directory, root)
    made = Upgrading(shim, environment)
    try:
        yield made
    finally:
        made.close()
        shim.close()


def _run(request: dict[str, Any], control: mmap.mmap) -> str:
    with counted(control):
        _WORKS[request["work"]](*request["arguments"])
    return "done"


if __name__ == "__main__":
    serve(_run)
