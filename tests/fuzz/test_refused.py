"""What is refused changes nothing: after each such statement the catalog and every file are as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.everything import everything
from tests.fuzz.inputs import drawn
from tests.fuzz.oracle import Flat, kept_if_it_fails, sql
from tests.fuzz.test_sql import almost, run, statements

SHORT, PART, PARTS = 60, 1_500, 8


def campaign(client: FlaskClient, dsn: str, warehouse: Path, seeds: range) -> int:
    """Send almost right statements; returns how many were refused."""
    refused = 0
    every = statements()
    before = everything(dsn, warehouse)
    for seed in seeds:
        if seed % 40 == 0:  # some drop it
            sql(client, "CREATE TABLE IF NOT EXISTS t (id INT, s STRING)")
            before = everything(dsn, warehouse)
        sent = almost(drawn("refused", seed), every).encode("utf-8", "surrogatepass")
        what = f"sql refused seed {seed}"
        with kept_if_it_fails(what, sent):
            answer = run(client, sent, what)
            after = everything(dsn, warehouse)
            if answer.status_code >= 400 and not answer.get_json().get("completed"):
                refused += 1
                changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
                assert not changed, (seed, sent, answer.text, changed)
        before = after
    return refused


def test_a_refused_statement_changes_nothing(table: FlaskClient, dsn: str, tmp_path: Path) -> None:
    assert campaign(table, dsn, tmp_path / "warehouse", range(SHORT)) > SHORT // 3


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_refused_statements(table: FlaskClient, dsn: str, tmp_path: Path, part: int) -> None:
    flat = Flat()
    campaign(table, dsn, tmp_path / "warehouse", range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check(files=40)
