"""Commits as a client builds them: manifests are real, and so are data files, though all that is in them is NULL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from lake import Lake
from model.identifier import Identifier
from model.schema.types import DataType
from model.snapshot import Snapshot
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, ManifestEntry, ManifestFile, SimpleStats
from table.format.rows import binary_row
from table.format.rows.arrow import arrow_schema
from tests.server.paimon.speaking import Rest

BATCH = 2**63 - 1


@cache
def rows_of_nulls(columns: pa.Schema, rows: int) -> bytes:
    """A Parquet file of so many rows, all of whose values are NULL."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.nulls(rows, column.type) for column in columns], [column.name for column in columns]), out)
    return bytes(out.getvalue())


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

    def body(
        self,
        base: dict[str, Any] | None,
        *,
        told: list[dict[str, Any]] | None = None,
        changes: Sequence[ManifestEntry] = (),
        **changed: Any,
    ) -> dict[str, Any]:
        """A commit on a snapshot: what that held, and the changes."""
        files = self._files
        types = [field.type for field in files.read_schema(0).partition_fields]
        known = self.manifests(Snapshot.from_json(base), types) if base else []
        before, before_size = files.new_manifest_list(known)
        after, after_size = files.new_manifest_list(files.new_manifests(changes, types, target=1 << 20))
        rows = sum(entry.file.row_count if entry.kind is EntryKind.ADD else -entry.file.row_count for entry in changes)
        snapshot = {
            "version": 3, "uuid": str(uuid4()), "id": (base or {"id": 0})["id"] + 1, "schemaId": 0, "baseManifestList": before,
            "baseManifestListSize": before_size, "deltaManifestList": after, "deltaManifestListSize": after_size,
            "changelogManifestList": None, "commitUser": "u", "commitIdentifier": BATCH, "commitKind": "APPEND",
            "timeMillis": 1_790_000_600_123, "totalRecordCount": (base or {"totalRecordCount": 0})["totalRecordCount"] + rows,
            "deltaRecordCount": rows, "madeUp": {"kept": [1]},
        } | changed  # fmt: skip
        return {
            "tableId": self.table_id,
            "baseSnapshotUuid": base.get("uuid") if base else None,
            "snapshot": snapshot,
            "statistics": told or [],
        }

    def file(self, *, rows: int, created: int = 7, partition: tuple[object, ...] = (), buckets: int = -1) -> ManifestEntry:
        """A file of so many rows, all of whose values are NULL, added to a partition's first bucket."""
        schema = self._files.read_schema(0)
        types = [field.type for field in schema.partition_fields]
        name = f"data-{uuid4()}-0.parquet"
        data = rows_of_nulls(arrow_schema(schema.fields), max(0, rows))
        self._files.io.add(self._files.layout.data_file(schema, partition, 0, name), data)
        file = DataFile(
            file_name=name, file_size=len(data), row_count=rows, value_stats=SimpleStats(), value_stats_cols=(), min_sequence_number=0,
            max_sequence_number=rows - 1, schema_id=0, creation_time_millis=created,
        )  # fmt: skip
        packed = binary_row.encode_prefixed(types, partition) if types else EMPTY_ROW
        return ManifestEntry(kind=EntryKind.ADD, partition=packed, bucket=0, total_buckets=buckets, file=file)

    def manifests(self, base: Snapshot, types: Sequence[DataType]) -> list[ManifestFile]:
        """What the next snapshot names of what was before it."""
        return self._files.manifests_of(base)

    def post(self, body: dict[str, Any]) -> bool:
        """Whether the commit was taken."""
        answer = self.rest.post(f"{self.path}/commit", body)
        assert set(answer) - {"snapshotUuid"} == {"success"}
        return bool(answer["success"])

    def commit(self, **changed: Any) -> dict[str, Any]:
        """One more commit on the latest snapshot."""
        body = self.body(self.latest(), **changed)
        assert self.post(body)
        return dict(body["snapshot"])


class AnewWriter(Writer):
    """Names new manifests of what is live each time, as Java's `rollbackToAsLatest` does: in them nothing has gone."""

    def manifests(self, base: Snapshot, types: Sequence[DataType]) -> list[ManifestFile]:
        """As `Writer`."""
        return self._files.new_manifests(list(self._files.live_entries(base)), types, target=1 << 20)
