"""Each user's statements have a share of Spark of their own."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from sql.spark.session.pool import SparkPool
from sql.spark.session.shares import BACKGROUND, Shares, allocations

pytestmark = pytest.mark.spark


def test_who_runs_something_has_a_pool_that_nobody_else_has() -> None:
    shares = Shares()
    with shares.pool_of("anna") as anna, shares.pool_of("ben") as ben, shares.pool_of("anna") as again:
        assert again == anna != ben
    with shares.pool_of("carl") as carl:
        assert carl == anna, "what nobody uses any more is free"
    weights = {pool.get("name"): pool.findtext("weight") for pool in ElementTree.fromstring(allocations())}
    assert (weights[anna], weights[BACKGROUND]) == ("10", "1")


def test_what_a_statement_starts_is_in_its_users_pool(pool: SparkPool) -> None:
    with pool.lease("a", "anna").running("s1") as session:
        annas = session.sparkContext.getLocalProperty("spark.scheduler.pool")
        with pool.lease("b", "ben").marked("s2"):
            bens = session.sparkContext.getLocalProperty("spark.scheduler.pool")
    assert annas
    assert bens
    assert annas != bens
    with pool.running("compaction", background=True):
        assert pool.root().sparkContext.getLocalProperty("spark.scheduler.pool") == BACKGROUND
