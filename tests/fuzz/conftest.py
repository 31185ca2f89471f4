"""The server's own fixtures: a real gateway and Postgres, no Spark."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.fuzz.oracle import sql
from tests.server.conftest import client, gateway, services

__all__ = ["client", "gateway", "services", "table"]


@pytest.fixture
def table(client: FlaskClient) -> FlaskClient:
    """A client of a server with a table of one row."""
    sql(client, "CREATE TABLE t (id INT, s STRING)")
    sql(client, "INSERT INTO t VALUES (1, 'a')")
    return client
