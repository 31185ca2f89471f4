"""A table as the server's Paimon REST catalog tells of it; what it holds is read from its files."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote_plus
from urllib.request import getproxies
from uuid import UUID

from model.errors import BadRequest, Forbidden, LakeError, NotAuthorized, SnapshotNotExist, TableNotExist, Unavailable
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import Schema
from model.snapshot import Snapshot
from model.text.whole_number import whole_number
from pyspark_sluice.options import SourceOptions
from table.format.io.file_io import file_io_for, local_path
from table.format.store import TableFiles

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
PATIENCE_SECONDS = 300.0
"""For so long a query or a write waits for a server that is away."""
PAUSE_SECONDS = 1.0
"""Between two tries, or longer where the server says so, up to `_MOST_PAUSE_SECONDS`."""
_MOST_PAUSE_SECONDS = 30.0
_SECONDS, _CONNECT_SECONDS = 30, 10
_COMMIT_SECONDS = 120
"""For so long a commit waits for its answer: for its turn among other writers, for a slow store, for Postgres."""
_PAGE = 1000
_AWAY = (408, 425, 429, 502, 503, 504)
"""Statuses that pass; our server answers what does not pass otherwise."""
_MISSING, _GONE = ("SNAPSHOT", "TAG", "CONSUMER"), ("TABLE", "DATABASE", "BRANCH")
"""What a 404 of our server tells the lack of: of something of the table, or of the table itself."""


class RemoteTable:
    """One table (or branch) of a server: its schema when it was opened, its snapshots as they are.

    Whatever may be asked again waits for a server that is away, `PATIENCE_SECONDS` unless told otherwise; then it raises `Unavailable`.
    """

    def __init__(self, options: SourceOptions, *, patience: float | None = None) -> None:
        import httpx  # executors import this module and ask for nothing

        self.patience = PATIENCE_SECONDS if patience is None else patience
        """Seconds."""
        headers = {"Authorization": f"Bearer {options.token}"} if options.token else {}
        timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
        self.client = httpx.Client(base_url=options.uri, headers=headers, timeout=timeout, verify=_trust(options.uri))
        self._ended = threading.Event()
        self.identifier = options.table
        try:
            self.prefix = self._ask("GET", "/v1/config")["defaults"]["prefix"]
            if options.table_id is None:
                self._open(self._ask("GET", self._path()))
            else:
                self.table_id = options.table_id
                self.reopen()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the server."""
        self.client.close()

    def end_waiting(self) -> None:
        """Ask nothing again from now on, in any thread: who stops does not wait for a server that is away."""
        self._ended.set()

    def pause(self) -> None:
        """Wait a moment before something is sent again that was not answered."""
        self._ended.wait(PAUSE_SECONDS)

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
        body = self._ask("GET", f"/v1/{self.prefix}/tables/id/{self.table_id}")
        self.identifier = Identifier(body["database"], body["name"], self.identifier.branch)
        if self.identifier.branch != MAIN_BRANCH:
            body = self._ask("GET", self._path())
        self._open(body)

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None for a table never written."""
        return self.version("LATEST")

    def wait_beyond(self, snapshot: int, seconds: float) -> int:
        """The newest snapshot's id (0 for none), as soon as it is larger; a server that cannot wait answers at once.

        Raises `Unavailable` as soon as the server is away.
        """

        def asked() -> Any:
            wait = {"newerThan": snapshot, "wait": seconds}
            return self._once("GET", self._path("/snapshot"), params=wait, timeout=seconds + 30, missing=SnapshotNotExist)

        body = self._of_this(asked)
        # An earlier server does not tell whose it is; a table that is new under the name has none, or others.
        if (body is None and snapshot > 0) or (body is not None and body.get("tableId", str(self.table_id)) != str(self.table_id)):
            self.reopen()
            body = asked()
        return int(body["snapshot"]["snapshot"]["id"]) if body else 0

    def version(self, version: str) -> Snapshot | None:
        """A snapshot by EARLIEST, LATEST, its number or a tag's name."""
        body = self._of_this(lambda: self._ask("GET", self._path(f"/snapshots/{quote_plus(version)}"), missing=SnapshotNotExist))
        return Snapshot.from_json(body["snapshot"]) if body else None

    def is_past(self, snapshot_id: int, key: str) -> bool:
        """Whether the snapshot of a key is one of the table's past; of one that has expired the server knows the last."""
        sent = {"key": key}
        body = self._of_this(lambda: self._ask("GET", self._path(f"/snapshots/{snapshot_id}"), params=sent, missing=SnapshotNotExist))
        return body is None or bool(body.get("isPast", True))  # an earlier server does not tell

    def history(self) -> list[Snapshot]:
        """All snapshots that are left, oldest first."""
        snapshots = [Snapshot.from_json(entry) for entry in self._pages("/snapshots", "snapshots")]
        return snapshots[::-1]

    def tags(self) -> dict[str, Snapshot]:
        """The snapshots tags keep, by the tags' names."""
        snapshots = {name: self.tag(name) for name in list(self._pages("/tags", "tags"))}
        return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}

    def tag(self, name: str) -> Snapshot | None:
        """The snapshot a tag keeps; None where there is no such tag."""
        if name in ("", ".", ".."):  # are other paths, and no tags
            return None
        body = self._of_this(lambda: self._ask("GET", self._path(f"/tags/{quote_plus(name)}"), missing=SnapshotNotExist))
        return Snapshot.from_json(body["snapshot"]) if body else None

    def consumers(self) -> dict[str, int]:
        """The next snapshot of each consumer."""
        return {consumer["consumerId"]: consumer["nextSnapshot"] for consumer in self._pages("/consumers", "consumers")}

    def tell_consumer(self, name: str, next_snapshot: int, after: str | None) -> None:
        """Note a consumer's progress, unless the snapshot of the key before is the table's no more: then the next look tells."""
        sent = {"consumerId": name, "nextSnapshotId": next_snapshot, "tableId": str(self.table_id)} | (
            {} if after is None else {"after": after}
        )
        self._of_this(lambda: self._ask("POST", self._path("/consumers/reset"), json=sent, missing=SnapshotNotExist))

    def commit(self, snapshot: Snapshot, base: str | None) -> str | None:
        """Make a snapshot the latest; None where it is to be built anew on what the latest is by now.

        Returns the uuid of the snapshot it is: one of its user, identifier and kind that has landed is this one, as a repeated micro-batch
        comes with files of its own. From an earlier server, which does not tell, its own. Raises `Unavailable` where no answer says
        whether it has landed, and anything else of `model.errors` where the server has refused it.
        """
        body: dict[str, Any] = {
            "tableId": str(self.table_id),
            "baseSnapshotUuid": base,
            "snapshot": snapshot.to_json(),
            "statistics": [],
            "identifierDecides": True,
        }
        answer = self._once("POST", self._path("/commit"), json=body, timeout=_COMMIT_SECONDS)
        try:
            return str(answer.get("snapshotUuid", snapshot.uuid)) if answer["success"] else None
        except (AttributeError, KeyError, TypeError) as problem:
            raise Unavailable(f"The server at {self.client.base_url} answered a commit with {answer!r}.") from problem

    def _path(self, below: str = "") -> str:
        name = str(self.identifier).removeprefix(f"{self.identifier.database}.")
        return f"/v1/{self.prefix}/databases/{quote_plus(self.identifier.database)}/tables/{quote_plus(name)}{below}"

    def _of_this(self, asked: Callable[[], T]) -> T:
        """What is answered about this table, also where it has got another name since; raises `TableNotExist` where it is no more."""
        try:
            return asked()
        except TableNotExist:
            self.reopen()
            return asked()

    def _pages(self, below: str, member: str) -> Iterator[Any]:
        token: str | None = None
        while True:
            sent = {"maxResults": _PAGE} | ({"pageToken": token} if token else {})
            body = self._of_this(partial(self._page, below, sent))
            yield from body[member]
            token = body.get("nextPageToken")
            if not token:
                return

    def _page(self, below: str, sent: Mapping[str, Any]) -> Any:
        return self._ask("GET", self._path(below), params=sent)

    def _ask(self, method: str, path: str, *, missing: type[LakeError] | None = None, **arguments: Any) -> Any:
        """The answer to what may be asked again; with ``missing``, None where the table is there and what is asked for is not."""
        until = time.monotonic() + self.patience
        while True:
            answer = self._answer(method, path, **arguments)
            pause = _pause(answer)
            if pause is None or time.monotonic() + pause > until or self._ended.wait(pause):
                return self._read(answer, method, path, missing)

    def _once(self, method: str, path: str, *, missing: type[LakeError] | None = None, **arguments: Any) -> Any:
        """The same without patience."""
        return self._read(self._answer(method, path, **arguments), method, path, missing)

    def _answer(self, method: str, path: str, **arguments: Any) -> httpx.Response | Unavailable:
        """What the server says, or that it says nothing: what is not in its words is of a proxy that does not reach it.

        That answers a page of its own, with success while it is maintained, with 404 while it knows no way to the server.
        """
        import httpx

        try:
            answer = self.client.request(method, path, **arguments)
        except httpx.HTTPError as problem:
            away = Unavailable(f"The server at {self.client.base_url} does not answer: {problem or type(problem).__name__}.")
            away.__cause__ = problem
            return away
        body = _json(answer)
        if (answer.is_success and answer.content and body is None) or (answer.status_code == 404 and _told(body).get("code") != 404):
            return Unavailable(
                f"The server at {self.client.base_url} does not answer: {method} {path} was answered with {answer.status_code} in words "
                "that are not its own."
            )
        return answer

    def _read(self, answer: httpx.Response | Unavailable, method: str, path: str, missing: type[LakeError] | None) -> Any:
        """The answer's JSON, or the failure it tells."""
        if isinstance(answer, Unavailable):
            raise answer
        body = _json(answer)
        if answer.is_success:
            return body
        fields = _told(body)
        kind = fields.get("resourceType")
        if answer.status_code == 404 and missing is not None and kind in _MISSING:
            return None
        if answer.status_code == 404 and kind in _GONE:
            raise TableNotExist(str(self.identifier))
        lasting = method == "POST" and kind is not None  # for what the table is like: not by trying again
        message = fields.get("message") or fields.get("detail") or f"{method} {path} was answered with {answer.status_code}"
        raise _failure(answer.status_code, lasting=lasting)(message)


