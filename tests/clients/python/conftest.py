"""One server with Spark for all tests of the client, and its dialect known to SQLAlchemy whether or not the package was installed anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy.dialects import registry

import sluice
from tests.running import RunningServer

registry.register("sluice", "sluice.sqlalchemy", "SluiceDialect")


@pytest.fixture
def conn(server: RunningServer, database: str) -> Iterator[sluice.Connection]:
    """A connection to a database of this test's own."""
    with sluice.connect(server.url, database=database) as made:
        yield made
