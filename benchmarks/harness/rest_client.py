"""A client of the commit endpoint that costs next to nothing itself: it shares the cores with the server it measures."""

from __future__ import annotations

import random
import socket
import time
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import orjson

PREFIX = "/v1/sluice"
BATCH_IDENTIFIER = 2**63 - 1


class Client:
    """One connection to the server, as a client's pool keeps it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = f"{parts.hostname}:{parts.port}"
        self._address = (parts.hostname or "", parts.port or 80)
        self._socket = self._connected()

    def _connected(self) -> socket.socket:
        made = socket.create_connection(self._address, timeout=60)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        data = orjson.dumps(body) if body is not None else b""
        headers = f"Host: {self._host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        self._socket.sendall(f"{method} {PREFIX}{path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + data)
        status, answer = self._answer()
        if b"connection: close" in status.lower():
            self._socket.close()
            self._socket = self._connected()
        return int(status[9:12]), orjson.loads(answer) if answer else None

    def _answer(self) -> tuple[bytes, bytes]:
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        while len(body) < length:
            body += self._more()
        return head, body

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("The server closed the connection.")
        return data


class Committer:
    """A writer whose files are always the same two: what is measured is the commit endpoint."""

    def __init__(self, url: str, table: str) -> None:
        self._client = Client(url)
        self._path = f"/databases/default/tables/{table}"
        self._id = self._client.call("GET", self._path)[1]["id"]
        self._look()

    def _look(self) -> None:
        status, answer = self._client.call("GET", f"{self._path}/snapshot")
        self._head: dict[str, Any] = answer["snapshot"]["snapshot"] if status == 200 else {"id": 0, "uuid": None}

    def commit(self) -> int:
        """Commit once; returns how many attempts it took."""
        attempts = 0
        while True:
            attempts += 1
            uuid = str(uuid4())
            snapshot = {
                "version": 3, "uuid": uuid, "id": self._head["id"] + 1, "schemaId": 0, "baseManifestList": "manifest-list-0",
                "deltaManifestList": "manifest-list-1", "commitUser": uuid, "commitIdentifier": BATCH_IDENTIFIER, "commitKind": "APPEND",
                "timeMillis": time.time_ns() // 1_000_000, "totalRecordCount": 0, "deltaRecordCount": 0,
            }  # fmt: skip
            statistics = {
                "spec": {},
                "recordCount": 1,
                "fileSizeInBytes": 900,
                "fileCount": 1,
                "lastFileCreationTime": 1,
                "totalBuckets": 1,
            }
            body = {"tableId": self._id, "baseSnapshotUuid": self._head["uuid"], "snapshot": snapshot, "statistics": [statistics]}
            status, answer = self._client.call("POST", f"{self._path}/commit", body)
            if status != 200:
                raise RuntimeError(f"The commit was answered with {status}: {answer}")
            if answer["success"]:
                self._head = {"id": snapshot["id"], "uuid": uuid}
                return attempts
            # As Paimon's own clients wait by default (commit.min-retry-wait), and as they spread it.
            time.sleep(min(0.01 * 2 ** (attempts - 1), 10) * random.uniform(1.0, 1.2))
            self._look()
