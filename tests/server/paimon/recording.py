"""Exchanges with the catalog as they are kept: what changes from run to run is masked, the rest is to the letter."""

from __future__ import annotations

import re
from typing import Any

import orjson
from flask import Flask
from flask.testing import FlaskClient

from server.paimon.routes import find, registered
from tests.server.paimon.committing import Writer
from tests.server.paimon.exchanges import Body, Exchange
from tests.server.paimon.speaking import PREFIX

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FIXED = "00000000-0000-4000-8000-000000000000"
_REQUEST_ID = re.compile(r"\b[0-9a-f]{32}\b")
_TIMES = frozenset({"createdAt", "updatedAt", "tagCreateTime", "expiresAtMillis", "timeMillis"})


class Recorder:
    """Sends exchanges and keeps them by the path they are registered under."""

    def __init__(self, app: Flask, warehouse: str) -> None:
        self.kept: dict[str, list[dict[str, Any]]] = {}
        self.errors: set[str] = set()
        self.writer: Writer | None = None
        self.headers: dict[str, str] = {}
        self._warehouse = warehouse
        self._raised: str | None = None
        self._client: FlaskClient = app.test_client()
        answer = app.error_handler_spec[None][None][Exception]

        def note(error: Exception) -> Any:
            self._raised = type(error).__name__
            return answer(error)

        app.register_error_handler(Exception, note)

    def send(self, exchange: Exchange, *, client: FlaskClient | None = None, environ: dict[str, Any] | None = None) -> None:
        """Send it and keep it with its answer."""
        about, line, made = exchange
        method, _, path = line.partition(" ")
        body = self._body(made)
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        target = path if path.startswith("/") else f"{PREFIX}/{path}"
        self._raised = None
        response = (client or self._client).open(target, method=method, data=data, headers=self.headers, environ_overrides=environ)
        answer = orjson.loads(response.data) if response.data else None
        request = {"request": line} | ({"body": body.decode() if isinstance(body, bytes) else body} if made is not None else {})
        kept = {"about": about, **request, "status": response.status_code, "answer": answer}
        if self._raised is not None:
            self.errors.add(self._raised)
            kept["raised"] = self._raised
        for known in ("Allow", "Retry-After", "WWW-Authenticate"):
            if known in response.headers:
                kept[known] = response.headers[known]
        self.kept.setdefault(self._file(method, path), []).append(_Mask(self._warehouse).of(kept))

    def _body(self, made: Body) -> Any:
        if callable(made):
            assert self.writer is not None
            return made(self.writer)
        if isinstance(made, dict):
            return orjson.loads(orjson.dumps(made).replace(b"{warehouse}", self._warehouse.encode()))
        return made

    @staticmethod
    def _file(method: str, path: str) -> str:
        if path.startswith("/"):
            return "GET config"
        segments = path.partition("?")[0].strip("/").split("/")
        found = find(segments)
        if found is None or method not in found[0]:
            return "other"
        handler = found[0][method]
        fits = (one for verb, one in registered() if verb == method and len(one.split("/")) == len(segments))
        return next(f"{method} {one}" for one in fits if (there := find(one.split("/"))) and there[0].get(method) is handler)


class _Mask:
    """Numbers uuids in the order they come in one exchange, so that it shows which are the same."""

    def __init__(self, warehouse: str) -> None:
        self._warehouse = warehouse
        self._seen: dict[str, str] = {}

    def of(self, value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {name: self.of(one, name) for name, one in value.items()}
            case list() if len(value) > 100:
                return [self.of(value[0]), f"… {len(value)} in all"]
            case list():
                return [self.of(one) for one in value]
            case str():
                return _REQUEST_ID.sub("<id>", _UUID.sub(self._uuid, value.replace(self._warehouse, "<warehouse>")))
            case int() if key in _TIMES and value > 1_000_000_000_000:
                return "<millis>"
        return value

    def _uuid(self, found: re.Match[str]) -> str:
        return found[0] if found[0] == _FIXED else self._seen.setdefault(found[0], f"<uuid {len(self._seen) + 1}>")
