"""Quotas: set in SQL, kept in Postgres, true over all servers, and told by name when one is reached."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pyarrow as pa
import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from gateway.ingest import IfExists
from lake import Caller, Lake
from model.errors import AccessNotExist, Forbidden, InvalidGrant, InvalidOption, LakeError, QuotaExceeded, ResultTooLarge, StatementTimeout
from model.identifier import Identifier
from model.work.quota import INGEST, QUEUED, QUOTAS, RUNNING, SESSIONS, Holder, Quota, limits_of
from sql.execution.cancellation import Cancellation
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held, in_background
from tests.gateway.test_executor import wait_for
from workers.pool import WorkerPool

ANNA = Caller(principal="anna", administrator=True, roles=frozenset({"analysts"}))
BEN = Caller(principal="ben", administrator=True)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers tell each other oftener than they do by themselves: most of a test here would be waiting for the next round."""
    monkeypatch.setattr("lake.access.quotas.ROUND_SECONDS", 0.2)


def _quota(holder: Holder, principal: str, value: int) -> Quota:
    return Quota(holder=holder, principal=principal, name=RUNNING, value=value)


@pytest.mark.parametrize(
    ("quotas", "limit"),
    [
        ([], None),
        ([_quota(Holder.ROLE, "public", 3)], 3),
        ([_quota(Holder.ROLE, "public", 3), _quota(Holder.ROLE, "analysts", 2)], 2),
        ([_quota(Holder.ROLE, "writers", 5), _quota(Holder.ROLE, "analysts", 2)], 5),
        ([_quota(Holder.ROLE, "others", 5)], None),
        ([_quota(Holder.ROLE, "analysts", 5), _quota(Holder.USER, "anna", 1)], 1),
        ([_quota(Holder.USER, "analysts", 5)], None),
    ],
)
def test_ones_own_quota_goes_before_the_largest_of_ones_roles_and_that_before_everybodys(quotas: list[Quota], limit: int | None) -> None:
    assert limits_of(quotas, "anna", frozenset({"analysts", "writers"})).get(RUNNING) == limit


def test_quotas_are_set_shown_and_reset(gateway: Gateway) -> None:
    gateway.run("CREATE ROLE analysts").close()
    for text in (
        "SET QUOTA statements.running = 4 FOR ROLE analysts",
        "SET QUOTA spool.bytes = 10 gb FOR USER anna",
        "SET QUOTA ingest.bytes-per-minute = '64 mb' FOR ROLE public",
        "SET QUOTA statements.running = 5 FOR ROLE analysts",
    ):
        gateway.run(text).close()
    rows = [
        ("ROLE", "analysts", "statements.running", "5", 0),
        ("ROLE", "public", "ingest.bytes-per-minute", "64 mb", 0),
        ("USER", "anna", "spool.bytes", "10 gb", 0),
    ]
    assert gateway.run("SHOW QUOTAS").collect() == rows
    assert gateway.run("SHOW QUOTAS FOR USER anna").collect() == rows[2:]
    assert gateway.run("SELECT principal, value FROM sys.quotas WHERE holder = 'USER'").collect() == [("anna", 10 << 30)]
    user = replace(ANNA, administrator=False)
    assert [row[1] for row in gateway.run("SHOW QUOTAS", caller=replace(user, principal="carl")).collect()] == ["analysts", "public"]
    gateway.run("RESET QUOTA statements.running FOR ROLE analysts").close()
    gateway.run("DROP ROLE analysts").close()
    assert gateway.run("SHOW QUOTAS").collect() == rows[1:]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("SET QUOTA statements.runing = 4 FOR USER anna", InvalidOption, "did you mean statements.running"),
        ("SET QUOTA statements.running = many FOR USER anna", InvalidOption, "whole number"),
        ("SET QUOTA spool.bytes = -1 FOR USER anna", InvalidOption, "size such as"),
        ("SET QUOTA statements.running = 4 FOR ROLE nobody", AccessNotExist, "no role nobody"),
        ("SET QUOTA statements.running = 4 FOR USER public", InvalidGrant, "public is a role"),
        ("SET QUOTA statements.running = 4", LakeError, "FOR"),
        ("SET QUOTA statements.running = 4 FOR anna", LakeError, "USER or ROLE"),
        ("RESET QUOTA statements.running FOR USER anna", AccessNotExist, "not set for user anna"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(gateway: Gateway, text: str, error: type[LakeError], says: str) -> None:
    with pytest.raises(error, match=says):
        gateway.run(text)


def test_only_administrators_set_quotas(gateway: Gateway) -> None:
    with pytest.raises(Forbidden):
        gateway.run("SET QUOTA statements.running = 4 FOR USER anna", caller=replace(ANNA, administrator=False))


def test_running_statements_wait_for_their_users_turn_and_queued_ones_are_bounded(lake: Lake, held: Callable[..., Held]) -> None:
    gateway = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=8, spark_statements=3))
    gateway.start()
    try:
        for name, value in ((RUNNING, 1), (QUEUED, 1)):
            gateway.run(f"SET QUOTA {name} = {value} FOR USER anna").close()
        first, second, bens = (held(name, needs_spark=True) for name in ("first", "second", "bens"))
        one = in_background(lambda: gateway.run("SELECT first()", caller=ANNA))
        assert first.reached.wait(60)
        two = in_background(lambda: gateway.run("SELECT second()", caller=ANNA))
        wait_for(lambda: gateway.queued()["spark"] == 1)
        with pytest.raises(QuotaExceeded, match=r"quota statements.queued = 1"):
            gateway.run("SELECT second()", caller=ANNA)
        three = in_background(lambda: gateway.run("SELECT bens()", caller=BEN))
        assert bens.reached.wait(60), "others are not held up"
        assert not second.reached.is_set()
        first.let_go.set()
        assert second.reached.wait(60)
        second.let_go.set()
        bens.let_go.set()
        for join in (one, two, three):
            join().close()
    finally:
        gateway.close()


