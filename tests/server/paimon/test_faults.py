"""Answers that are lost, wrong or late (`docs/catalog.md`, "When an answer is lost"): nothing is lost, nothing doubled."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from server.app import create_app
from server.services import Services
from server.wsgi import HttpServer
from sql.gateway import Gateway

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[3]
FAULTS = ("false", "500", "503", "400", "403", "404", "409", "applied 500", "applied 503", "applied empty", "applied nothing", "garbage")
"""What the first attempt of each commit meets; without `applied` the server never saw it."""


class Faulty:
    """Stands before the app and spoils the first answer to each commit."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self.met: set[int] = set()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if not environ["PATH_INFO"].endswith("/commit"):
            return self._app(environ, start)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        number = orjson.loads(body)["snapshot"]["id"]
        fault = FAULTS[number - 1] if number <= len(FAULTS) else None
        if fault is None or number in self.met:
            return self._app(environ, start)
        self.met.add(number)
        kind = fault.removeprefix("applied ")
        if kind != fault:
            list(self._app(environ, lambda *_: None))
        if kind == "nothing":
            raise ConnectionError("the answer never arrived")
        status = kind if kind.isdigit() else "200"
        answer = {"false": b'{"success": false}', "empty": b"", "garbage": b"<html>"}.get(kind)
        if answer is None:
            answer = orjson.dumps({"message": "fault", "resourceType": None, "resourceName": None, "code": int(status)})
        start(f"{status} Fault", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]


@pytest.fixture
def faulty(services: Services) -> Iterator[tuple[str, Faulty]]:
    app = create_app(services)
    spoiler = Faulty(app.wsgi_app)
    app.wsgi_app = spoiler  # type: ignore[method-assign, assignment]
    http = HttpServer(app, replace(services.settings, listen=("127.0.0.1", 0)))
    host, port = http.start_serving()
    yield f"http://{host}:{port}", spoiler
    http.shutdown_timeout = 1
    http.stop_serving()


def test_every_fault_leaves_each_row_once(faulty: tuple[str, Faulty], gateway: Gateway) -> None:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    url, spoiler = faulty
    gateway.run("CREATE TABLE q (id BIGINT, name STRING, day STRING) WITH ('bucket'='-1')").collect()
    command = [str(python), str(ROOT / "tests" / "interop" / "pypaimon_rest.py"), url, "default.q", "0", str(len(FAULTS))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert spoiler.met == set(range(1, len(FAULTS) + 1))
    assert sorted(row[0] for row in gateway.run("SELECT id FROM q").collect()) == list(range(len(FAULTS)))
    snapshots = httpx.get(f"{url}/v1/sluice/databases/default/tables/q/snapshots").json()["snapshots"]
    assert [one["id"] for one in snapshots] == list(range(len(FAULTS), 0, -1))
