"""Two servers on one Postgres and warehouse: commits go to both at once, one is killed, nothing is lost or doubled."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from table.format.manifests.codec import encode_manifest_list
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

TABLE = "/v1/sluice/databases/default/tables/t"


class Writer:
    """Commits one snapshot after another; an answer that breaks off makes it send the same commit to the other server."""

    def __init__(self, servers: list[RunningServer]) -> None:
        self._servers = servers
        self._http = httpx.Client(timeout=60)
        self._table_id = self._get("").json()["id"]
        self.acknowledged: list[str] = []
        self.problems: list[str] = []

    def _get(self, path: str) -> httpx.Response:
        return self._http.get(f"{self._servers[0].url}{TABLE}{path}")

    def run(self, until: threading.Event) -> None:
        while not until.is_set():
            try:
                answer = self._get("/snapshot")
            except httpx.TransportError:
                self._servers = self._servers[::-1]
                continue
            head = answer.json()["snapshot"]["snapshot"] if answer.status_code == 200 else {"id": 0, "uuid": None}
            self._send(self._commit(head))

    def close(self) -> None:
        self._http.close()

    def _commit(self, head: dict[str, Any]) -> dict[str, Any]:
        snapshot = {
            "version": 3, "uuid": str(uuid4()), "id": head["id"] + 1, "schemaId": 0, "baseManifestList": "manifest-list-0",
            "deltaManifestList": "manifest-list-1", "commitUser": "u", "commitIdentifier": 2**63 - 1, "commitKind": "APPEND",
            "timeMillis": time.time_ns() // 1_000_000, "totalRecordCount": 0, "deltaRecordCount": 0,
        }  # fmt: skip
        return {"tableId": self._table_id, "baseSnapshotUuid": head["uuid"], "snapshot": snapshot, "statistics": []}

    def _send(self, commit: dict[str, Any]) -> None:
        while True:
            try:
                answer = self._http.post(f"{self._servers[0].url}{TABLE}/commit", json=commit)
            except httpx.TransportError:
                self._servers = self._servers[::-1]
                continue
            if answer.status_code != 200:
                self.problems.append(answer.text)
            elif answer.json()["success"]:
                self.acknowledged.append(commit["snapshot"]["uuid"])
            return


def test_one_of_two_servers_is_killed_under_commits(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    first, second = start_server("first", **shared), start_server("second", **shared)
    first.sql("CREATE TABLE t (id BIGINT) WITH ('bucket' = '-1')")
    manifests = tmp_path / "warehouse" / "default.db" / "t" / "manifest"
    manifests.mkdir()
    for at in range(2):
        (manifests / f"manifest-list-{at}").write_bytes(encode_manifest_list([], name=""))
    writers = [Writer(servers) for servers in ([first, second], [second, first], [first, second], [second, first])]
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()

    def acknowledged_now() -> int:
        return sum(len(writer.acknowledged) for writer in writers)

    try:
        assert eventually(lambda: acknowledged_now() > 20)
        first.kill()
        before = acknowledged_now()
        assert eventually(lambda: acknowledged_now() > before + 20)
    finally:
        stop.set()
    for writer, thread in zip(writers, threads, strict=True):
        thread.join(120)
        writer.close()
    assert [problem for writer in writers for problem in writer.problems] == []
    found: list[str] = []
    page: dict[str, Any] = {"nextPageToken": ""}
    while page["nextPageToken"] is not None:
        page = httpx.get(f"{second.url}{TABLE}/snapshots?pageToken={page['nextPageToken']}").json()
        found += [one["uuid"] for one in page["snapshots"]]
    acknowledged = [uuid for writer in writers for uuid in writer.acknowledged]
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(acknowledged), "every commit is acknowledged in the end, and none that is there was not asked for"
    snapshots = tmp_path / "warehouse" / "default.db" / "t" / "snapshot"
    assert sorted(int(path.name[9:]) for path in snapshots.glob("snapshot-*")) == list(range(1, len(found) + 1))
    first.start()
    assert httpx.get(f"{first.url}{TABLE}/snapshot").json()["snapshot"]["snapshot"]["id"] == len(found)


class Inserts:
    """Writers that insert rows through one server, one after another, and keep book."""

    def __init__(self, server: RunningServer, number: int, *, writers: int) -> None:
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self._server, self._number = server, number
        self._threads = [threading.Thread(target=self._run, args=(writer,)) for writer in range(writers)]
        self._stop = threading.Event()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def _run(self, writer: int) -> None:
        with httpx.Client(timeout=90) as client:
            n = 0
            while not self._stop.is_set():
                began = time.perf_counter()
                text = f"INSERT INTO t VALUES ({self._number * 1_000_000 + writer * 10_000 + n})"
                answer = client.post(f"{self._server.url}/sql", content=text, headers={"Content-Type": "application/sql"})
                if answer.status_code != 200:
                    self.problems.append(answer.text)
                self.seconds.append(time.perf_counter() - began)
                n += 1


def _side_by_side(start_server: StartServer, dsn: str, tmp_path: Path, *, writers: int, seconds: float, least: float) -> None:
    """Each server gets at least this share of the commits; a writer without a turn got 3 to 7 % of them."""
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    servers = [start_server(name, **shared) for name in ("first", "second")]
    servers[0].sql("CREATE TABLE t (id BIGINT) WITH ('bucket' = '-1')")
    for number, server in enumerate(servers):  # nobody counts while a server still warms up
        for n in range(3):
            server.sql(f"INSERT INTO t VALUES ({-1 - 3 * number - n})")
    inserts = [Inserts(server, number, writers=writers) for number, server in enumerate(servers)]
    for one in inserts:
        one.start()
    time.sleep(seconds)
    assert eventually(lambda: sum(len(one.seconds) for one in inserts) > 60), "shares of a few are chance"
    for one in inserts:
        one.stop()
    counts = [len(one.seconds) for one in inserts]
    longest = max(max(one.seconds) for one in inserts)
    print(f"{counts} inserts in {seconds:g} s, the longest {longest:.2f} s")
    assert [problem for one in inserts for problem in one.problems] == []
    assert min(counts) >= least * sum(counts), counts
    acknowledged = sum(counts) + 3 * len(servers)
    assert servers[1].value("SELECT COUNT(DISTINCT id) FROM t") == servers[0].value("SELECT COUNT(*) FROM t") == acknowledged


@pytest.mark.torture
@pytest.mark.slow
def test_two_servers_that_write_one_table_share_it(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    _side_by_side(start_server, dsn, tmp_path, writers=3, seconds=4, least=0.2)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_two_servers_share_a_table_for_ten_minutes(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    _side_by_side(start_server, dsn, tmp_path, writers=8, seconds=600, least=0.4)


def _copied(server: RunningServer, source: str) -> str:
    """Start the job that copies a table of an alignment group into another; returns its id."""
    settings = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "200 ms"}
    group = "'scan.watermark.alignment.group' = 'servers', 'scan.watermark.alignment.max-drift' = '1 min'"
    statement = f"INSERT INTO {source}_copy SELECT * FROM {source} /*+ OPTIONS({group}) */"
    answer = httpx.post(f"{server.url}/sql", json={"statement": statement, "settings": settings}, timeout=300)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["rows"][0][0])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_job_waits_for_one_of_another_server_until_that_is_killed(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    """Each server runs one job at most, so that nobody takes over the one whose server is gone."""
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse"), "SLUICE_SPARK_MASTER": "local[1]"}
    shared |= {"SLUICE_SPARK_DRIVER_MEMORY": "1g", "SLUICE_JOBS_MOST": "1"}
    dies, lives = start_server("first", **shared), start_server("second", **shared)
    for name in ("slow", "fast"):
        lives.sql(f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)")
        lives.sql(f"CREATE TABLE {name}_copy (id BIGINT, ts TIMESTAMP(3))")
    jobs = {name: _copied(lives, name) for name in ("slow", "fast")}

    def on(job: str) -> Any:
        return lives.sql(f"DESCRIBE JOB '{job}'")[0][6]

    def rows(name: str) -> int:
        return int(lives.value(f"SELECT count(*) FROM {name}_copy"))

    def told(job: str) -> bool:
        source = lives.sql(f"DESCRIBE JOB '{job}'")[0][9]
        return '"watermark": ' in str(source) and '"watermark": null' not in str(source)

    def send(name: str, id_: int, minute: int) -> None:
        lives.sql(f"INSERT INTO {name} VALUES ({id_}, TIMESTAMP '2024-01-01 00:{minute:02}:00')")

    try:
        assert eventually(lambda: None not in {on(job) for job in jobs.values()}, 300), [on(job) for job in jobs.values()]
        assert on(jobs["slow"]) != on(jobs["fast"])
        for name, minute in (("slow", 0), ("fast", 10)):
            send(name, 1, minute)
            assert eventually(lambda: rows(name) == 1 and told(jobs[name]), 300)  # noqa: B023 - asked at once
        sent = 1
        for minute in (11, 12, 13):  # the batch that is planned already may pass
            sent += 1
            send("fast", sent, minute)
            time.sleep(5)
            if held := rows("fast") < sent:
                break
        assert held, [on(job) for job in jobs.values()]
        time.sleep(15)  # longer than a lease
        assert rows("fast") < sent
        if str(on(jobs["slow"])).endswith(f"/{lives.process.pid}"):
            dies, lives = lives, dies
        dies.kill()
        assert eventually(lambda: rows("fast") == sent, 120)
        assert rows("slow") == 1
    finally:
        for job in jobs.values():
            lives.sql(f"STOP JOB '{job}'")