def test_a_statement_ends_when_its_quota_says_so(gateway: Gateway, held: Callable[..., Held]) -> None:
    gateway.run("SET QUOTA statements.seconds = 1 FOR USER anna").close()
    stuck = held("stuck")
    with pytest.raises(StatementTimeout, match=r"limit of 1 s, the quota statements\.seconds of anna"):
        gateway.run("SELECT stuck()", caller=ANNA, timeout=600.0)
    stuck.let_go.set()


def test_sessions_streams_jobs_and_ingest_are_counted(gateway: Gateway) -> None:
    for name in ("sessions.open", "streams.open", "jobs.running"):
        gateway.run(f"SET QUOTA {name} = 1 FOR ROLE public").close()
    session = gateway.open_session(caller=ANNA)
    with pytest.raises(QuotaExceeded, match=r"anna has 1 open sessions, as many as the quota sessions.open = 1"):
        gateway.open_session(caller=ANNA)
    gateway.open_session(caller=BEN)
    gateway.close_session(session)
    gateway.close_session(gateway.open_session(caller=ANNA))

    gateway.run("CREATE TABLE t (a INT)").close()
    follow = "SELECT a FROM t /*+ OPTIONS('scan.mode'='latest') */"
    streaming = {"execution.runtime-mode": "streaming"}
    stream = gateway.run(follow, settings=streaming, caller=ANNA)
    with pytest.raises(QuotaExceeded, match=r"1 open streams.*streams\.open = 1"):
        gateway.run(follow, settings=streaming, caller=ANNA)
    stream.close()
    gateway.run(follow, settings=streaming, caller=ANNA).close()

    jobs = gateway.lake.for_caller(ANNA).jobs
    jobs.create(name="j", statement="INSERT …", database="default", settings={}, tables={})
    with pytest.raises(QuotaExceeded, match=r"1 jobs that have not ended.*jobs\.running = 1"):
        jobs.create(name="j", statement="INSERT …", database="default", settings={}, tables={})

    gateway.run("SET QUOTA ingest.bytes-per-minute = 40 FOR USER anna").close()
    table, rows = Identifier("default", "t"), b"a\n" + b"1\n" * 20
    assert gateway.append(table, io.BytesIO(rows), "text/csv", caller=ANNA).rows == 20
    for again in (
        lambda: gateway.append(table, io.BytesIO(rows), "text/csv", caller=ANNA),
        lambda: gateway.run("INSERT INTO t VALUES (1)", caller=ANNA),
        lambda: gateway.ingest(table, pa.schema([("a", pa.int32())]), io.BytesIO, create=False, if_exists=IfExists.APPEND, caller=ANNA),
    ):
        with pytest.raises(QuotaExceeded, match=r"quota ingest.bytes-per-minute = 40 bytes"):
            again()
    gateway.run("INSERT INTO t VALUES (1)", caller=BEN).close()
    assert gateway.run("SELECT count(*) FROM t").collect() == [(21,)]


def test_results_in_the_spool_are_bounded(lake: Lake, gateway: Gateway, tmp_path: Path) -> None:
    gateway.run("SET QUOTA result.bytes = 100 FOR USER anna").close()
    gateway.run("SET QUOTA spool.bytes = 150 FOR USER anna").close()
    spool = gateway._spool

    def entry(size: int, caller: Caller = ANNA) -> None:
        made = spool.new(Cancellation(), caller=caller)
        lake.file_io.write(f"{made.path}/part", b"x" * size)
        made.finish()

    with pytest.raises(ResultTooLarge, match=r"quota result.bytes = 100 bytes of anna"):
        entry(101)
    spool.close()
    entry(90)
    with pytest.raises(QuotaExceeded, match=r"quota spool.bytes = 150 bytes"):
        entry(90)
    with pytest.raises(QuotaExceeded, match=r"quota spool.bytes = 150 bytes"):
        spool.new(caller=ANNA)
    entry(1000, BEN)


