"""EXPLAIN INSERT tells of the rule (N·B)/P before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from server.app import create_app
from server.process.services import Services
from server.settings.settings import read_settings
from sql.statements.procedures.doctor import WRITERS

pytestmark = pytest.mark.spark
N = 100 * WRITERS // 8
"""With eight buckets so many partitions reach a hundred open files for each writer."""


@pytest.fixture
def client(on_spark: Gateway, tmp_path: Path) -> FlaskClient:
    return create_app(Services(gateway=on_spark, settings=read_settings({"SLUICE_DATA": str(tmp_path)}))).test_client()


def sql(client: FlaskClient, text: str) -> str:
    response = client.post("/sql", data=text, headers={"Accept": "text/csv"})
    assert response.status_code == 200, response.text
    return response.text.partition("== Spark ==")[0]


@pytest.fixture
def wide(client: FlaskClient) -> FlaskClient:
    sql(client, "CREATE TABLE w (p INT, id BIGINT) PARTITIONED BY (p) WITH ('bucket' = '8', 'bucket-key' = 'id')")
    sql(client, "CREATE TABLE plain (p INT, id BIGINT) WITH ('bucket' = '-1')")
    return client


def test_explain_insert_tells_how_many_partitions_are_cheap_before_one_is_there(wide: FlaskClient) -> None:
    told = sql(wide, "EXPLAIN INSERT INTO w SELECT CAST(id % 10000 AS INT), id FROM range(1000000)")
    most = (100 * WRITERS - 1) // 8
    assert "== Advice ==" in told
    assert f"up to {most} partitions of 8 bucket(s) are cheap to write at once: (N·B)/P = (N·8)/{WRITERS} is below 100" in told
    assert "== Advice ==" not in sql(wide, "EXPLAIN INSERT INTO plain SELECT CAST(id % 10000 AS INT), id FROM range(1000000)")
    assert "== Advice ==" not in sql(wide, "EXPLAIN INSERT INTO w PARTITION (p = 1) SELECT id FROM range(1000000)")
    assert sql(wide, "SELECT count(*) AS n FROM w").split() == ["n", "0"]


@pytest.mark.parametrize(("many", "told"), [(N - 1, False), (N, True)])
def test_partitions_that_stand_in_the_text_are_counted(wide: FlaskClient, many: int, told: bool) -> None:
    rows = ", ".join(f"({n % many}, {n})" for n in range(2 * many))
    text = sql(wide, f"EXPLAIN INSERT INTO w VALUES {rows}")
    advice = (
        f"{many} partitions of 8 bucket(s) would be written at once: (N·B)/P = ({many}·8)/{WRITERS} = {many * 8 / WRITERS:.0f} open files"
    )
    assert (advice in text) is told
    assert ("CALL sys.rescale('default.w')" in text) is told
    assert ("== Advice ==" in text) is told
    by_name = sql(wide, f"EXPLAIN INSERT INTO w (id, p) VALUES {rows}")  # p is the second
    assert f"{2 * many} partitions of 8 bucket(s) would be written at once" in by_name
