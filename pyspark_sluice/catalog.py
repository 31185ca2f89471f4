"""A table as the server's Paimon REST catalog tells of it; what it holds is read from its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

from model.errors import BadRequest, Forbidden, LakeError, NotAuthorized, SnapshotNotExist, TableNotExist, Unavailable
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import Schema
from model.snapshot import Snapshot
from pyspark_sluice.options import SourceOptions
from table.format.io.file_io import file_io_for, local_path
from table.format.store import TableFiles

_SECONDS, _CONNECT_SECONDS = 30, 10
_PAGE = 1000


class RemoteTable:
    """One table (or branch) of a server: its schema when it was opened, its snapshots as they are."""

    def __init__(self, options: SourceOptions) -> None:
        import httpx  # executors import this module and ask for nothing

        headers = {"Authorization": f"Bearer {options.token}"} if options.token else {}
        timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
        self.client = httpx.Client(base_url=options.uri, headers=headers, timeout=timeout)
        self.identifier = options.table
        try:
            self.prefix = self._ask("GET", "/v1/config")["defaults"]["prefix"]
            self._open(self._ask("GET", self._path()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the server."""
        self.client.close()

    def _open(self, body: Mapping[str, Any]) -> None:
        if (body["schema"].get("options") or {}).get("query-auth.enabled") == "true":
            raise Forbidden(f"Only a part of table {self.identifier} may be seen, and Spark would read all of its files; query it in SQL.")
        self.table_id = UUID(body["id"])
        self.schema = Schema.from_json({"id": body["schemaId"], **body["schema"]})
        self.location = local_path(body["path"])
        self.files = TableFiles(
            file_io_for(self.location),
            self.location,
            self.identifier.branch,
            name=self.identifier.written(),
            allowed=body.get("allowedLocations"),
        )
        self.files.partition_types = [field.type for field in self.schema.partition_fields]

    def reopen(self) -> None:
        """Look where and what the table is now, whatever it is called; raises `TableNotExist`."""
        if self.identifier.branch == MAIN_BRANCH:
            body = self._ask("GET", f"/v1/{self.prefix}/tables/id/{self.table_id}")
            self.identifier = Identifier(body["database"], body["name"])
        else:
            body = self._ask("GET", self._path())
        self._open(body)

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None for a table never written."""
        return self.version("LATEST")

    def wait_beyond(self, snapshot: int, seconds: float) -> int:
        """The newest snapshot's id (0 for none), as soon as it is larger; a server that cannot wait answers at once."""
        wait = {"newerThan": snapshot, "wait": seconds}
        body = self._ask("GET", self._path("/snapshot"), params=wait, timeout=seconds + 30, missing=SnapshotNotExist)
        return int(body["snapshot"]["snapshot"]["id"]) if body else 0

    def version(self, version: str) -> Snapshot | None:
        """A snapshot by EARLIEST, LATEST, its number or a tag's name."""
        body = self._ask("GET", self._path(f"/snapshots/{quote_plus(version)}"), missing=SnapshotNotExist)
        return Snapshot.from_json(body["snapshot"]) if body else None

    def is_past(self, snapshot_id: int, key: str) -> bool:
        """Whether the snapshot of a key is one of the table's past; of one that has expired the server knows the last."""
        body = self._ask("GET", self._path(f"/snapshots/{snapshot_id}"), params={"key": key}, missing=SnapshotNotExist)
        return body is None or bool(body.get("isPast", True))  # an earlier server does not tell

    def history(self) -> list[Snapshot]:
        """All snapshots that are left, oldest first."""
        snapshots = [Snapshot.from_json(entry) for entry in self._pages("/snapshots", "snapshots")]
        return snapshots[::-1]

    def tags(self) -> dict[str, Snapshot]:
        """The snapshots tags keep, by the tags' names."""
        names = list(self._pages("/tags", "tags"))
        return {name: Snapshot.from_json(self._ask("GET", self._path(f"/tags/{quote_plus(name)}"))["snapshot"]) for name in names}

    def consumers(self) -> dict[str, int]:
        """The next snapshot of each consumer."""
        return {consumer["consumerId"]: consumer["nextSnapshot"] for consumer in self._pages("/consumers", "consumers")}

    def tell_consumer(self, name: str, next_snapshot: int, after: str | None) -> None:
        """Note a consumer's progress, unless the snapshot of the key before is the table's no more: then the next look tells."""
        sent = {"consumerId": name, "nextSnapshotId": next_snapshot} | ({} if after is None else {"after": after})
        self._ask("POST", self._path("/consumers/reset"), json=sent, missing=SnapshotNotExist)

    def commit(self, snapshot: Snapshot, base: str | None) -> bool:
        """Make a snapshot the latest; False where it is to be built anew on what the latest is by now.

        One of its user, identifier and kind that has landed is this one: a repeated micro-batch comes with files of its own.
        """
        body: dict[str, Any] = {
            "tableId": str(self.table_id),
            "baseSnapshotUuid": base,
            "snapshot": snapshot.to_json(),
            "statistics": [],
            "identifierDecides": True,
        }
        return bool(self._ask("POST", self._path("/commit"), json=body)["success"])

    def _path(self, below: str = "") -> str:
        name = str(self.identifier).removeprefix(f"{self.identifier.database}.")
        return f"/v1/{self.prefix}/databases/{quote_plus(self.identifier.database)}/tables/{quote_plus(name)}{below}"

    def _pages(self, below: str, member: str) -> Iterator[Any]:
        token: str | None = None
        while True:
            body = self._ask("GET", self._path(below), params={"maxResults": _PAGE} | ({"pageToken": token} if token else {}))
            yield from body[member]
            token = body.get("nextPageToken")
            if not token:
                return

    def _ask(self, method: str, path: str, *, missing: type[LakeError] | None = None, **arguments: Any) -> Any:
        """The answer's JSON; with ``missing``, None where the table is there and what is asked for is not."""
        import httpx

        try:
            answer = self.client.request(method, path, **arguments)
        except httpx.HTTPError as problem:
            raise Unavailable(f"The server at {self.client.base_url} does not answer: {problem or type(problem).__name__}.") from problem
        if answer.is_success:
            return answer.json() if answer.content else None
        try:
            body = answer.json()
        except ValueError:
            body = {}
        message = body.get("message") or body.get("detail") or f"{method} {path} was answered with {answer.status_code}"
        match answer.status_code:
            case 401:
                raise NotAuthorized(message)
            case 403:
                raise Forbidden(message)
            case 404 if missing is not None and body.get("resourceType") != "TABLE":
                return None
            case 404:
                raise TableNotExist(str(self.identifier))
            case status if status < 500:
                raise BadRequest(message)
        raise Unavailable(message)