@pytest.fixture
def other(dsn: str, lake: Lake, workers: WorkerPool) -> Iterator[Gateway]:
    """A second server on the same catalog."""
    catalog = CatalogStore(dsn)
    second = Lake(catalog, lake.warehouse)
    made = Gateway(second, NoSpark(), limits=GatewayLimits(local_threads=2, spark_statements=1), workers=workers)
    made.start()
    yield made
    made.close()
    second.close()
    catalog.close()


def test_quotas_hold_over_all_servers(gateway: Gateway, other: Gateway) -> None:
    gateway.run("SET QUOTA sessions.open = 2 FOR USER anna").close()
    session = gateway.open_session(caller=ANNA)

    def allowed() -> int | None:
        other.lake.quotas.note(ANNA)
        return other.lake.quotas.left("anna", SESSIONS)

    wait_for(lambda: allowed() == 1)  # by itself, within seconds
    other.open_session(caller=ANNA)
    with pytest.raises(QuotaExceeded, match=r"anna has 2 open sessions"):
        other.open_session(caller=ANNA)
    assert other.run("SHOW QUOTAS").collect() == [("USER", "anna", "sessions.open", "2", 2)]
    gateway.close_session(session)
    wait_for(lambda: allowed() == 2)
    other.open_session(caller=ANNA)


_FOLLOW = "SELECT a FROM t /*+ OPTIONS('scan.mode'='latest') */"
_STREAMING = {"execution.runtime-mode": "streaming"}


def _take(gateway: Gateway, name: str) -> Callable[[], None]:
    """Take as anna nearly all that a quota of 10 lets; what gives it back."""
    match name:
        case "streams.open":
            opened = [gateway.run(_FOLLOW, settings=_STREAMING, caller=ANNA) for _ in range(9)]

            def close() -> None:
                for stream in opened:
                    stream.close()

            return close
        case "jobs.running":
            jobs = gateway.lake.for_caller(ANNA).jobs
            for _ in range(9):
                jobs.create(name=uuid4().hex, statement="INSERT …", database="default", settings={}, tables={})
        case "ingest.bytes-per-minute":
            gateway.append(Identifier("default", "t"), io.BytesIO(b"a\n1\n1\n12"), "text/csv", caller=ANNA)
            gateway.lake.quotas.check_ingest(ANNA)
        case "spool.bytes":
            made = gateway._spool.new(Cancellation(), caller=ANNA)
            gateway.lake.file_io.write(f"{made.path}/part", b"x" * 9)
            made.finish()
    return lambda: None


@pytest.mark.parametrize("name", ["streams.open", "jobs.running", "ingest.bytes-per-minute", "spool.bytes"])
def test_what_one_server_gives_another_does_not_give_again(gateway: Gateway, other: Gateway, name: str) -> None:
    gateway.run("CREATE TABLE t (a INT)").close()
    gateway.run(f"SET QUOTA {name} = 10 FOR USER anna").close()

    def left() -> int | None:
        other.lake.quotas.note(ANNA)
        return other.lake.quotas.left("anna", name)

    wait_for(lambda: left() == 10)
    give_back = _take(gateway, name)
    if name != "jobs.running":  # Postgres counts these at once
        wait_for(lambda: left() in (1, 2))
    with pytest.raises(QuotaExceeded, match=f"quota {name} = 10"):
        _take(other, name)
    if name == "streams.open":
        give_back()
        wait_for(lambda: left() == 10)


def test_a_statement_waits_for_one_on_another_server(gateway: Gateway, other: Gateway, held: Callable[..., Held]) -> None:
    gateway.run("SET QUOTA statements.running = 1 FOR USER anna").close()
    first, second, bens = (held(name, needs_spark=True) for name in ("first", "second", "bens"))
    one = in_background(lambda: gateway.run("SELECT first()", caller=ANNA))
    assert first.reached.wait(60)

    def left() -> int | None:
        other.lake.quotas.note(ANNA)
        return other.lake.quotas.left("anna", RUNNING)

    wait_for(lambda: left() == 0)
    two = in_background(lambda: other.run("SELECT second()", caller=ANNA))
    three = in_background(lambda: other.run("SELECT bens()", caller=BEN))
    assert bens.reached.wait(60), "others are not held up"
    bens.let_go.set()
    assert not second.reached.wait(0.5), "though a thread is free"
    first.let_go.set()
    assert second.reached.wait(60), "within seconds"
    second.let_go.set()
    for join in (one, two, three):
        join().close()


def test_bytes_taken_in_are_forgotten_after_a_minute(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("lake.access.quotas.time", SimpleNamespace(monotonic=lambda: now[0]))
    for _ in range(200):
        lake.quotas.ingested(ANNA, 10)
        now[0] += 1
    assert lake.quotas.usage() == {("anna", INGEST): 600}
    now[0] += 100
    assert lake.quotas.usage() == {}


def test_every_quota_says_what_it_is() -> None:
    assert all(kind.name == name and kind.help.endswith(".") for name, kind in QUOTAS.items())
