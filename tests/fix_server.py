"""Server processes: one that the tests of a worker share, and fresh ones for tests that stop, kill or fill them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.fix_data import CACHE
from tests.fix_memory import LastingPath
from tests.running import RunningServer

StartServer = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def import_dir(lasting_path: LastingPath) -> Path:
    """A directory whose files the shared server may read, beside the cached real data."""
    return lasting_path("import")


def few_partitions(directory: Path) -> Path:
    """A file of settings with which Spark shuffles into two parts, as many as its cores, in place of four or more.

    Each is a task of every stage, and for each a streaming query keeps a state of its own, a file at every micro-batch.
    `standalone_server` shuffles as users' servers do.
    """
    conf = directory / "spark.conf"
    conf.write_text("spark.sql.shuffle.partitions 2\n")
    return conf


@pytest.fixture(scope="session")
def server(lasting_path: LastingPath, import_dir: Path) -> Iterator[RunningServer]:
    """The server all tests of this worker share; each test works in a `database` of its own."""
    directory = lasting_path("server")
    settings = {"SLUICE_IMPORT_DIRS": f"{CACHE},{import_dir}", "SLUICE_SPARK_CONF": str(few_partitions(directory))}
    running = RunningServer(directory, **settings)
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def database(server: RunningServer) -> Iterator[str]:
    """A database on the shared server that only this test sees."""
    name = f"t{uuid4().hex[:12]}"
    server.sql(f"CREATE DATABASE {name}")
    yield name
    server.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def start_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers of the test's own: ``start_server("name", SLUICE_…="…")``."""
    if "dsn" in request.fixturenames:  # so that their database is there until they have stopped; without it they wait for it
        request.getfixturevalue("dsn")
    started: list[RunningServer] = []

    def start(name: str = "server", **settings: str) -> RunningServer:
        running = RunningServer(tmp_path / name, **settings)
        started.append(running)
        return running.start()

    yield start
    for running in started:
        running.stop()
