"""Commits as a client builds them: manifest lists are real files, the rows in them need not be."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from lake import Lake
from model.identifier import Identifier
from tests.server.paimon.speaking import Rest

BATCH = 2**63 - 1


class Writer:
    """Builds commits on what it last saw of a table."""

    def __init__(self, rest: Rest, lake: Lake, name: str = "t") -> None:
        self.rest = rest
        self.path = f"databases/d/tables/{name}"
        table, _, branch = name.partition("$branch_")
        self._files = lake.open(Identifier("d", table, branch or "main")).files
        self.table_id = rest.get(self.path)["id"]

    def latest(self) -> dict[str, Any] | None:
        response = self.rest.call("GET", f"{self.path}/snapshot")
        answer = response.get_json(force=True)
        return dict(answer["snapshot"]["snapshot"]) if response.status_code == 200 else None

    def body(self, base: dict[str, Any] | None, *, statistics: list[dict[str, Any]] | None = None, **changed: Any) -> dict[str, Any]:
        """A commit on a snapshot."""
        before, after = self._files.new_manifest_list([])[0], self._files.new_manifest_list([])[0]
        snapshot = {
            "version": 3, "uuid": str(uuid4()), "id": (base or {"id": 0})["id"] + 1, "schemaId": 0, "baseManifestList": before,
            "baseManifestListSize": 1, "deltaManifestList": after, "deltaManifestListSize": 1, "changelogManifestList": None,
            "commitUser": "u", "commitIdentifier": BATCH, "commitKind": "APPEND", "timeMillis": 1_790_000_600_123,
            "totalRecordCount": 0, "deltaRecordCount": 0, "madeUp": {"kept": [1]},
        } | changed  # fmt: skip
        return {
            "tableId": self.table_id,
            "baseSnapshotUuid": base.get("uuid") if base else None,
            "snapshot": snapshot,
            "statistics": statistics or [],
        }

    def post(self, body: dict[str, Any]) -> bool:
        """Whether the commit was taken."""
        answer = self.rest.post(f"{self.path}/commit", body)
        assert set(answer) == {"success"}
        return bool(answer["success"])

    def commit(self, **changed: Any) -> dict[str, Any]:
        """One more commit on the latest snapshot."""
        body = self.body(self.latest(), **changed)
        assert self.post(body)
        return dict(body["snapshot"])
