"""A real disk that is filled by everything that writes to it: what is kept free stays free."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.disks import MEGABYTE, fill, mounted
from tests.fix_server import StartServer
from tests.running import Refused
from tests.waiting import eventually


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 MB, for all that a server writes."""
    with mounted(tmp_path / "disk", megabytes=300) as directory:
        yield directory


def test_many_writers_on_a_nearly_full_disk_leave_the_reserve_alone(disk: Path, start_server: StartServer) -> None:
    """Each is judged by the room that all others leave, Postgres's log has its own, and who is refused again and again fills nothing."""
    server = start_server(SLUICE_DATA=str(disk))
    server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '1')")
    usage = shutil.disk_usage(disk)
    reserve = usage.total // 20
    fill(disk / "ballast", leave=reserve + 40 * MEGABYTE)
    least, answers = usage.free, Counter[int]()
    body = "".join(f'{{"id": 1, "v": "{os.urandom(400).hex()}"}}\n' for _ in range(1000)).encode()

    def write(client: int) -> None:
        nonlocal least
        with httpx.Client(timeout=300) as http:
            for _ in range(40):
                if client % 2:
                    text = f"INSERT INTO t VALUES ({client}, '{os.urandom(4000).hex()}')"
                    answer = http.post(f"{server.url}/sql", content=text, headers={"Content-Type": "application/sql"})
                else:
                    answer = http.post(
                        f"{server.url}/tables/default/t/rows", content=body, headers={"Content-Type": "application/x-ndjson"}
                    )
                answers[answer.status_code] += 1
                least = min(least, shutil.disk_usage(disk).free)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    assert set(answers) == {200, 507}, answers
    assert answers[507] > answers[200], "the disk is filled, and more is sent"
    assert least >= reserve
    assert server.sql("SELECT COUNT(*) FROM t WHERE id = 1")
    assert httpx.get(f"{server.url}/readyz", timeout=60).json()["postgres"] == {"ok": True}
    (disk / "ballast").unlink()
    assert eventually(lambda: server.post("INSERT INTO t VALUES (7, 'there is room')").status_code == 200)


@pytest.mark.spark
@pytest.mark.slow
def test_an_insert_without_a_known_end_is_stopped_before_the_disk_is_full(disk: Path, start_server: StartServer) -> None:
    """Its files are written until it ends; Postgres lives, and the room comes back."""
    server = start_server(SLUICE_DATA=str(disk), SLUICE_STORAGE_RESERVE="80m")
    server.wait_for_spark(300)
    server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '-1', 'file.compression' = 'none')")
    server.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(Refused) as refused:
        server.sql("INSERT INTO t SELECT id, concat(CAST(id AS STRING), repeat('x', 10000)) FROM range(60000)", timeout=500)
    assert refused.value.status == 507, refused.value.document
    assert "disk fills up while it runs" in refused.value.document["detail"]
    assert httpx.get(f"{server.url}/readyz", timeout=60).json()["postgres"] == {"ok": True}
    assert eventually(lambda: httpx.get(f"{server.url}/readyz", timeout=60).json()["disk"]["ok"]), "its files are gone"
    assert server.sql("SELECT id, v FROM t") == [[1, "a"]]
    server.sql("INSERT INTO t VALUES (2, 'b')")
