"""Speaking the protocol as its clients do."""

from __future__ import annotations

from typing import Any

import orjson
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

PREFIX = "/v1/sluice"


class Rest:
    """Requests in JSON, without a content type, as pypaimon sends them."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def call(self, method: str, path: str, body: Any = None, **query: str) -> TestResponse:
        """Whatever comes back."""
        data = None if body is None else orjson.dumps(body)
        return self.client.open(f"{PREFIX}/{path}", method=method, data=data, query_string=query or None)

    def get(self, path: str, **query: str) -> Any:
        return self._good(self.call("GET", path, **query))

    def post(self, path: str, body: Any = None) -> Any:
        return self._good(self.call("POST", path, {} if body is None else body))

    def delete(self, path: str) -> Any:
        return self._good(self.call("DELETE", path))

    def _good(self, response: TestResponse) -> Any:
        assert response.status_code == 200, response.data
        assert response.headers["X-Request-Id"]
        return orjson.loads(response.data) if response.data else None

    def refused(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, str | None, str | None]:
        """Status, resource type and name of an error, which always has all four members."""
        response = self.call(method, path, body, **query)
        answer = orjson.loads(response.data)
        assert set(answer) == {"message", "resourceType", "resourceName", "code"}, answer
        assert answer["message"]
        assert answer["code"] == response.status_code
        return response.status_code, answer["resourceType"], answer["resourceName"]


def schema(*columns: tuple[str, Any], partition: list[str] | None = None, **options: str) -> dict[str, Any]:
    """A schema as clients send it."""
    return {
        "fields": [{"id": at, "name": name, "type": type_} for at, (name, type_) in enumerate(columns)],
        "partitionKeys": partition or [],
        "primaryKeys": [],
        "options": {key.replace("_", "-"): value for key, value in options.items()},
        "comment": None,
    }


PLAIN = schema(("id", "BIGINT NOT NULL"), ("name", "STRING"))


def new_table(name: str = "t", body: dict[str, Any] = PLAIN) -> dict[str, Any]:
    """The request that creates a table."""
    return {"identifier": {"database": "d", "object": name}, "schema": body}
