"""JSON of all protocols: every route with bodies and queries of wrong types, depths, sizes and encodings."""

from __future__ import annotations

import json
import random
from collections import Counter
from urllib.parse import quote, urlencode

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from server.paimon.routes import registered
from tests.fuzz.inputs import deep, drawn, mutated, value
from tests.fuzz.oracle import Flat, failed_once, judged, kept_if_it_fails, sql

SHORT, PART, PARTS = 300, 5_000, 12
_QUIET = ("/ui/static", "/tokens")
_NAMES = [
    "statement", "statements", "parameters", "settings", "async", "timeout", "limit", "database", "schema", "name", "names",
    "options", "columns", "query", "path", "snapshot", "statistics", "type", "changes", "action", "fields", "id", "partitionSpecs",
    "instant", "toSnapshotId", "tagName", "snapshotId", "properties", "comment", "sessionName", "executionConfig", "source",
    "destination", "identifier", "nextSnapshotId", "requestId", "principal", "administrator", "expiresAt", "token", "position",
    "text", "filter", "version", "baseManifestList", "deltaManifestList", "commitKind", "timeMillis", "totalRecordCount",
    "commitUser", "commitIdentifier", "schemaId", "watermark", "fileSize", "snapshotIds", "namespace",
]  # fmt: skip


def body(rng: random.Random) -> bytes:
    """An object of members some protocol knows, with values it does not expect."""
    if rng.random() < 0.02:
        return deep(rng)
    made = {rng.choice(_NAMES): nested(rng) for _ in range(rng.randrange(6))}
    data = json.dumps(made).replace("Infinity", "1e999").encode()
    return mutated(rng, data) if rng.random() < 0.2 else data


def nested(rng: random.Random, depth: int = 0) -> object:
    """A value, or an object of known members."""
    if depth < 3 and rng.random() < 0.35:
        return {rng.choice(_NAMES): nested(rng, depth + 1) for _ in range(rng.randrange(5))}
    if depth < 3 and rng.random() < 0.15:
        return [nested(rng, depth + 1)]
    return value(rng)


def segment(rng: random.Random, name: str) -> str:
    """A part of a path: mostly what is there."""
    there = {"database": "default", "table": "t", "prefix": "sluice", "version": "v3"}
    if name in there and rng.random() < 0.8:
        return there[name]
    return quote(str(value(rng))[:200], safe="")


def named(rng: random.Random, rule: str) -> list[str]:
    """A path of the Paimon catalog, mostly about what is there."""
    there = {"databases": "default", "tables": "t"}
    found: list[str] = []
    for part in rule.split("/"):
        name = there.get(found[-1]) if found and part == "{}" and rng.random() < 0.8 else None
        found.append(part if part != "{}" else name or segment(rng, "?"))
    return found


def commit(rng: random.Random) -> dict[str, object]:
    """A commit as clients send it, with a member or two of other kinds."""
    snapshot: dict[str, object] = {
        "version": 3, "id": 2, "schemaId": 0, "baseManifestList": "manifest-list-a-0", "deltaManifestList": "manifest-list-a-1",
        "changelogManifestList": None, "commitUser": "u", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1700000000000,
        "totalRecordCount": 1, "deltaRecordCount": 0, "statistics": None, "watermark": None, "properties": {},
    }  # fmt: skip
    for name in rng.sample(sorted(snapshot), rng.choice([1, 1, 2])):
        snapshot[name] = value(rng)
    return {
        "tableId": None,
        "snapshot": snapshot,
        "statistics": rng.choice([[], [value(rng)], [{"spec": value(rng), "recordCount": value(rng)}]]),
    }


def routes(client: FlaskClient) -> list[tuple[str, str]]:
    """Every method and rule but static files."""
    found = []
    for rule in client.application.url_map.iter_rules():
        if not rule.rule.startswith(_QUIET):
            found += [(method, rule.rule) for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})]
    found = [(method, rule) for method, rule in found if not rule.startswith("/v1/sluice")]
    found += [(method, f"/v1/sluice/{path}") for method, path in registered()]
    return sorted(found)


def asked(client: FlaskClient, what: tuple[str, str, dict[str, str]], sent: bytes) -> TestResponse:
    """The answer to a request, given as method, path and headers."""
    method, path, headers = what
    where = f"request {json.dumps(what)}"
    with kept_if_it_fails(where, sent):
        response = judged(lambda: client.open(path, method=method, data=sent, headers=headers, buffered=True), where, sent)
        assert response.status_code != 401, "a request made a token, and closed the server to all that follow"
    return response


def campaign(client: FlaskClient, seeds: range) -> Counter[int]:
    """Send them; returns how many were answered with 2xx, 4xx, …"""
    answered: Counter[int] = Counter()
    every = routes(client)
    for seed in seeds:
        rng = drawn("request", seed)
        method, rule = every[seed % len(every)]
        parts = (
            named(rng, rule)
            if "{}" in rule
            else [segment(rng, part.strip("<>").rpartition(":")[2]) if part.startswith("<") else part for part in rule.split("/")]
        )
        query = urlencode({rng.choice(_NAMES): str(value(rng))[:100] for _ in range(rng.randrange(3))}, errors="replace")
        sent = b"" if method == "GET" else body(rng)
        if rule.endswith("/commit") and rng.random() < 0.7:
            sent = json.dumps(commit(rng)).replace("Infinity", "1e999").encode()
        headers = {
            "Content-Type": rng.choice(["application/json", "application/json", "text/plain", "application/x-www-form-urlencoded", ""])
        }
        if rng.random() < 0.1:
            headers[rng.choice(["Origin", "Accept", "Prefer", "Idempotency-Key", "Cookie", "Authorization"])] = rng.choice(
                ["http://[", "é", "x" * 9000, "a=b;q=z"]
            )
        path = "/".join(parts)
        response = asked(client, (method, f"{path}?{query}", headers), sent)
        answered[response.status_code // 100] += 1
        if seed % 50 == 0:  # some drop it
            sql(client, "CREATE TABLE IF NOT EXISTS t (id INT, s STRING)")
    return answered


def test_requests_of_every_route_are_answered(table: FlaskClient) -> None:
    flat = Flat()
    answered = campaign(table, range(SHORT))
    assert answered[2] > SHORT // 20, "hardly any request reached what it was made for"
    flat.check(files=40)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_requests(table: FlaskClient, part: int) -> None:
    flat = Flat()
    campaign(table, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check(files=40)


def test_what_failed_once(table: FlaskClient) -> None:
    for _, what, sent in failed_once("request"):
        asked(table, tuple(json.loads(what)), sent)
