"""Whatever is almost right, sent by who may do little: nobody reads, changes or removes what was not granted to them."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.fuzz.inputs import BODIES, drawn
from tests.fuzz.oracle import Flat, failed_once, judged, kept_if_it_fails, tree_digest
from tests.fuzz.records import retold
from tests.fuzz.test_sql import almost, statements
from tests.server.paimon.exchanges import ALL

SHORT, PART, PARTS = 240, 1_000, 32
_CANARY = "nobody-may-see-this"
_SETUP = f"""
    CREATE DATABASE d; CREATE TABLE d.secret (id INT, s STRING); INSERT INTO d.secret VALUES (1, '{_CANARY}');
    CREATE TABLE d.t (id INT, s STRING) PARTITIONED BY (s); INSERT INTO d.t VALUES (1, 'seen'), (2, '{_CANARY}');
    GRANT SELECT ON d.t TO reader; CREATE POLICY p ON d.t TO reader USING (id = 1); GRANT INSERT ON d.t TO appender;
    GRANT CREATETABLE, CREATEVIEW, CREATEFUNCTION, LIST ON DATABASE d TO maker; CREATE DATABASE own; GRANT ALL ON DATABASE own TO maker
"""
_WHO = ("stranger", "reader", "appender", "maker")
_NAMES = (
    "d",
    "t",
    "secret",
    "own",
    "t$branch_b",
    "secret$files",
    "../secret",
    "admin",
    "root",
    "stranger",
    "SELECT * FROM d.secret",
    "main",
    "1",
    "*",
    "",
)


class World:
    """A server with tokens for those who may do little, and for who looks after them."""

    def __init__(self, client: FlaskClient, warehouse: Path) -> None:
        self._client, self._secret = client, warehouse / "d.db" / "secret"
        self.place = str(warehouse.parent)
        self._tokens = {"root": self._token({"name": "root", "administrator": True}, None)}
        self._tokens |= {name: self._token({"name": name}, self._tokens["root"]) for name in _WHO}
        for text in _SETUP.split(";"):
            self.must(text.strip())
        self._bytes, self._grants = tree_digest(self._secret), self._granted()
        self.snapshot: dict[str, Any] = self.send("root", "GET", "/v1/sluice/databases/d/tables/t/snapshot").get_json(force=True)

    def _token(self, body: dict[str, Any], by: str | None) -> str:
        headers = {} if by is None else {"Authorization": f"Bearer {by}"}
        return str(self._client.post("/tokens", json=body, headers=headers).get_json()["token"])

    def send(self, who: str, method: str, path: str, body: bytes = b"", media_type: str = "application/json") -> TestResponse:
        headers = {"Authorization": f"Bearer {self._tokens[who]}", "Content-Type": media_type}
        return self._client.open(path, method=method, data=body, headers=headers, buffered=True)

    def must(self, text: str) -> Any:
        """The rows of a statement of the administrator's."""
        answer = self.send("root", "POST", "/sql", text.encode(), "application/sql")
        assert answer.status_code == 200, answer.text
        return answer.get_json()["rows"]

    def _granted(self) -> list[Any]:
        grants = [self.must(f"SHOW GRANTS ON {name}") for name in ("d.secret", "d.t")]
        return [*grants, self.must("SHOW POLICIES ON d.t"), self.send("root", "GET", "/tokens").get_json()]

    def check(self, where: str) -> None:
        """Raise `AssertionError` where something is not as it was."""
        assert tree_digest(self._secret) == self._bytes, where
        assert self.must("SELECT * FROM d.secret") == [[1, _CANARY]], where
        rows = self.must("SELECT * FROM d.t")
        assert [1, "seen"] in rows, where
        assert [2, _CANARY] in rows, where
        assert self._granted() == self._grants, where


def statement(rng: random.Random, every: list[str]) -> bytes:
    """A statement about what is not the caller's."""
    text = almost(rng, every)
    target = rng.choice(["d.t", "d.t", "d.secret", "own.x"])
    text = re.sub(r"(?<![\w.`'$])(t|u|v|orders)\b(?!')", target, text)
    text = re.sub(r"'t'", f"'{target}'", text)
    return text.encode("utf-8", "surrogatepass")


def exchange(rng: random.Random, snapshot: dict[str, Any]) -> tuple[str, str, bytes]:
    """A request of the Paimon catalog as clients send it, with members that say something else."""
    _, request, body = rng.choice(ALL[rng.choice(sorted(ALL))])
    method, _, path = request.partition(" ")
    path = re.sub(r"\bt\b", rng.choice(["t", "t", "secret"]), path)
    path = path if path.startswith("/") else f"/v1/sluice/{path}"
    if callable(body):
        latest = snapshot["snapshot"]["snapshot"]
        body = {
            "tableId": None,
            "baseSnapshotUuid": latest["uuid"],
            "snapshot": latest | {"id": 2, "uuid": str(rng.random())},
            "statistics": [],
        }
    if body is None or isinstance(body, bytes):
        return method, path, body or b""
    return method, path, json.dumps(body).encode() if rng.random() < 0.4 else retold(rng, body, _NAMES)


def asked(world: World, what: tuple[str, str, str, str], body: bytes) -> TestResponse:
    """The answer to a request, given as who, method, path and media type: it shows nothing of what was not granted."""
    who, method, path, media_type = what
    where = f"rights {json.dumps(what)}"
    with kept_if_it_fails(where, body):
        response = judged(lambda: world.send(who, method, path, body, media_type), where, body)
        assert _CANARY not in response.text, f"{where}: {response.text[:500]}"
        assert response.status_code < 400 or world.place not in response.text, f"{where}: {response.text[:500]}"
        assert response.status_code != 401, where
    return response


def campaign(world: World, seeds: range) -> Counter[str]:
    """Send them; returns how many were answered with 2xx, 4xx, … to whom."""
    answered: Counter[str] = Counter()
    every = statements()
    for seed in seeds:
        rng = drawn("rights", seed)
        who = rng.choice(_WHO)
        match rng.randrange(10):
            case 0:
                media_type = rng.choice(sorted(BODIES))
                method, path, body = "POST", f"/tables/d/{rng.choice(['t', 'secret'])}/rows", BODIES[media_type](rng)
            case 1 | 2 | 3 | 4:
                media_type = "application/json"
                method, path, body = exchange(rng, world.snapshot)
            case _:
                media_type, method, path, body = "application/sql", "POST", "/sql", statement(rng, every)
        response = asked(world, (who, method, path, media_type), body)
        answered[f"{who} {response.status_code // 100}"] += 1
        if seed % 40 == 39:
            world.check(f"rights seed {seed} or one of the 39 before it")
    world.check("at the end")
    return answered


@pytest.fixture
def world(client: FlaskClient, tmp_path: Path) -> World:
    return World(client, tmp_path / "warehouse")


def test_who_may_do_little_reads_and_changes_nothing_else(world: World) -> None:
    answered = campaign(world, range(SHORT))
    assert sum(count for how, count in answered.items() if how.endswith(" 2")) > SHORT // 20, "hardly any request was one"


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_by_who_may_do_little(world: World, part: int) -> None:
    flat = Flat()
    campaign(world, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check(files=40)


def test_what_failed_once(world: World) -> None:
    for _, what, body in failed_once("rights"):
        asked(world, tuple(json.loads(what)), body)
    world.check("what failed once")
