"""The endpoints on a real gateway and a real Postgres; Spark is left out where a test needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import Unavailable
from server.app import create_app
from server.http.wsgi import HttpServer
from server.process.services import Services
from server.settings.settings import read_settings
from tests import fix_gateway
from workers.pool import WorkerPool


class _Lease:
    def require(self, check: Callable[[], None] = lambda: None) -> None:
        raise Unavailable("There is no Spark in this test.")

    def running(self, statement_id: str) -> AbstractContextManager[Any]:
        raise Unavailable("There is no Spark in this test.")

    def spared(self, statement_id: str) -> bool:
        return False


class NoSpark(fix_gateway.NoSpark):
    """A pool without Spark, whose statements are refused before they begin."""

    def lease(self, principal: str = "") -> Any:
        return _Lease()


@pytest.fixture
def gateway(dsn: str, tmp_path: Path, workers: WorkerPool, import_dirs: list[str]) -> Iterator[Gateway]:
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"), import_dirs=import_dirs)
    made = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=4, spark_statements=1), workers=workers)
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


@pytest.fixture
def url(gateway: Gateway, tmp_path: Path) -> Iterator[str]:
    settings = read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_LISTEN": "127.0.0.1:0", "SLUICE_DRAIN_SECONDS": "1"})
    services = Services(gateway=gateway, settings=settings)
    http = HttpServer(create_app(services), settings)
    host, port = http.start_serving()
    yield f"http://{host}:{port}"
    services.stop_waiting()
    gateway.drain(0)
    http.stop_serving()
