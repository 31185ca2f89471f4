"""A real disk that is filled by everything that writes to it: what is kept free stays free."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import httpx
import pytest

from tests import new_cluster
from tests.disks import MEGABYTE, fill, mounted
from tests.e2e.agreement import assert_agreement, embedded_dsn
from tests.fix_server import StartServer
from tests.running import Refused, RunningServer
from tests.waiting import eventually

_COUNTED = "CAST(aggregate(sequence(1, 1500), id, (sum, i) -> (sum * 31 + i) % 1000003) AS STRING)"
"""A text that takes its time, so that even a fast machine is looked at several times while it fills a disk."""
_ROWS = 1000
"""In a body of many."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 MB, for all that a server writes."""
    with mounted(tmp_path / "disk", megabytes=300) as directory:
        new_cluster.copy_to(directory)
        yield directory


@pytest.mark.torture
def test_many_writers_on_a_nearly_full_disk_leave_the_reserve_alone(disk: Path, start_server: StartServer) -> None:
    """Each is judged by the space that all others leave, Postgres's log has its own, and who is refused again and again fills nothing."""
    server = start_server(SLUICE_DATA=str(disk))
    server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '1')")
    usage = shutil.disk_usage(disk)
    reserve = usage.total // 20
    fill(disk / "ballast", leave=reserve + 40 * MEGABYTE)
    least, answers = usage.free, Counter[int]()
    values = [os.urandom(400).hex() for _ in range(_ROWS)]

    def write(client: int) -> list[int]:
        """Send requests, each with ids of its own; returns those that were acknowledged."""
        nonlocal least
        acknowledged: list[int] = []
        with httpx.Client(timeout=300) as http:
            for number in range(40):
                ids = range((client * 40 + number) * _ROWS, (client * 40 + number + 1) * _ROWS)
                if client % 2:
                    ids = ids[:1]
                    text = f"INSERT INTO t VALUES ({ids[0]}, '{os.urandom(4000).hex()}')"
                    answer = http.post(f"{server.url}/sql", content=text, headers={"Content-Type": "application/sql"})
                else:
                    body = "".join(f'{{"id": {id_}, "v": "{value}"}}\n' for id_, value in zip(ids, values, strict=True))
                    answer = http.post(
                        f"{server.url}/tables/default/t/rows", content=body, headers={"Content-Type": "application/x-ndjson"}
                    )
                answers[answer.status_code] += 1
                acknowledged += ids if answer.status_code == 200 else ()
                least = min(least, shutil.disk_usage(disk).free)
        return acknowledged

    with ThreadPoolExecutor(16) as pool:
        expected = sorted(chain.from_iterable(pool.map(write, range(16))))
    assert set(answers) == {200, 507}, answers
    assert answers[507] > answers[200], "the disk is filled, and more is sent"
    assert least >= reserve
    assert httpx.get(f"{server.url}/readyz", timeout=60).json()["postgres"] == {"ok": True}
    assert_holds(server, expected)
    (disk / "ballast").unlink()
    assert eventually(lambda: server.post("INSERT INTO t VALUES (-7, 'there is space')").status_code == 200)
    assert_holds(server, [-7, *expected])
    assert_agreement(embedded_dsn(server), server, "default.t")
    assert server.log.stat().st_size < MEGABYTE, "a refusal is no traceback, and neither is a beat on a full disk"


def assert_holds(server: RunningServer, expected: list[int]) -> None:
    """Each row is there once, as COUNT(*) tells and as they are read, and no file is amiss."""
    assert server.value("SELECT COUNT(*) FROM t") == len(expected)
    assert sorted(id_ for (id_,) in server.sql("SELECT id FROM t")) == expected
    assert server.sql("CALL sys.check_table('t')") == []


