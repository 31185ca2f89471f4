"""Talks to a server over HTTP: statements out, rows back as they come; bodies of rows up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sluice.names import rows_path, table_of
from sluice.transport import http_client

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8083"
ATTEMPTS = 5
_RETRIED = frozenset({429, 502, 503, 504})


class ServerError(Exception):
    """What the server said no with, or why it could not be asked."""

    def __init__(self, message: str, *, status: int | None = None, document: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.document = dict(document or {})

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later; safe to repeat under an idempotency key only."""
        error_class = self.document.get("errorClass")
        if error_class == "TableDamaged":
            return False
        return self.status is None or self.status in _RETRIED or error_class == "IdempotencyInProgress"


class Client:
    """One server, as one caller sees it."""

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None) -> None:
        try:
            self._http = http_client(url, {"Authorization": f"Bearer {token}"} if token else {})
        except ValueError as problem:
            raise ServerError(str(problem)) from problem
        self.url = url.rstrip("/")

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    @contextlib.contextmanager
    def sql(
        self,
        statement: str,
        *,
        accept: str = "application/json",
        database: str | None = None,
        timeout: float | None = None,
        request_id: str | None = None,
    ) -> Iterator[httpx.Response]:
        """Run a text and yield the answer, whose body is read as it comes; `progress` knows it by ``request_id``. Raises `ServerError`."""
        parameters = {"database": database, "timeout": timeout}
        request = self._http.build_request(
            "POST",
            "/sql",
            params={k: v for k, v in parameters.items() if v is not None},
            content=statement.encode(),
            headers={"Accept": accept, "Content-Type": "application/sql"} | ({"X-Request-Id": request_id} if request_id else {}),
        )
        response = self._send(request)
        import httpx

        try:
            yield response
        except httpx.HTTPError as problem:
            raise ServerError(f"The answer broke off before all of it had come: {problem}") from problem
        finally:
            response.close()

    def progress(self, request_id: str) -> dict[str, Any] | None:
        """How far the statement of a request is; None where it has not begun or has ended. Raises `ServerError`."""
        try:
            return dict(self._json("GET", f"/statements/{_quoted(request_id)}")["progress"])
        except ServerError as error:
            if error.status == 404:
                return None
            raise

    def append(
        self,
        table: str,
        body: Callable[[], Iterator[bytes]],
        *,
        content_type: str,
        length: int,
        key: str | None = None,
        retrying: Callable[[ServerError], None] = lambda error: None,
    ) -> dict[str, Any]:
        """Append a body to ``database.table`` as one commit; repeated under one key while the server cannot be reached or is busy.

        A part with a dot in it stands in backquotes; raises `ValueError` for what is no name of a table.
        """
        path = rows_path(*table_of(table))
        headers = {"Content-Type": content_type, "Content-Length": str(length), "Idempotency-Key": key or uuid4().hex}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self._send(self._http.build_request("POST", path, content=body(), headers=headers))
                try:
                    response.read()
                    answer: dict[str, Any] = response.json()
                finally:
                    response.close()
                return answer
            except ServerError as error:
                if attempt == ATTEMPTS or not error.may_pass:
                    raise
                retrying(error)
            time.sleep(min(2.0**attempt / 2, 8.0))
        raise AssertionError("the last attempt returns or raises")

    def create_token(self, name: str, *, principal: str | None, administrator: bool, expires_at: str | None) -> dict[str, Any]:
        """Make a token; the answer's ``token`` is its secret, told only now."""
        request = {"name": name, "principal": principal, "administrator": administrator, "expiresAt": expires_at}
        return self._json("POST", "/tokens", {key: value for key, value in request.items() if value is not None})

    def tokens(self) -> list[dict[str, Any]]:
        """Every token, without its secret."""
        return list(self._json("GET", "/tokens")["tokens"])

    def revoke_token(self, name: str) -> bool:
        """Make a token worthless; True where the server is open from now on."""
        return bool(self._json("DELETE", f"/tokens/{_quoted(name)}")["open"])

    def _json(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        response = self._send(self._http.build_request(method, path, json=body))
        try:
            response.read()
            answer: dict[str, Any] = response.json()
        finally:
            response.close()
        return answer

    def _send(self, request: httpx.Request) -> httpx.Response:
        import httpx

        try:
            response = self._http.send(request, stream=True)
            if response.is_success:
                return response
            try:
                response.read()
            finally:
                response.close()
        except httpx.HTTPError as problem:
            raise ServerError(f"{self.url} cannot be reached: {problem}. {_advice(problem)}") from problem
        raise _refusal(response)


def _refusal(response: httpx.Response) -> ServerError:
    try:
        document = response.json()
    except ValueError:
        document = {}
    if not isinstance(document, dict) or "detail" not in document:
        return ServerError(f"{response.url} answered {response.status_code}: {response.text[:200]}", status=response.status_code)
    return ServerError(describe(document), status=response.status_code, document=document)


def _advice(problem: Exception) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(problem):
        return "Where the server's certificate comes from a CA of your own, set SSL_CERT_FILE to the file with that CA."
    return "Is the server running, and SLUICE_URL right?"


def lines(response: httpx.Response) -> Iterator[str]:
    """The lines of an answer as they come; only a line feed ends one, whatever else a value holds."""
    rest = b""
    for chunk in response.iter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in whole)
    if rest:
        yield rest.decode()


def describe(document: Mapping[str, Any]) -> str:
    """A problem document as a person reads it: what, and where in the text."""
    text = f"{document.get('errorClass', 'Error')}: {document.get('detail', '')}"
    if document.get("line") is not None and "line" not in text:
        column = "" if document.get("column") is None else f", column {document['column']}"
        text += f" (line {document['line']}{column})"
    if completed := document.get("completed"):
        text += f"\nTook effect before it: {'; '.join(map(str, completed))}"
    return text


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
