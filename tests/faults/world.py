"""A server without Spark in this process, on a warehouse that may fail, and what its clients ask of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import pyarrow as pa

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from gateway.ingest import IfExists
from lake import Lake
from model.identifier import Identifier
from server.app import create_app
from server.process.services import Services
from server.settings.settings import read_settings
from table.format.io.file_io import FileIO, file_io_for
from table.format.io.patience import STORE_SECONDS
from tests import fix_gateway
from tests.server.conftest import NoSpark

SETTLE_SECONDS = 5.0
"""What a busy disk may take where nothing fails; what an earlier fault put off may come much later, and is waited for no longer."""
STRUCK_SECONDS = 0.5
"""The same where a fault may just have put it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client was told."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether it was told that what it asked for is done."""
        return self.status == 200


class World:
    """One server; several may stand on one catalog and warehouse."""

    def __init__(
        self,
        dsn: str,
        directory: Path,
        *,
        file_io: FileIO | None = None,
        warehouse: str | None = None,
        begins: bool = False,
        store_seconds: float = STORE_SECONDS,
    ) -> None:
        """``begins``: whether statements that may need Spark begin, and fail only where they do."""
        self.directory = directory
        self._put_off: set[UUID] = set()
        self._catalog = CatalogStore(dsn)
        self.warehouse = warehouse or str(directory / "warehouse")
        self.elsewhere = str(directory / "elsewhere") if warehouse is None else f"{warehouse}-elsewhere"
        """Where what others wrote may be taken over from."""
        self.lake = Lake(self._catalog, self.warehouse, file_io=file_io, import_dirs=[self.elsewhere])
        self._gateway = Gateway(
            self.lake,
            fix_gateway.NoSpark() if begins else NoSpark(),
            limits=GatewayLimits(local_threads=4, spark_statements=1, store_seconds=store_seconds),
        )
        self._gateway.start()
        settings = read_settings({"SLUICE_DATA": str(directory)})
        self._app = create_app(Services(gateway=self._gateway, settings=settings))

    def ask(self, text: str, key: str | None = None) -> Answer:
        """Run a statement."""
        headers = {"Content-Type": "application/sql", "Accept": "application/json"} | ({"Idempotency-Key": key} if key else {})
        return self.post("/sql", text.encode(), headers)

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> Answer:
        """Send a body."""
        response = self._app.test_client().post(path, data=body, headers=headers)
        text = response.get_data(as_text=True)
        answer = json.loads(text) if text.startswith("{") else text
        broken = answer.get("error") if isinstance(answer, dict) else None  # a stream that broke after its first row
        return Answer(status=broken["status"] if broken else response.status_code, body=answer)

    def ingest(self, table: str, rows: pa.Table) -> None:
        """Put rows with columns of their own in the place of a table, as Flight SQL does; raises what it answers."""

        def body() -> IO[bytes]:
            made = tempfile.TemporaryFile()  # noqa: SIM115 - who reads it closes it
            with pa.ipc.new_stream(made, rows.schema) as stream:
                stream.write_table(rows)
            made.seek(0)
            return made

        name = Identifier("default", table)
        self._gateway.ingest(name, rows.schema, body, create=False, if_exists=IfExists.REPLACE)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query that must be answered."""
        answer = self.ask(text)
        assert answer.ok, f"{text}: {answer}"
        return [tuple(row) for row in answer.body["rows"]]

    def must(self, *texts: str) -> None:
        """Run statements that must succeed."""
        for text in texts:
            self.rows(text)

    def ids(self, table: str) -> list[int]:
        """What a table holds, sorted, as SELECT tells it; what COUNT(*) tells must be the same."""
        found = sorted(row[0] for row in self.rows(f"SELECT id FROM {table}"))
        assert self.rows(f"SELECT COUNT(*) FROM {table}") == [(len(found),)]
        return found

    @property
    def store(self) -> FileIO:
        """Where the warehouse and what others wrote lie, as somebody else reaches it: nothing fails there."""
        return file_io_for(self.warehouse)

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait for the thread that flushes and notes what was published, so that its calls count for the operation they belong to.

        What a fault has put off stays behind, and is not waited for again.
        """
        until = time.monotonic() + seconds
        while (behind := self._behind() - self._put_off) and time.monotonic() < until:
            time.sleep(0.005)
        self._put_off |= behind

    def _behind(self) -> set[UUID]:
        with self._catalog.reading() as tx:
            return {table_id for table_id, _ in tx.publications.tables_with_unpublished()}

    def close(self) -> None:
        """Stop the server."""
        self._gateway.close()
        self.lake.close()
        self._catalog.close()


@contextmanager
def world(
    dsn: str,
    directory: Path,
    *,
    file_io: FileIO | None = None,
    warehouse: str | None = None,
    begins: bool = False,
    store_seconds: float = STORE_SECONDS,
) -> Iterator[World]:
    """A server for a while."""
    made = World(dsn, directory, file_io=file_io, warehouse=warehouse, begins=begins, store_seconds=store_seconds)
    try:
        yield made
    finally:
        made.close()
