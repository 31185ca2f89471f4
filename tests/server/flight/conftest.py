"""A Flight endpoint in this process, and ADBC connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from adbc_driver_manager.dbapi import Connection, Cursor

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from server.access.tls import TlsFiles
from server.app import create_app
from server.flight.server import FlightEndpoint
from server.observe.metrics import metrics_of
from server.process.services import Services
from server.settings.settings import read_settings
from tests import fix_postgres
from tests.fix_memory import LastingPath
from tests.server.conftest import NoSpark
from workers.pool import WorkerPool


class Endpoint:
    """A Flight endpoint in this process, on a gateway without Spark."""

    def __init__(
        self, dsn: str, directory: Path, tls: TlsFiles | None = None, *, workers: WorkerPool | None = None, **settings: str
    ) -> None:
        self.catalog = CatalogStore(dsn)
        self.lake = Lake(self.catalog, str(directory / "warehouse"))
        limits = GatewayLimits(local_threads=8, spark_statements=1)
        self.gateway = Gateway(self.lake, NoSpark(), limits=limits, workers=workers)
        self.gateway.start()
        given = {"SLUICE_DATA": str(directory), "SLUICE_FLIGHT_LISTEN": "127.0.0.1:0", **settings}
        self.services = Services(gateway=self.gateway, settings=read_settings(given))
        self.app = create_app(self.services)
        self.endpoint = FlightEndpoint(self.services, metrics_of(self.app), tls)
        host, port = self.endpoint.start()
        self.url = f"{'grpc' if tls is None else 'grpc+tls'}://{host}:{port}"

    def close(self) -> None:
        self.endpoint.stop(5)
        self.gateway.close()
        self.lake.close()
        self.catalog.close()


@pytest.fixture(scope="module")
def endpoint(server_dsn: str, template: str, lasting_path: LastingPath) -> Iterator[Endpoint]:
    with fix_postgres.database(server_dsn, template) as dsn:
        made = Endpoint(dsn, lasting_path("flight"))
        yield made
        made.close()


@pytest.fixture
def connection(endpoint: Endpoint) -> Iterator[Connection]:
    with dbapi.connect(endpoint.url, autocommit=True) as made:
        yield made


@pytest.fixture
def cursor(connection: Connection) -> Iterator[Cursor]:
    with connection.cursor() as made:
        yield made


def rows(cursor: Cursor, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    cursor.execute(text, parameters)
    return list(cursor.fetchall())
