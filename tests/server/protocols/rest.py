"""The Paimon REST catalog as a endpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import orjson
from flask.testing import FlaskClient

from lake import Lake
from lake.commit.write_context import paths_of
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.rows.arrow import arrow_schema
from tests.server.paimon.committing import rows_of_nulls
from tests.server.paimon.speaking import PREFIX
from tests.server.protocols.common import Columns, Refused, Told, day_of, fields_of, identifier, two_rows


class RestDoor:
    """The Paimon REST catalog."""

    def __init__(self, lake: Lake, client: FlaskClient) -> None:
        self._lake = lake
        self._client = client

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else orjson.dumps(body)
        response = self._client.open(f"{PREFIX}/{path}", method=method, data=data)
        answer: Any = orjson.loads(response.data) if response.data else None
        if response.status_code != 200:
            assert answer["code"] == response.status_code
            raise Refused(Told(status=response.status_code, resource_type=answer["resourceType"]))
        return answer

    def _table(self, name: str) -> str:
        database, _, table = name.partition(".")
        return f"databases/{database}/tables/{quote(table, safe='')}"

    def _alter(self, name: str, **change: object) -> None:
        self._call("POST", self._table(name), {"changes": [change]})

    def create_database(self, name: str, options: dict[str, str]) -> None:
        self._call("POST", "databases", {"name": name, "options": options})

    def alter_database(self, name: str, options: dict[str, str]) -> None:
        self._call("POST", f"databases/{name}", {"removals": [], "updates": options})

    def drop_database(self, name: str) -> None:
        self._call("DELETE", f"databases/{name}")

    def databases(self) -> list[str]:
        return list(self._call("GET", "databases")["databases"])

    def database_options(self, name: str) -> dict[str, str]:
        return dict(self._call("GET", f"databases/{name}")["options"])

    def create_table(self, name: str, columns: Columns, *, options: dict[str, str], comment: str, partition: str | None = None) -> None:
        database, _, table = name.partition(".")
        schema = {
            "fields": [{"id": at, "name": one, "type": type_} for at, (one, type_) in enumerate(columns)],
            "partitionKeys": [partition] if partition else [], "primaryKeys": [], "options": options, "comment": comment,
        }  # fmt: skip
        self._call("POST", f"databases/{database}/tables", {"identifier": {"database": database, "object": table}, "schema": schema})

    def drop_table(self, name: str) -> None:
        self._call("DELETE", self._table(name))

    def rename_table(self, name: str, to: str) -> None:
        self._rename("tables", name, to)

    def _rename(self, what: str, name: str, to: str) -> None:
        source, target = (dict(zip(("database", "object"), one.split("."), strict=True)) for one in (name, to))
        self._call("POST", f"{what}/rename", {"source": source, "destination": target})

    def tables(self, database: str) -> list[str]:
        return list(self._call("GET", f"databases/{database}/tables")["tables"])

    def columns(self, name: str) -> Columns:
        return [(one["name"], one["type"]) for one in self._call("GET", self._table(name))["schema"]["fields"]]

    def options(self, name: str) -> dict[str, str]:
        return dict(self._call("GET", self._table(name))["schema"]["options"])

    def add_column(self, name: str, column: str, type_: str) -> None:
        self._alter(name, action="addColumn", fieldNames=[column], dataType=type_)

    def rename_column(self, name: str, column: str, to: str) -> None:
        self._alter(name, action="renameColumn", fieldNames=[column], newName=to)

    def drop_column(self, name: str, column: str) -> None:
        self._alter(name, action="dropColumn", fieldNames=[column])

    def set_option(self, name: str, key: str, value: str) -> None:
        self._alter(name, action="setOption", key=key, value=value)

    def reset_option(self, name: str, key: str) -> None:
        self._alter(name, action="removeOption", key=key)

    def append(self, name: str) -> None:
        """As clients do: the files first, then the commit that names them."""
        table = self._lake.open(identifier(name))
        new, files, base = two_rows(day_of(table)), table.files, self._latest(name)
        data = rows_of_nulls(arrow_schema(table.schema.fields), 2)
        new = replace(new, file=replace(new.file, file_size=len(data)))
        for path in paths_of(files, table.schema, new):
            files.io.add(path, data)
        entry = ManifestEntry(kind=EntryKind.ADD, partition=new.partition, bucket=0, total_buckets=-1, file=new.file)
        added = files.new_manifests([entry], [one.type for one in table.schema.partition_fields], target=1 << 20)
        latest = table.latest()
        before = files.manifests_of(latest) if latest else []
        snapshot = {
            "version": 3, "uuid": str(uuid4()), "id": base["id"] + 1 if base else 1, "schemaId": table.schema.id,
            "baseManifestList": files.new_manifest_list(before)[0], "deltaManifestList": files.new_manifest_list(added)[0],
            "commitUser": "u", "commitIdentifier": 2**63 - 1, "commitKind": "APPEND", "timeMillis": 1,
            "totalRecordCount": (base["totalRecordCount"] if base else 0) + 2, "deltaRecordCount": 2,
        }  # fmt: skip
        body: dict[str, Any] = {
            "tableId": str(table.table_id),
            "baseSnapshotUuid": base["uuid"] if base else None,
            "snapshot": snapshot,
            "statistics": [],
        }
        assert self._call("POST", f"{self._table(name)}/commit", body) == {"success": True}

    def _latest(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(self._call("GET", f"{self._table(name)}/snapshot")["snapshot"]["snapshot"])
        except Refused as refused:
            if refused.told.resource_type != "SNAPSHOT":
                raise
            return None

    def records(self, name: str) -> int:
        if self._latest(name) is None:
            return 0
        return int(self._call("GET", f"{self._table(name)}/snapshot")["snapshot"]["recordCount"])

    def snapshots(self, name: str) -> list[int]:
        return sorted(one["id"] for one in self._call("GET", f"{self._table(name)}/snapshots")["snapshots"])

    def partitions(self, name: str) -> list[str]:
        found = self._call("GET", f"{self._table(name)}/partitions")["partitions"]
        return ["/".join(f"{key}={value}" for key, value in one["spec"].items()) for one in found]

    def create_tag(self, name: str, tag: str, snapshot: int) -> None:
        self._call("POST", f"{self._table(name)}/tags", {"tagName": tag, "snapshotId": snapshot})

    def delete_tag(self, name: str, tag: str) -> None:
        self._call("DELETE", f"{self._table(name)}/tags/{tag}")

    def tags(self, name: str) -> list[str]:
        return list(self._call("GET", f"{self._table(name)}/tags")["tags"])

    def rollback(self, name: str, snapshot: int) -> None:
        self._call("POST", f"{self._table(name)}/rollback", {"instant": {"type": "snapshot", "snapshotId": snapshot}})

    def create_branch(self, name: str, branch: str, tag: str) -> None:
        self._call("POST", f"{self._table(name)}/branches", {"branch": branch, "fromTag": tag})

    def rename_branch(self, name: str, branch: str, to: str) -> None:
        self._call("POST", f"{self._table(name)}/branches/{branch}/rename", {"toBranch": to})

    def fast_forward(self, name: str, branch: str) -> None:
        self._call("POST", f"{self._table(name)}/branches/{branch}/forward", {})

    def drop_branch(self, name: str, branch: str) -> None:
        self._call("DELETE", f"{self._table(name)}/branches/{branch}")

    def branches(self, name: str) -> list[str]:
        return list(self._call("GET", f"{self._table(name)}/branches")["branches"])

    def create_view(self, name: str, query: str) -> None:
        database, _, view = name.partition(".")
        schema: dict[str, Any] = {
            "fields": [one.to_json() for one in fields_of(query)],
            "query": query,
            "dialects": {},
            "comment": None,
            "options": {},
        }
        self._call("POST", f"databases/{database}/views", {"identifier": {"database": database, "object": view}, "schema": schema})

    def rename_view(self, name: str, to: str) -> None:
        self._rename("views", name, to)

    def drop_view(self, name: str) -> None:
        self._call("DELETE", "databases/{}/views/{}".format(*name.split(".")))

    def views(self, database: str) -> list[str]:
        return list(self._call("GET", f"databases/{database}/views")["views"])
