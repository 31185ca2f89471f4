"""A Postgres as a first start leaves it, made once in a process and copied: making one takes longer than all else of a start."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from migrations import upgrade
from server.process.data_directory import make_private
from server.process.postgres import EmbeddedPostgres


@functools.cache
def _cluster() -> Path:
    """The data directory of a server that was started once and stopped."""
    place = Path(tempfile.mkdtemp(prefix="sluice-tests-cluster-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o755)  # Postgres runs as another user
    postgres = EmbeddedPostgres(place / "data")
    try:
        upgrade(postgres.start())
    finally:
        postgres.stop()
    return place / "data" / "postgres"


def made(data: Path) -> EmbeddedPostgres:
    """A Postgres of a data directory that was started before, for tests that do not ask how it is made."""
    copy_to(data)
    return EmbeddedPostgres(data)


def copy_to(data: Path) -> None:
    """Give a server that was never started the catalog's Postgres, with the owners and rights it has."""
    make_private(data)
    subprocess.run(["cp", "-a", str(_cluster()), str(data)], check=True)
