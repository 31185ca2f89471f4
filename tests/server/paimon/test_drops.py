"""Drops by clients of the catalog can be taken back as any others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gateway.gateway import Gateway
from model.identifier import Identifier
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest, new_table


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    gateway.lake.drop_retention = timedelta(days=7)
    rest.post("databases/d/tables", new_table())
    return Writer(rest, gateway.lake)


def test_a_client_drops_and_sql_brings_back(rest: Rest, gateway: Gateway, writer: Writer) -> None:
    made = writer.commit()
    before = rest.get("databases/d/tables/t")
    rest.delete("databases/d/tables/t")
    assert rest.get("databases/d/tables")["tables"] == []
    assert rest.get("tables")["tables"] == []
    assert gateway.run("UNDROP TABLE d.t").collect() == [("table", "d.t")]
    after = rest.get("databases/d/tables/t")
    assert (after["id"], after["path"]) == (before["id"], before["path"])
    assert rest.get("databases/d/tables/t/snapshot")["snapshot"]["snapshot"]["uuid"] == made["uuid"]
    rest.delete("databases/d")
    assert "d" not in rest.get("databases")["databases"]
    assert gateway.run("UNDROP DATABASE d").collect() == [("table", "d.t")]
    assert gateway.lake.open(Identifier("d", "t")).latest() is not None