@pytest.mark.spark
@pytest.mark.slow
def test_an_insert_without_a_known_end_is_stopped_before_the_disk_is_full(disk: Path, start_server: StartServer) -> None:
    """Its files are written until it ends; Postgres lives, and the space comes back."""
    server = start_server(SLUICE_DATA=str(disk), SLUICE_STORAGE_RESERVE="80m")
    server.wait_for_spark(300)
    server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '-1', 'file.compression' = 'none')")
    server.sql("INSERT INTO t VALUES (1, 'a')")
    fill(disk / "ballast", leave=120 * MEGABYTE)
    with pytest.raises(Refused) as refused:
        server.sql(f"INSERT INTO t SELECT id, concat({_COUNTED}, repeat('x', 10000)) FROM range(60000)", timeout=500)
    assert refused.value.status == 507, refused.value.document
    assert "disk fills up while it runs" in refused.value.document["detail"]
    assert httpx.get(f"{server.url}/readyz", timeout=60).json()["postgres"] == {"ok": True}
    assert eventually(lambda: httpx.get(f"{server.url}/readyz", timeout=60).json()["disk"]["ok"]), "its files are gone"
    assert server.sql("SELECT id, v FROM t") == [[1, "a"]]
    server.sql("INSERT INTO t VALUES (2, 'b')")


def test_bodies_and_results_on_their_way_leave_the_reserve_alone(disk: Path, tmp_path: Path, start_server: StartServer) -> None:
    """They lie in the data directory, whose disk is watched, and not with other programs' temporary files."""
    short = Path(tempfile.mkdtemp(prefix="s"))  # Postgres, as another user, puts its socket there, and the length of its name is bounded
    short.chmod(0o711)
    with mounted(short / "t", megabytes=2) as temporary:
        server = start_server(
            SLUICE_DATA=str(disk),
            SLUICE_WAREHOUSE=str(tmp_path / "warehouse"),
            TMPDIR=str(temporary),
        )
        server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '-1')")
        usage = shutil.disk_usage(disk)
        reserve = usage.total // 20
        values = [os.urandom(500).hex() for _ in range(20_000)]

        def body_of(request: int) -> bytes:
            return "".join(f'{{"id": {request}, "v": "{value}"}}\n' for value in values).encode()

        body = body_of(0)
        fill(
            disk / "ballast", leave=reserve + 2 * len(body) + 80 * MEGABYTE
        )  # a body comes in, and is given to a worker; Postgres has its log
        least, answers = usage.free, dict[int, httpx.Response]()
        headers = {"Content-Type": "application/x-ndjson"}

        def write(client: int) -> None:
            nonlocal least
            for number in range(4):
                request = 1 + client * 4 + number
                sent = body_of(request)
                with contextlib.suppress(httpx.TransportError):  # refused, and the answer not taken in time
                    answers[request] = httpx.post(f"{server.url}/tables/default/t/rows", content=sent, headers=headers, timeout=300)
                least = min(least, shutil.disk_usage(disk).free)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
        refused = [answer for answer in answers.values() if answer.status_code != 200]
        assert refused, "eight at a time are too many for the space"
        assert {answer.status_code for answer in refused} == {507}
        assert all("are kept free there (SLUICE_STORAGE_RESERVE)" in answer.json()["detail"] for answer in refused), refused[0].text
        assert least >= reserve
        found = Counter(id_ for (id_,) in server.sql("SELECT id FROM t"))
        assert set(found.values()) <= {20_000}, "a body is there once, and wholly"
        assert {request for request, answer in answers.items() if answer.status_code == 200} == set(found) & set(answers)
        assert server.sql("CALL sys.check_table('t')") == []
        server.sql("DROP TABLE t PURGE")  # those that were taken have the space
        server.sql("CREATE TABLE t (id BIGINT, v STRING) WITH ('bucket' = '-1')")

        def alone() -> bool:  # once those are over whose clients did not take the answer
            return httpx.post(f"{server.url}/tables/default/t/rows", content=body, headers=headers, timeout=300).status_code == 200

        assert eventually(alone)
        assert server.value("SELECT COUNT(*) FROM t") == 20_000
        sent = httpx.post(
            f"{server.url}/sql?async=true", content="SELECT v FROM t LIMIT 10000", headers={"Content-Type": "application/sql"}
        )
        assert sent.status_code == 202, sent.text
        handle = sent.json()["statementId"]
        rows = httpx.get(f"{server.url}/statements/{handle}/result?wait=30", timeout=300)
        assert rows.status_code == 200, rows.text
        assert list(temporary.glob("body-*")) == []
        server.stop()  # its JVM may still be on its way, and writes to the temporary files where it is
