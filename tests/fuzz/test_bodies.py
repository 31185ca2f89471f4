"""Bodies of rows that are almost right, in every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.fuzz.inputs import BODIES, DDL, deep, drawn, mutated
from tests.fuzz.oracle import Flat, failed_once, judged, sql, tree_digest
from workers.pool import WorkerPool

SHORT, PART, PARTS = 15, 3_000, 10


@pytest.fixture
def table(client: FlaskClient) -> FlaskClient:
    sql(client, f"CREATE TABLE t ({DDL})")
    sql(client, "CREATE TABLE other (id INT)")
    sql(client, "INSERT INTO other VALUES (1), (2)")
    return client


def send(client: FlaskClient, media_type: str, body: bytes, what: str) -> None:
    judged(lambda: client.post("/tables/default/t/rows", data=body, content_type=media_type), f"rows {media_type} {what}", body)


def campaign(client: FlaskClient, media_type: str, seeds: range) -> None:
    make = BODIES[media_type]
    for seed in seeds:
        rng = drawn(media_type, seed)
        body = deep(rng) if rng.random() < 0.02 else mutated(rng, make(rng), make(rng))
        send(client, media_type, body, f"seed {seed}")


@pytest.mark.parametrize("media_type", BODIES)
def test_bodies_that_are_almost_right_do_no_harm(table: FlaskClient, media_type: str, workers: WorkerPool, tmp_path: Path) -> None:
    others = tree_digest(tmp_path / "warehouse" / "default.db" / "other")
    send(table, media_type, b"", "empty")
    flat = Flat()
    campaign(table, media_type, range(SHORT))
    flat.check()
    assert len(workers.pids()) <= 1
    assert tree_digest(tmp_path / "warehouse" / "default.db" / "other") == others
    assert sql(table, "SELECT * FROM t").status_code == 200


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("media_type", BODIES)
def test_thousands_of_bodies(table: FlaskClient, media_type: str, part: int, tmp_path: Path) -> None:
    others = tree_digest(tmp_path / "warehouse" / "default.db" / "other")
    flat = Flat()
    campaign(table, media_type, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check()
    assert tree_digest(tmp_path / "warehouse" / "default.db" / "other") == others
    assert sql(table, "SELECT * FROM t").status_code == 200


def test_what_failed_once(table: FlaskClient) -> None:
    for name, what, body in failed_once("rows"):
        send(table, what.split()[0], body, f"kept as {name}")
