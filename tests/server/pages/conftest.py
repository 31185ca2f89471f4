"""A visitor of the pages: a test client that sends forms as a browser would."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

_SECRET = re.compile(r'name="csrf-token" content="([^"]+)"')


class Visitor:
    """Looks at pages and sends their forms."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, path: str, status: int = 200) -> str:
        """A page's text."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text[:2000]
        return answer.text

    def send(self, path: str, *, secret: str | None = None, page: str = "/ui/login", **form: str) -> TestResponse:
        """Send a form with this browser's secret, or another."""
        if secret is None:
            found = _SECRET.search(self.client.get(page, follow_redirects=True).text)
            assert found is not None
            secret = found.group(1)
        return self.client.post(path, data={"_csrf": secret, **form})

    def act(self, path: str, **form: str) -> str:
        """Send a form and go where it leads; the text of that page."""
        answer = self.send(path, **form)
        assert answer.status_code == 303, answer.text[:2000]
        return self.get(answer.location)

    def sql(self, text: str) -> None:
        """Run statements through the other endpoint."""
        answer = self.client.post("/sql", data=text.encode(), headers={"Content-Type": "application/sql"})
        assert answer.status_code == 200, answer.text


def table_path(database: str, name: str, rest: str = "") -> str:
    """The address of a table's page."""
    return f"/ui/tables/{quote(database)}/{quote(name)}{rest}"


@pytest.fixture
def visitor(client: FlaskClient) -> Visitor:
    return Visitor(client)
