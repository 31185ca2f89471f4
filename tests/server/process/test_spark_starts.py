"""Spark starts with the first statement that needs it; that it may start with the server is seen in `test_process`."""

from __future__ import annotations

import httpx
import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer

pytestmark = pytest.mark.spark


def _jvms(server: RunningServer) -> int:
    return len(server.jvms())


def _told(server: RunningServer) -> tuple[int, dict[str, object]]:
    answer = httpx.get(f"{server.url}/readyz", timeout=60)
    return answer.status_code, answer.json()["spark"]


def test_it_starts_when_it_is_needed(start_server: StartServer) -> None:
    server = start_server(SLUICE_SPARK_START="when-needed")
    server.sql("CREATE TABLE t (id INT)")
    server.sql("INSERT INTO t VALUES (1), (2)")
    assert server.sql("SELECT id FROM t WHERE id > 1") == [[2]]
    assert _told(server) == (200, {"ok": True, "detail": "It starts with the first statement that needs it."})
    assert "When needed" in httpx.get(f"{server.url}/", timeout=60, follow_redirects=True).text
    assert "sluice_spark_ready 0.0" in httpx.get(f"{server.url}/metrics", timeout=60).text
    assert _jvms(server) == 0
    assert server.value("SELECT sum(a.id * b.id) FROM t a JOIN t b ON a.id = b.id") == 5, "it waits for Spark"
    assert _jvms(server) == 1
    assert _told(server) == (200, {"ok": True})
    assert server.terminate() == 0
