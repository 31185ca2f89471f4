"""A client of each protocol, as its users' programs are: one connection, one statement after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

import httpx
import pyarrow as pa

_SECONDS = 600.0


class Client(ABC):
    """A connection through one of the protocols."""

    @abstractmethod
    def ask(self, text: str) -> object:
        """Run a statement and read its rows."""

    @abstractmethod
    def close(self) -> None:
        """Hang up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class HttpClient(Client):
    """``POST /sql``, in any of its formats."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_SECONDS)

    def ask(self, text: str) -> object:
        return self.fetch(text, "application/json")

    def fetch(self, text: str, accept: str) -> bytes:
        """The body of the answer."""
        answer = self._client.post("/sql", content=text.encode(), headers={"Accept": accept})
        answer.raise_for_status()
        return answer.content

    def close(self) -> None:
        self._client.close()


class FlinkClient(Client):
    """What Flink's SQL client and JDBC driver send for a statement: submit it in a session, fetch its pages, close it."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_SECONDS)
        self._session = f"/v2/sessions/{self._json('POST', '/v2/sessions', {})['sessionHandle']}"

    def ask(self, text: str) -> object:
        handle = self._json("POST", f"{self._session}/statements", {"statement": text})["operationHandle"]
        operation, rows = f"{self._session}/operations/{handle}", []
        page: dict[str, Any] = {"nextResultUri": f"{operation}/result/0?rowFormat=JSON"}
        while "nextResultUri" in page:  # a page that is not there yet is waited for by the server
            page = self._json("GET", page["nextResultUri"])
            rows += page.get("results", {}).get("data", [])
        self._json("DELETE", f"{operation}/close")
        return rows

    def close(self) -> None:
        self._json("DELETE", self._session)
        self._client.close()

    def _json(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = self._client.request(method, path, json=body)
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document


class FlightClient(Client):
    """ADBC's driver for Arrow Flight SQL."""

    def __init__(self, url: str) -> None:
        import adbc_driver_flightsql.dbapi as dbapi

        self._connection = dbapi.connect(url, autocommit=True)

    def ask(self, text: str) -> pa.Table:
        with self._connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetch_arrow_table()

    def close(self) -> None:
        self._connection.close()
