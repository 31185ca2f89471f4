"""The server's own processes know nothing they do not need."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from tests.running import ARROW, Refused, RunningServer
from tests.waiting import eventually
from tests.workers.damaged import reaching, stream


def children(server: RunningServer) -> dict[int, str]:
    """Every process below the server, with its command."""
    found = {}
    for one in server.process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            found[one.pid] = " ".join(one.cmdline())
    return found


@pytest.mark.spark
def test_no_child_is_told_the_servers_settings(server: RunningServer, database: str) -> None:
    """`SLUICE_TOKEN` and `SLUICE_CATALOG_DSN` are settings; Spark's JVM, the workers and Postgres inherit none."""
    server.sql("SELECT explode(sequence(1, 3))")
    kinds = ("java", "-m workers", "postgres")
    assert eventually(lambda: all(any(kind in command for command in children(server).values()) for kind in kinds)), children(server)
    # Between fork and exec a child has its parent's environment still.
    assert eventually(lambda: not told(server)), told(server)


def told(server: RunningServer) -> list[str]:
    """Children in whose environment a setting stands."""
    found = []
    for pid, command in children(server).items():
        with contextlib.suppress(OSError):  # it has ended
            if "SLUICE_" in Path(f"/proc/{pid}/environ").read_text():
                found.append(command)
    return found


def test_a_body_that_reaches_past_its_buffers_shows_no_memory(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.reached (v BYTES)")
    for size in (100, 1 << 20, 2_000_000_000):
        with pytest.raises(Refused) as refused:
            server.append(f"{database}.reached", stream(reaching(size)), ARROW)
        assert (refused.value.status, refused.value.document["errorClass"]) == (400, "InvalidData")
    assert server.sql(f"SELECT * FROM {database}.reached") == []
