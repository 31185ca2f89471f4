"""What a statement's shuffles leave goes with the statement, and nothing of another's does."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sql.spark.session.pool import SparkPool
from tests.waiting import eventually

pytestmark = pytest.mark.spark


def _shuffles(pool: SparkPool) -> set[int]:
    numbers: Any = pool.root().sparkContext._jsc.sc().taskScheduler().mapOutputTracker().shuffleStatuses().keys().toSeq()
    return {numbers.apply(position) for position in range(numbers.size())}


def _first_of_many(session: SparkSession, rows: int = 5) -> DataFrame:
    """A frame with a shuffle that is no exchange of its plan."""
    return session.range(0, 10_000, 1, 4).selectExpr("id % 17 AS a", "id").orderBy("a", "id").limit(rows)


def test_the_shuffle_of_the_first_of_many_rows_goes_though_its_frame_is_held(pool: SparkPool) -> None:
    before = _shuffles(pool)
    held = []
    for name in ("first", "second"):
        with pool.lease().running(name) as session:
            held.append(_first_of_many(session))
            assert held[-1].toArrow().num_rows == 5
            assert _shuffles(pool) - before, "it is there as long as the statement runs"
        assert eventually(lambda: not _shuffles(pool) - before)


def test_a_limit_and_a_query_inside_another_leave_nothing(pool: SparkPool) -> None:
    before = _shuffles(pool)
    with pool.lease().running("limit") as session:
        assert session.range(0, 100_000, 1, 4).repartition(3).limit(70_000).toArrow().num_rows == 70_000
    with pool.lease().running("inside") as session:
        first, again = _first_of_many(session, 9), _first_of_many(session, 9)
        assert first.join(again, "id").groupBy(first.a).count().toArrow().num_rows == 1
    assert eventually(lambda: not _shuffles(pool) - before)


def test_what_another_statement_needs_stays(pool: SparkPool) -> None:
    before = _shuffles(pool)
    with pool.lease().running("outer") as session:
        outer = _first_of_many(session)
        assert outer.toArrow().num_rows == 5
        with pool.lease().marked("outer"):
            assert outer.filter("id > 3").toArrow().num_rows == 4
        outers = _shuffles(pool) - before
        assert outers
        with pool.lease().running("inner") as another:
            assert _first_of_many(another).toArrow().num_rows == 5
        assert eventually(lambda: _shuffles(pool) - before == outers)
        assert outer.toArrow().num_rows == 5
    assert eventually(lambda: not _shuffles(pool) - before)
