"""Each user's statements have a share of Spark of their own."""

from __future__ import annotations

import contextlib
import threading
from xml.etree import ElementTree

import pytest

from sql.spark.scheduling.shares import BACKGROUND, Shares, allocations
from sql.spark.session.pool import SparkPool
from tests.gateway.test_executor import wait_for

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
    with pool.lease("anna").running("s1") as session:
        annas = session.sparkContext.getLocalProperty("spark.scheduler.pool")
        with pool.lease("ben").marked("s2"):
            bens = session.sparkContext.getLocalProperty("spark.scheduler.pool")
    assert annas
    assert bens
    assert annas != bens
    with pool.running("compaction", background=True):
        assert pool.root().sparkContext.getLocalProperty("spark.scheduler.pool") == BACKGROUND


def test_a_scheduler_without_shares_tells_who_runs_as_well(pool: SparkPool) -> None:
    """One that is somebody else's, as of tests, holds stages where ours holds shares."""
    long = "SELECT sum(aggregate(sequence(1, 1000), CAST(0 AS BIGINT), (x, i) -> (x + i * id) % 7)) FROM range(0, 10000000, 1, 2)"

    def run() -> None:
        with contextlib.suppress(Exception), pool.lease("anna").running("long") as session:
            session.sql(long).toArrow()

    running = threading.Thread(target=run)
    running.start()
    try:
        wait_for(lambda: any(stage.running for stage in pool.stages_at_work()))
        pool.put_waiting_first()
        assert len(pool.numbered_tasks()) >= 1
    finally:
        pool.cancel("long")
        running.join(60)
    assert not running.is_alive()
    wait_for(lambda: not pool.stages_at_work())
