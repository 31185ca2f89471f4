"""The whole app on a gateway without Spark, for all tests of a module: in this process, and behind a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flask import Flask

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from server.app import create_app
from server.http.wsgi import HttpServer
from server.process.services import Services
from server.settings.options import TOKEN
from server.settings.settings import read_settings
from tests.server.conftest import NoSpark


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What tests knock at."""

    gateway: Gateway
    app: Flask
    url: str


@contextmanager
def endpoints(dsn: str, directory: Path, **settings: str) -> Iterator[Endpoints]:
    """A served gateway with settings such as ``SLUICE_TOKEN``."""
    read = read_settings({"SLUICE_DATA": str(directory), "SLUICE_LISTEN": "127.0.0.1:0", "SLUICE_DRAIN_SECONDS": "1"} | settings)
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, str(directory / "warehouse"), token=read[TOKEN])
    gateway = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=4, spark_statements=1))
    gateway.start()
    services = Services(gateway=gateway, settings=read)
    app = create_app(services)
    http = HttpServer(app, read)
    host, port = http.start_serving()
    try:
        yield Endpoints(gateway=gateway, app=app, url=f"http://{host}:{port}")
    finally:
        services.stop_waiting()
        gateway.drain(0)
        http.stop_serving()
        gateway.close()
        lake.close()
        catalog.close()
