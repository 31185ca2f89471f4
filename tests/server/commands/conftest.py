"""A catalog with tables to back up and restore, and a gateway on each catalog that a test opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import Snapshot
from server.settings.settings import Settings, read_settings
from tests.server.conftest import NoSpark
from workers.pool import WorkerPool

TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT, day STRING) PARTITIONED BY (day) WITH ('file-index.bloom-filter.columns' = 'id')",
    "INSERT INTO shop.orders VALUES (1, 'a b'), (2, 'ü')",
    "CALL sys.create_tag('shop.orders', 'kept')",
    "INSERT INTO shop.orders VALUES (3, 'a b')",
    "CALL sys.create_branch('shop.orders', 'b', 'kept')",
    "INSERT INTO shop.orders$branch_b VALUES (9, 'x')",
    "CREATE TABLE shop.queue (id INT) WITH ('bucket' = '2', 'bucket-key' = 'id')",
    "INSERT INTO shop.queue VALUES (1), (2), (3)",
    "CREATE ROLE reader",
    "GRANT SELECT ON shop.orders TO ROLE reader",
    "CREATE POLICY mine ON shop.orders TO ROLE reader USING (id = 1)",
)


class Server:
    """A gateway on a catalog, without HTTP and Spark."""

    def __init__(self, dsn: str, warehouse: Path, workers: WorkerPool) -> None:
        self.dsn = dsn
        self.catalog = CatalogStore(dsn)
        self.lake = Lake(self.catalog, str(warehouse), import_dirs=[str(warehouse.parent / "imports")])
        self.gateway = Gateway(self.lake, NoSpark(), limits=GatewayLimits(local_threads=2, spark_statements=1), workers=workers)
        self.gateway.start()

    def run(self, *texts: str) -> None:
        for text in texts:
            self.gateway.run(text).close()

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.gateway.run(text) as result:
            return sorted(result.collect(), key=str)

    def history(self, name: str) -> dict[str, list[str]]:
        """The rows of every snapshot and tag, as their files hold them; and those that a SELECT sees."""
        database, _, rest = name.partition(".")
        table, _, branch = rest.partition("$branch_")
        opened = self.lake.open(Identifier(database, table, branch or MAIN_BRANCH))
        found = {str(one.id): one for one in self.lake.snapshots(opened)}
        found |= {row.name: Snapshot.from_json(row.snapshot) for row in self.lake.tags.all(opened)}
        read = {}
        for key, snapshot in found.items():
            paths = [opened.files.data_path(opened.schema, entry) for entry in opened.files.live_entries(snapshot)]
            read[key] = sorted(str(row) for path in paths for row in pq.ParquetFile(path).read().to_pylist())
        return read | {"SELECT": [str(row) for row in self.rows(f"SELECT * FROM {name}")]}

    def close(self) -> None:
        self.gateway.close()
        self.lake.close()
        self.catalog.close()


Open = Callable[[str], Server]


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path, workers: WorkerPool) -> Iterator[Open]:
    for name in ("dsn", "empty_dsn"):  # so that they are there until their gateways have closed
        if name in request.fixturenames:
            request.getfixturevalue(name)
    made: list[Server] = []

    def open_(dsn: str) -> Server:
        made.append(Server(dsn, tmp_path / "warehouse", workers))
        return made[-1]

    yield open_
    for one in made:
        one.close()


@pytest.fixture
def shop(opened: Open, dsn: str) -> Server:
    made = opened(dsn)
    made.run(*TABLES)
    return made


@pytest.fixture
def of(tmp_path: Path) -> Callable[[str], Settings]:
    base = {"SLUICE_DATA": str(tmp_path / "none"), "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    base |= {"SLUICE_IMPORT_DIRS": str(tmp_path / "imports")}
    return lambda dsn: read_settings(base | {"SLUICE_CATALOG_DSN": dsn})


Of = Callable[[str], Settings]
