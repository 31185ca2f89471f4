"""Whom a full heap of Spark hits is told to try again where another statement may have filled it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.gateway import Gateway
from gateway.limits import GatewayLimits
from lake import Lake
from model.errors import OutOfMemory, Unavailable
from sql.statements.base import ExecutionContext
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held, in_background
from workers.pool import WorkerPool


@pytest.fixture
def gateway(lake: Lake, workers: WorkerPool) -> Iterator[Gateway]:
    made = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=4, spark_statements=2), workers=workers)
    yield made
    made.close()


def _fails(error: OutOfMemory) -> Callable[[ExecutionContext], object]:
    def run(context: ExecutionContext) -> object:
        raise error

    return run


def _certain() -> OutOfMemory:
    error = OutOfMemory("more than maxResultSize")
    error.own = True
    return error


def test_a_statement_beside_another_is_told_to_try_again(gateway: Gateway, held: Callable[..., Held]) -> None:
    other, hit = held("other", needs_spark=True), held("hit", needs_spark=True)
    hit.asks = _fails(OutOfMemory("needs more memory"))
    beside = in_background(lambda: gateway.run("SELECT other()").close())
    assert other.reached.wait(60)
    with pytest.raises(Unavailable, match="one of them may have filled it"):
        gateway.run("SELECT hit()")
    hit.asks = _fails(_certain())
    with pytest.raises(OutOfMemory, match="maxResultSize"):  # whatever else runs there
        gateway.run("SELECT hit()")
    other.let_go.set()
    beside()


def test_so_is_one_whose_neighbour_has_ended_by_then(gateway: Gateway, held: Callable[..., Held]) -> None:
    other, hit = held("other", needs_spark=True), held("hit", needs_spark=True)
    other.let_go.set()

    def fails_later(context: ExecutionContext) -> object:
        gateway.run("SELECT other()").close()
        raise OutOfMemory("needs more memory")

    hit.asks = fails_later
    with pytest.raises(Unavailable):
        gateway.run("SELECT hit()")


def test_one_that_was_alone_is_told_that_it_needs_more(gateway: Gateway, held: Callable[..., Held]) -> None:
    local, hit = held("local"), held("hit", needs_spark=True)
    hit.asks = _fails(OutOfMemory("needs more memory"))
    beside = in_background(lambda: gateway.run("SELECT local()").close())
    assert local.reached.wait(60)  # what is not on Spark takes nothing of its memory
    for _ in range(2):
        with pytest.raises(OutOfMemory):
            gateway.run("SELECT hit()")
    local.let_go.set()
    beside()
