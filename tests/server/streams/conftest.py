"""A server whose lake is in this process, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catalog import CatalogStore
from lake import Lake
from tests.fix_memory import LastingPath
from tests.fix_postgres import database
from tests.fix_server import few_partitions
from tests.running import RunningServer


@pytest.fixture(scope="package")
def golden_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """DSN of the catalog of `shared`, whose server all of them share: to start Spark takes longer than most of what is asked of it."""
    with database(server_dsn, template) as made:
        yield made


@pytest.fixture(scope="package")
def shared(golden_dsn: str, lasting_path: LastingPath) -> Iterator[tuple[RunningServer, Lake]]:
    """A server, and its lake in this process too: SQL alone makes no watermarks as they are wanted."""
    directory = lasting_path("golden")
    settings = {"SLUICE_WAREHOUSE": str(directory / "warehouse"), "SLUICE_SPARK_CONF": str(few_partitions(directory))}
    server = RunningServer(directory, SLUICE_CATALOG_DSN=golden_dsn, **settings)
    catalog = CatalogStore(golden_dsn)
    lake = Lake(catalog, str(directory / "warehouse"))
    try:
        server.start()
        server.wait_for_spark()
        yield server, lake
    finally:
        server.stop()
        lake.close()
        catalog.close()
