"""Where the core of the suite runs: on Spark in the server's own JVM, and on a standalone master with two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fix_data import CACHE
from tests.fix_memory import LastingPath
from tests.running import RunningServer
from tests.standalone_spark import StandaloneSpark, archive, hidden


@pytest.fixture(scope="session")
def standalone_server(tmp_path_factory: pytest.TempPathFactory, lasting_path: LastingPath) -> Iterator[RunningServer]:
    """A server whose statements run on a standalone master's workers, which lack its checkout and its environment.

    It shuffles into as many parts as users' servers do: those of `few_partitions` do not.
    """
    directory = tmp_path_factory.mktemp("standalone")
    cluster = StandaloneSpark(directory, hidden=hidden())
    running = RunningServer(
        lasting_path("server"),
        SLUICE_SPARK_MASTER=cluster.url,
        SLUICE_SPARK_ARCHIVE=str(archive(directory)),
        SLUICE_SPARK_DRIVER_MEMORY="1g",
        SLUICE_IMPORT_DIRS=str(CACHE),
    )
    try:
        cluster.start()
        yield running.start()
    finally:
        running.stop()
        cluster.stop()


MASTERS = ("local", "standalone")


@pytest.fixture(params=MASTERS)
def any_server(request: pytest.FixtureRequest) -> RunningServer:
    """The server under test, on each kind of master in turn."""
    found = request.getfixturevalue("server" if request.param == "local" else "standalone_server")
    assert isinstance(found, RunningServer)
    return found
