"""A statement that waited runs with the rights of the moment it begins, not with those of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.gateway import Gateway
from gateway.limits import GatewayLimits
from lake import Caller, Lake
from model.access import Access, Policy, table_resource
from model.errors import Forbidden, NotAuthorized
from model.identifier import Identifier
from sql.statements.base import ExecutionContext
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held, in_background
from tests.gateway.test_executor import wait_for
from tests.lake.access.test_access import give, user

T = Identifier("default", "t")


@pytest.fixture
def narrow(lake: Lake) -> Iterator[Gateway]:
    """A gateway with one thread for statements, and one place on Spark."""
    made = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=1, spark_statements=1))
    made.start()
    made.run("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)").close()
    yield made
    made.close()


@pytest.fixture
def ada(lake: Lake, narrow: Gateway) -> Caller:
    secret = user(lake, "ada")
    give(lake, Access.SELECT, table_resource(T), "ada")
    return lake.access.caller(secret)


@pytest.mark.parametrize("text", ["SELECT id FROM t", "SELECT id FROM t; SELECT 1"])
def test_a_statement_that_waits_for_its_thread(lake: Lake, narrow: Gateway, ada: Caller, held: Callable[..., Held], text: str) -> None:
    first = held("first")
    one = in_background(lambda: narrow.run("SELECT first()"))
    assert first.reached.wait(60)
    two = in_background(lambda: narrow.run(text, caller=ada))
    wait_for(lambda: narrow.queued()["local"] == 1)
    lake.permissions.revoke(table_resource(T), [Access.SELECT], "ada")
    first.let_go.set()
    assert isinstance(two(), Forbidden)
    one().close()


def _reads(context: ExecutionContext) -> object:
    return context.lake.read_rules(context.lake.open(T)).restricted and context.lake.require_whole(context.lake.open(T), "all of it")


_TAKEN: dict[str, tuple[Callable[[Lake], object], type[Exception]]] = {
    "the grant": (lambda lake: lake.permissions.revoke(table_resource(T), [Access.SELECT], "ada"), Forbidden),
    "the token": (lambda lake: lake.permissions.revoke_token("ada-token"), NotAuthorized),
    "all rows": (
        lambda lake: lake.permissions.create_policy(T, Policy(name="p", column=None, principals=(), sql="id = 2", rule={})),
        Forbidden,
    ),
}


@pytest.mark.parametrize("taken", _TAKEN)
def test_a_statement_that_waits_for_spark(lake: Lake, narrow: Gateway, ada: Caller, held: Callable[..., Held], taken: str) -> None:
    take, refused = _TAKEN[taken]
    first, second = held("first", needs_spark=True), held("second", needs_spark=True)
    second.asks = _reads
    second.let_go.set()
    one = in_background(lambda: narrow.run("SELECT first()"))
    assert first.reached.wait(60)
    two = in_background(lambda: narrow.run("SELECT second()", caller=ada))
    wait_for(lambda: narrow.queued()["spark"] == 1)
    take(lake)
    first.let_go.set()
    assert isinstance(two(), refused)
    one().close()
