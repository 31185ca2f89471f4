"""The wire as it was recorded: every route and every error of the protocol; UPDATE_GOLDEN=1 records anew."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient

import model.catalog_errors
import model.errors
from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError
from server.app import create_app
from server.paimon.routes import registered
from server.process.services import Services
from server.settings.options import DATA_TOKEN
from tests.server.conftest import NoSpark
from tests.server.paimon.committing import Writer
from tests.server.paimon.exchanges import ALL, Exchange, T
from tests.server.paimon.recording import Recorder
from tests.server.paimon.speaking import Rest

GOLDEN = Path(__file__).parent / "golden"
OF_OTHER_DOORS = {
    "TableChanged",
    "AccessAlreadyExist", "ConsumerTaken", "DropNotExist", "JobCheckpointDamaged", "JobLeaseLost", "JobNotExist", "JobTableReplaced",
    "StreamChanged", "StreamEnded",
    "AnalysisError", "ExecutionError", "IdempotencyInProgress", "IdempotencyMismatch", "IllegalMove", "InvalidData", "InvalidParameter",
    "InvalidToken", "NotAcceptable", "OperationNotExist", "OutOfMemory", "ResultTooLarge", "RewriteConflict", "ServerGone",
    "SessionNotExist", "SqlError", "IdempotencyKeyTaken",
    "SqlSyntaxError", "StatementCanceled", "StatementTimeout", "TooManyStatements", "UnsupportedMediaType", "UnsupportedStatement",
}  # fmt: skip
"""What only statements, sessions and results meet."""
SHOWN_ELSEWHERE = frozenset(
    {
        "BackupRunning",
        "CatalogDamaged",
        "CatalogFull",
        "CatalogLost",
        "ChangedMeanwhile",
        "ClockInDoubt",
        "NewerCatalog",
        "OutcomeUnknown",
        "QuotaExceeded",
        "StorageFull",
        "TableDamaged",
        "Unavailable",
        "WarehouseMismatch",
    }
)
"""What needs a broken machine, files, clock or catalog, or a quota: `test_faults.py`, `tests/e2e/test_outages.py`,
`tests/sql/test_reach.py`, `tests/server/commands/test_standing.py`, `tests/server/commands/test_restore.py`,
`tests/server/commands/test_catalog_damaged.py`;
the quotas' and the clock's own tests."""
TOLD_OTHERWISE = frozenset({"LakeError", "ResourceError", "NotExist", "AlreadyExist", "CommitConflict", "TurnLost", "DatabaseNotEmpty"})
"""Bases; a lost race is ``success: false``; DELETE takes a database with all in it."""


class Bug(Exception):
    """What nobody expected."""


class Environment:
    """A server whose steps can be made to fail."""

    def __init__(self, dsn: str, settings_of: Services, warehouse: Path) -> None:
        self.broken_at: str | None = None
        self.catalog = CatalogStore(dsn)
        self.lake = Lake(self.catalog, str(warehouse), hook=self._step)
        self.services = replace(settings_of, gateway=Gateway(self.lake, NoSpark()))

    def _step(self, name: str) -> None:
        if name == self.broken_at:
            raise Bug(name)

    def close(self) -> None:
        self.lake.close()
        self.catalog.close()


@pytest.fixture
def house(dsn: str, services: Services, tmp_path: Path) -> Iterator[Environment]:
    made = Environment(dsn, services, tmp_path / "recorded")
    yield made
    made.close()


@pytest.fixture
def recorder(house: Environment) -> Recorder:
    """All exchanges, sent."""
    app = create_app(house.services)
    made, rest = Recorder(app, house.lake.warehouse), Rest(app.test_client())
    for name, exchanges in ALL.items():
        if name == "commits":
            made.writer = Writer(rest, house.lake)
        for exchange in exchanges:
            made.send(exchange)
    made.send(("by its id", f"GET tables/id/{rest.get(T)['id']}", None))
    made.send(("too large", "POST databases", b"{}"), environ={"CONTENT_LENGTH": str(1 << 40)})
    _diverge(made, house)
    house.broken_at = "table decided"
    made.send(("a bug", "POST databases/d/tables", {"identifier": {"object": "bug"}, "schema": {"fields": [_INT]}}))
    house.broken_at = None
    with_data_token = create_app(
        replace(house.services, settings=house.services.settings.with_value(DATA_TOKEN, (("fs.s3.accessKey", "a"),)))
    )
    made.send(("data tokens are configured", "GET /v1/config", None), client=with_data_token.test_client())
    made.send(("one is configured", f"GET {T}/token", None), client=with_data_token.test_client())
    _close(made, app.test_client())
    return made


_INT = {"id": 0, "name": "a", "type": "INT"}


def _diverge(recorder: Recorder, house: Environment) -> None:
    """Somebody commits past the catalog."""
    assert recorder.writer is not None
    body = recorder.writer.body(recorder.writer.latest(), schemaId=9)
    place = Path(house.lake.warehouse) / "d.db" / "t" / "snapshot" / f"snapshot-{body['snapshot']['id']}"
    place.write_text(json.dumps(body["snapshot"] | {"uuid": "theirs"}))
    schema_id = recorder.writer.rest.get(T)["schemaId"]
    recorder.send(("written past the catalog", f"POST {T}/commit", lambda writer: writer.body(writer.latest(), schemaId=schema_id)))


def _close(recorder: Recorder, client: FlaskClient) -> None:
    """From the first token on, everybody needs one."""
    root = json.loads(client.post("/tokens", json={"name": "root", "administrator": True}).data)["token"]
    ada = json.loads(client.post("/tokens", json={"name": "ada"}, headers={"Authorization": f"Bearer {root}"}).data)["token"]
    recorder.send(("no token", "GET databases", None))
    recorder.headers = {"Authorization": f"Bearer {ada}"}
    refused: list[Exchange] = [("not granted", f"GET {T}", None), ("not granted", f"DELETE {T}", None)]
    for exchange in refused:
        recorder.send(exchange)
    recorder.headers = {"Authorization": f"Bearer {root}"}
    grant = {"resource": {"type": "TABLE", "database": "d", "table": "t"}, "access": "CREATETABLE", "principal": "ada"}
    recorder.send(("an access a table has not", "POST permissions/grant", grant))


def _file(name: str) -> Path:
    return GOLDEN / f"{name.replace(' ', '.').replace('/', '.').replace('{}', '_')}.json"


def _classes() -> set[str]:
    both = [*vars(model.errors).values(), *vars(model.catalog_errors).values()]
    return {one.__name__ for one in both if isinstance(one, type) and issubclass(one, LakeError)}


def test_the_wire_is_as_recorded(recorder: Recorder) -> None:
    texts = {_file(name): json.dumps(kept, indent=1, ensure_ascii=False) + "\n" for name, kept in recorder.kept.items()}
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.mkdir(exist_ok=True)
        for path, text in texts.items():
            path.write_text(text)
    assert {path.name for path in texts} == {path.name for path in GOLDEN.iterdir()}
    for path, text in texts.items():
        assert json.loads(text) == json.loads(path.read_text()), f"{path.name}: UPDATE_GOLDEN=1 records anew; look at the diff"
    assert {"GET config", *(f"{method} {path}" for method, path in registered())} <= set(recorder.kept), "a route without a recording"
    missing = _classes() - recorder.errors - OF_OTHER_DOORS - SHOWN_ELSEWHERE - TOLD_OTHERWISE
    assert not missing, "errors without a recording"
    assert not recorder.errors & (OF_OTHER_DOORS | TOLD_OTHERWISE), "these are met after all"
