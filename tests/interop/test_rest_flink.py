"""A Flink SQL batch job (apache-flink, paimon-flink), in an environment of its own, with this server as its catalog."""

from __future__ import annotations

import subprocess

import pytest

from tests.interop.conftest import HERE, flink_catalog
from tests.running import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.torture]


def test_a_flink_batch_job(server: RunningServer, flink_python: str) -> None:
    done = subprocess.run(
        [flink_python, str(HERE / "flink_rest.py"), flink_catalog(server.url)], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
    assert server.sql("SELECT id, extra FROM flinky.fixed ORDER BY id") == [[0, None], [1, None], [2, None], [3, None]]
    assert server.sql("SELECT * FROM flinky.big ORDER BY id") == [[2], [3]]
    server.sql("DROP DATABASE flinky CASCADE")
