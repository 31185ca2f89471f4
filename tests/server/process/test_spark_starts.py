"""Spark starts with the server, or with the first statement that needs it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.brief_jvm import kept_archive
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.spark


def _jvms(server: RunningServer) -> list[int]:
    return [process.pid for process in server.process.children(recursive=True) if "java" in process.name()]


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
    assert _jvms(server) == []
    assert server.value("SELECT sum(a.id * b.id) FROM t a JOIN t b ON a.id = b.id") == 5, "it waits for Spark"
    assert len(_jvms(server)) == 1
    assert _told(server) == (200, {"ok": True})
    assert server.terminate() == 0


@pytest.mark.slow
def test_it_starts_with_the_server_and_the_classes_that_the_last_one_left(tmp_path: Path, start_server: StartServer) -> None:
    archive = kept_archive().path()
    assert archive is not None, "the run made one before its first test"
    classes = tmp_path / "server" / "data" / "spark-classes"
    classes.mkdir(parents=True)
    (classes / archive.name).symlink_to(archive)
    server = start_server(SLUICE_SPARK_START="with-server", SLUICE_SPARK_KEEP_CLASSES="true")
    status, spark = _told(server)
    assert (status, spark["ok"]) == (503, False), "it takes longer than the server"
    assert eventually(lambda: _told(server) == (200, {"ok": True}), seconds=120)
    (java,) = _jvms(server)
    assert str(archive) in Path(f"/proc/{java}/maps").read_text()
    assert server.sql("SELECT COUNT(*) FROM (SELECT EXPLODE(SEQUENCE(1, 10)))") == [[10]]