def _trust(uri: str) -> ssl.SSLContext | bool:
    """What a connection's certificates are held against: the authorities that are known, of which plain HTTP needs none.

    To load them takes a third of a second. A proxy may be called over TLS for a server that is not.
    """
    plain = uri.lower().startswith("http://") and not any(proxy.lower().startswith("https:") for proxy in getproxies().values())
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True  # whoever comes to TLS for all that trusts nobody


def _json(answer: httpx.Response) -> Any:
    """What an answer says; None where that is no JSON."""
    try:
        return answer.json() if answer.content else None
    except ValueError:
        return None


def _told(body: Any) -> Mapping[str, Any]:
    """The members of a failure's document."""
    return body if isinstance(body, dict) else {}


def _failure(status: int, *, lasting: bool) -> type[LakeError]:
    """What a status says."""
    if status in (401, 403):
        return NotAuthorized if status == 401 else Forbidden
    return BadRequest if (status < 500 and status not in _AWAY) or (status == 500 and lasting) else Unavailable


def _pause(answer: httpx.Response | Unavailable) -> float | None:
    """Seconds until the same may be asked again; None where that would change nothing."""
    if isinstance(answer, Unavailable):
        return PAUSE_SECONDS
    if answer.status_code not in _AWAY:
        return None
    seconds = whole_number(answer.headers.get("Retry-After", ""))
    return min(max(seconds or 0, PAUSE_SECONDS), _MOST_PAUSE_SECONDS)
