"""A gateway on a real Postgres and a temporary warehouse, with a Spark that is not there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import Unavailable
from sql.execution.progress import StageTasks
from sql.statements.base import Statement
from sql.statements.base import build as build_statement
from tests.gateway.held import Held
from workers.pool import WorkerPool

if TYPE_CHECKING:
    from sql.spark.session.pool import SparkPool


Ask = Callable[[str], list[tuple[Any, ...]]]


class NoSparkLease:
    """A lease whose session cannot be had."""

    def require(self, check: Callable[[], None] = lambda: None) -> None:
        """Not needed by statements that only pretend to need Spark."""

    def running(self, statement_id: str) -> AbstractContextManager[Any]:
        raise Unavailable("There is no Spark in this test.")

    def marked(self, statement_id: str) -> AbstractContextManager[None]:
        raise Unavailable("There is no Spark in this test.")

    def made(self, session: Any) -> bool:
        return False

    def spared(self, statement_id: str) -> bool:
        return False

    def lost(self) -> None:
        """There was none."""


class NoSpark:
    """What a gateway asks of Spark, where a test needs none; remembers what it was told."""

    ready = starting = asleep = False

    def __init__(self) -> None:
        self.canceled: list[str] = []

    def lease(self, principal: str = "") -> NoSparkLease:
        return NoSparkLease()

    def cancel(self, statement_id: str) -> None:
        self.canceled.append(statement_id)

    def progress(self, statement_id: str) -> None:
        return None

    def interrupt(self, statement_id: str) -> None:
        """There is none."""

    def stages_of(self, statement_id: str) -> set[tuple[str, int]]:
        return set()

    def live_tasks(self) -> list[tuple[str, int]]:
        return []

    def numbered_tasks(self) -> list[tuple[tuple[str, int], int]]:
        return []

    def stages_at_work(self) -> list[StageTasks]:
        return []

    def seconds(self) -> float:
        return time.monotonic()

    def put_waiting_first(self) -> None:
        """There are none."""

    def end_task(self, task: int, reason: str) -> None:
        """There is none."""

    def calls(self, statement_id: str) -> bool:
        return False

    def answers(self) -> bool:
        return True

    def cores(self) -> int:
        return 2

    def prepare(self) -> None:
        """There is none."""

    def restart(self, reason: str) -> None:
        """There is none."""

    def ping(self) -> None:
        raise Unavailable("There is no Spark in this test.")

    def check(self) -> None:
        self.ping()


@pytest.fixture
def import_dirs() -> list[str]:
    """Directories that a gateway may read outside its warehouse; a module that needs some has a fixture of its own."""
    return []


@pytest.fixture
def spark_stub() -> NoSpark:
    return NoSpark()


@pytest.fixture
def gateway(lake: Lake, spark_stub: NoSpark, workers: WorkerPool) -> Iterator[Gateway]:
    limits = GatewayLimits(local_threads=16, spark_statements=1, queued_statements=64, queued_per_session=4, sessions=3)
    made = Gateway(lake, spark_stub, limits=limits, workers=workers)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_gateway(module_lake: Lake, workers: WorkerPool) -> Iterator[Gateway]:
    """One that the tests of a module share."""
    limits = GatewayLimits(local_threads=16, spark_statements=1, queued_statements=64, queued_per_session=4, sessions=3)
    made = Gateway(module_lake, NoSpark(), limits=limits, workers=workers)
    made.start()
    yield made
    made.close()


@pytest.fixture
def other_server(dsn: str, warehouse: Path, spark_stub: NoSpark, workers: WorkerPool, gateway: Gateway) -> Iterator[Gateway]:
    """A second server's gateway, with nothing of the first but its catalog and warehouse."""
    store = CatalogStore(dsn)
    lake = Lake(store, str(warehouse))
    lake.drop_retention = timedelta(days=7)
    limits = GatewayLimits(local_threads=16, spark_statements=1, queued_statements=64, queued_per_session=4, sessions=3)
    made = Gateway(lake, spark_stub, limits=limits, workers=workers)
    made.start()
    yield made
    made.close()
    lake.close()
    store.close()


@pytest.fixture
def on_spark(lake: Lake, pool: SparkPool) -> Iterator[Gateway]:
    """A gateway with the worker's real Spark."""
    made = Gateway(lake, pool, limits=GatewayLimits(local_threads=4, spark_statements=2))
    made.start()
    yield made
    made.close()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Held]]:
    """Makes ``SELECT <name>()`` a statement that is held."""
    made: dict[str, Held] = {}

    def build(tree: exp.Expr) -> Statement:
        call = tree.find(exp.Anonymous)
        return made[call.name] if call is not None and call.name in made else build_statement(tree)

    monkeypatch.setattr("gateway.planning.build", build)

    def make(name: str = "held", *, needs_spark: bool = False, **more: Any) -> Held:
        made[name] = Held(needs_spark, **more)
        return made[name]

    yield make
    for one in made.values():
        one.let_go.set()


@pytest.fixture
def ask(gateway: Gateway) -> Ask:
    """Runs a text and gives the rows of its last statement."""

    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    return run
