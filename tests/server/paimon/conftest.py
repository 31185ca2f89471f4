"""The protocol over a real socket, and over Flask's own client where the wire does not matter; no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from server.app import create_app
from server.http.wsgi import HttpServer
from server.process.services import Services
from server.settings.options import LISTEN
from tests.server.paimon.speaking import Rest


@pytest.fixture
def rest(client: FlaskClient) -> Rest:
    """The server with one database, ``d``."""
    made = Rest(client)
    made.post("databases", {"name": "d", "options": None})
    return made


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    """A server on a socket."""
    http = HttpServer(create_app(services), services.settings.with_value(LISTEN, ("127.0.0.1", 0)))
    host, port = http.start_serving()
    yield f"http://{host}:{port}"
    http.shutdown_timeout = 1
    http.stop_serving()
