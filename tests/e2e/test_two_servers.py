"""Two servers on one Postgres and warehouse: commits go to both at once, one is killed, nothing is lost or doubled."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.fix_server import StartServer
from tests.running import RunningServer

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
        (manifests / f"manifest-list-{at}").write_bytes(b"")
    writers = [Writer(servers) for servers in ([first, second], [second, first], [first, second], [second, first])]
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    time.sleep(4)
    first.kill()
    time.sleep(4)
    stop.set()
    for writer, thread in zip(writers, threads, strict=True):
        thread.join(60)
        writer.close()
    assert [problem for writer in writers for problem in writer.problems] == []
    found: list[str] = []
    page: dict[str, Any] = {"nextPageToken": ""}
    while page["nextPageToken"] is not None:
        page = httpx.get(f"{second.url}{TABLE}/snapshots?pageToken={page['nextPageToken']}").json()
        found += [one["uuid"] for one in page["snapshots"]]
    acknowledged = [uuid for writer in writers for uuid in writer.acknowledged]
    assert len(acknowledged) > 20
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(acknowledged), "every commit is acknowledged in the end, and none that is there was not asked for"
    snapshots = tmp_path / "warehouse" / "default.db" / "t" / "snapshot"
    assert sorted(int(path.name[9:]) for path in snapshots.glob("snapshot-*")) == list(range(1, len(found) + 1))
    first.start()
    assert httpx.get(f"{first.url}{TABLE}/snapshot").json()["snapshot"]["snapshot"]["id"] == len(found)
