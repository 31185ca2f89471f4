"""Answers that are lost, wrong or late (`docs/catalog.md`, "When an answer is lost"): nothing is lost, nothing doubled."""

from __future__ import annotations

import io
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from gateway.gateway import Gateway
from server.app import create_app
from server.http.wsgi import HttpServer
from server.process.services import Services
from server.settings.options import LISTEN
from tests.interop.test_rest_java import java_options
from tests.interop.test_rest_java import java_user as java_user
from tests.interop.test_rest_rust import rust_python as rust_python

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[3]
INTEROP = ROOT / "tests" / "interop"
FAULTS = (
    "false", "500", "503", "400", "403", "404", "409", "nothing", "garbage",
    "applied 500", "applied 503", "applied empty", "applied nothing", "applied garbage",
)  # fmt: skip
"""What the first attempt of each commit meets; without `applied` the server never saw it. `nothing` is a connection that breaks."""


class Faulty:
    """Stands before the app and spoils the first answer to each commit."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self.met: set[int] = set()
        self.faults: tuple[str, ...] = FAULTS
        self.late = 0.0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if not environ["PATH_INFO"].endswith("/commit"):
            return self._app(environ, start)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        number = orjson.loads(body)["snapshot"]["id"]
        fault = self.faults[number - 1] if number <= len(self.faults) else None
        if fault is None or number in self.met:
            return self._app(environ, start)
        self.met.add(number)
        kind = fault.removeprefix("applied ")
        if kind != fault:
            list(self._app(environ, lambda *_: None))
        if kind == "late":
            time.sleep(self.late)
        if kind in ("nothing", "late"):
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
    http = HttpServer(app, services.settings.with_value(LISTEN, ("127.0.0.1", 0)))
    host, port = http.start_serving()
    yield f"http://{host}:{port}", spoiler
    http.shutdown_timeout = 1
    http.stop_serving()


@pytest.fixture(params=["pypaimon", "rust_python", "java_user"])
def client_command(request: pytest.FixtureRequest) -> list[str]:
    """Each client in turn: it takes a URL, a table, a first id and how many rows to commit one by one."""
    if request.param == "java_user":
        return list(request.getfixturevalue("java_user"))
    if request.param == "rust_python":
        return [request.getfixturevalue("rust_python"), str(INTEROP / "rust_rest.py")]
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    return [str(python), str(INTEROP / "pypaimon_rest.py")]


def hammered(faulty: tuple[str, Faulty], gateway: Gateway, command: list[str]) -> None:
    """As many commits as there are faults; each row is there once, and each commit is one snapshot."""
    url, spoiler = faulty
    count = len(spoiler.faults)
    gateway.run("CREATE TABLE q (id BIGINT, name STRING, day STRING) WITH ('bucket'='-1')").collect()
    to = java_options(url) if command[0] == "java" else url
    done = subprocess.run([*command, to, "default.q", "0", str(count)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    assert spoiler.met == set(range(1, count + 1))
    assert sorted(row[0] for row in gateway.run("SELECT id FROM q").collect()) == list(range(count))
    snapshots = httpx.get(f"{url}/v1/sluice/databases/default/tables/q/snapshots").json()["snapshots"]
    assert [one["id"] for one in snapshots] == list(range(count, 0, -1))


def test_every_fault_leaves_each_row_once(faulty: tuple[str, Faulty], gateway: Gateway, client_command: list[str]) -> None:
    hammered(faulty, gateway, client_command)


@pytest.mark.torture
def test_an_answer_that_comes_after_the_client_has_given_up(
    faulty: tuple[str, Faulty], gateway: Gateway, client_command: list[str]
) -> None:
    """The Rust client waits for 30 s, the others for three minutes (`paimon-rest.md` §1.2)."""
    faulty[1].faults, faulty[1].late = ("late", "applied late"), 35.0 if "rust" in client_command[0] else 185.0
    hammered(faulty, gateway, client_command)
