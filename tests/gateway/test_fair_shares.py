"""What all principals share of a gateway, and how much of it one of them takes: always so much that another finds some."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.gateway import Gateway
from gateway.limits import GatewayLimits
from lake import Caller, Lake
from model.errors import TooManyStatements
from tests.fix_gateway import NoSpark
from workers.pool import WorkerPool

ADA, BOB = Caller(principal="ada"), Caller(principal="bob")


@pytest.fixture
def small(lake: Lake, workers: WorkerPool) -> Iterator[Gateway]:
    """A gateway with five places of each kind."""
    made = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=2, sessions=5, kept_statements=5), workers=workers)
    yield made
    made.close()


def _keep(gateway: Gateway, caller: Caller) -> Callable[[], None]:
    kept = gateway.keep("SELECT 1", caller=caller)
    return lambda: gateway.kept.forget(kept)


def _open(gateway: Gateway, caller: Caller) -> Callable[[], None]:
    session = gateway.open_session(caller=caller)
    return lambda: gateway.close_session(session)


@pytest.mark.parametrize(
    ("take", "told", "all_told"),
    [
        (_keep, "4 statements of ada are kept already, and the rest of the 5 places is for others", "5 statements are kept already"),
        (_open, "4 sessions of ada are open; the rest of the 5 this server keeps is for others", "There are 5 sessions"),
    ],
    ids=["statements with async", "sessions"],
)
def test_one_principal_leaves_places_to_others(
    small: Gateway, take: Callable[[Gateway, Caller], Callable[[], None]], told: str, all_told: str
) -> None:
    let_go = [take(small, ADA) for _ in range(4)]
    with pytest.raises(TooManyStatements, match=told):
        take(small, ADA)
    take(small, BOB)
    with pytest.raises(TooManyStatements, match=all_told):
        take(small, BOB)
    for one in let_go[:2]:
        one()
    take(small, ADA)
