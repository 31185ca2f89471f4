"""What a query in streaming mode is refused for before anything is read: bounds and alignment that would have no effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import AnalysisError, InvalidOption, Unavailable, UnsupportedStatement
from model.identifier import Identifier
from model.schema.types import Field, IntType
from model.view import View
from sql.dialect import parse_one
from sql.local import check_ends, is_stream
from sql.statements.base import ExecutionContext
from sql.statements.jobs import StartJob, check_job_drain
from tests.sql.tables import context_of

STREAMING = {"execution.runtime-mode": "streaming"}
KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json'"
HINT = "/*+ OPTIONS('scan.bounded.mode' = '{}') */"
LATEST = HINT.format("latest-offset")
NAMED = HINT.format("specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:1")


def context_with_tables(gateway: Gateway) -> ExecutionContext:
    lake = gateway.lake
    for text in (
        f"CREATE TABLE k (a INT) WITH ({KAFKA}, 'scan.startup.mode' = 'earliest-offset')",
        f"CREATE TABLE timed (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA}, 'scan.startup.mode' = 'earliest-offset')",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE still (a INT) WITH ('scan.bounded' = 'true')",
    ):
        gateway.run(text).close()
    create_view(lake, "default.v", "SELECT a FROM t")
    return context_of(lake)


@pytest.fixture
def context(gateway: Gateway) -> ExecutionContext:
    return context_with_tables(gateway)


@pytest.fixture(scope="module")
def shared(module_gateway: Gateway) -> ExecutionContext:
    """For what is refused before it begins, with two tables more."""
    context = context_with_tables(module_gateway)
    module_gateway.run(
        "CREATE TABLE into_table (a INT); CREATE TABLE stored (a INT) "
        "WITH ('scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min')"
    ).close()
    create_view(module_gateway.lake, "default.v2", "SELECT a FROM stored")
    return context


def create_view(lake: Lake, name: str, query: str) -> None:
    """A view of one column, made without Spark."""
    lake.views.create(Identifier(*name.split(".")), View(fields=(Field(id=0, name="a", type=IntType()),), query=query))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a FROM k {LATEST} UNION ALL SELECT a FROM t",
        f"SELECT a FROM v UNION ALL SELECT a FROM k {LATEST}",
        f"SELECT k.a FROM k {LATEST} JOIN timed ON k.a = timed.a",
        f"SELECT t.a FROM t JOIN timed {NAMED} ON t.a = timed.a",
    ],
)
def test_a_bound_beside_a_source_without_end_is_refused(shared: ExecutionContext, module_gateway: Gateway, query: str) -> None:
    with pytest.raises(InvalidOption, match="does not end with what is there now"):
        check_ends(shared, parse_one(query))
    with pytest.raises(InvalidOption, match="a query has one end here"):
        module_gateway.run(query, settings=STREAMING)
    with pytest.raises(InvalidOption, match="a query has one end here"):
        StartJob(tree=parse_one(f"INSERT INTO into_table {query}")).run(shared)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a FROM k {LATEST}",
        f"SELECT k.a FROM k {LATEST} JOIN still ON k.a = still.a",
        f"SELECT a FROM k {NAMED} UNION ALL SELECT a FROM t",  # what lies behind the offset is left out
        "SELECT k.a FROM k JOIN t ON k.a = t.a",
        "SELECT a FROM t",
    ],
)
def test_bounds_that_hold_are_taken(shared: ExecutionContext, query: str) -> None:
    check_ends(shared, parse_one(query))


@pytest.mark.parametrize("query", ["SELECT a FROM t {}", "SELECT count(*) AS n FROM t {}", "SELECT a FROM k {}"])
@pytest.mark.usefixtures("shared")
def test_a_select_joins_no_alignment_group(module_gateway: Gateway, query: str) -> None:
    hint = "/*+ OPTIONS('scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min') */"
    with pytest.raises(InvalidOption, match="has no effect on a SELECT: jobs wait for each other"):
        module_gateway.run(query.format(hint), settings=STREAMING)


ALIGNED = "/*+ OPTIONS('scan.watermark.alignment.group' = '{}', 'scan.watermark.alignment.max-drift' = '{}'{}) */"
IN_G = ALIGNED.format("g", "1 min", "")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (f"SELECT k.a FROM k {IN_G} JOIN t {IN_G} ON k.a = t.a", "k and t"),
        (f"SELECT a FROM t {IN_G} UNION ALL SELECT a FROM v2", "t and default.stored"),  # the view's table stores it
        (f"SELECT a FROM t {IN_G} UNION ALL SELECT a FROM k {ALIGNED.format('h', '1 min', '')}", "t and k"),
        (f"SELECT a FROM t {IN_G} UNION ALL SELECT a FROM k {ALIGNED.format('g', '2 min', '')}", "t and k"),
        (f"SELECT a FROM t {IN_G} UNION ALL SELECT a FROM t {ALIGNED.format('g', '2 min', '')}", "t and t"),
        (f"SELECT x.a FROM stored x JOIN t {IN_G} ON x.a = t.a JOIN k {IN_G} ON x.a = k.a", "stored, t and k"),
        (f"SELECT a FROM t {IN_G}", None),
        (f"SELECT x.a FROM t {IN_G} AS x JOIN `default`.t {IN_G} AS y ON x.a = y.a", None),  # one source, as in Flink
        (f"SELECT k.a FROM k JOIN t {IN_G} ON k.a = t.a", None),
        (f"SELECT still.a FROM still {IN_G} JOIN t {IN_G} ON still.a = t.a", None),  # what has ended holds nobody back
    ],
)
def test_sources_of_one_insert_that_would_not_wait_for_each_other_are_refused(
    shared: ExecutionContext, module_gateway: Gateway, query: str, names: str | None
) -> None:
    insert = f"INSERT INTO into_table {query}"
    if names is None:
        with pytest.raises(Unavailable):  # for want of Spark alone
            module_gateway.run(insert, settings=STREAMING)
        return
    with pytest.raises(InvalidOption, match=f"^{names} have 'scan.watermark.alignment.group': the sources of one INSERT do not wait"):
        module_gateway.run(insert, settings=STREAMING)
    with pytest.raises(InvalidOption, match=f"^{names} have"):
        module_gateway.run(f"EXECUTE STATEMENT SET BEGIN {insert}; INSERT INTO into_table SELECT a FROM t; END", settings=STREAMING)


def test_a_job_that_reads_what_it_writes_is_refused(context: ExecutionContext, gateway: Gateway) -> None:
    """Also through views of views, and under another spelling of the name."""
    gateway.run("CREATE DATABASE d; CREATE TABLE u (a INT)").close()
    create_view(context.lake, "d.over_v", "SELECT a FROM `default`.v")
    for query in ("SELECT a FROM sluice.`default`.t", "SELECT a FROM v", "SELECT a FROM u UNION ALL SELECT a FROM d.over_v"):
        with pytest.raises(AnalysisError, match=r"reads what it writes would never end: t.* INSERT into another table\."):
            gateway.run(f"INSERT INTO t {query}", settings=STREAMING)
    gateway.run("CALL sys.create_branch('t', 'b')").close()
    with pytest.raises(Unavailable):  # for want of Spark alone
        gateway.run("INSERT INTO `t$branch_b` SELECT a FROM v", settings=STREAMING)


@pytest.mark.parametrize("query", ["SELECT CAST(a AS INT) AS a FROM t", "SELECT CAST(a AS INT) AS a FROM v"])
@pytest.mark.usefixtures("context")
def test_a_job_does_not_read_the_bad_rows_it_puts_aside(gateway: Gateway, query: str) -> None:
    aside = ", ".join(f"{name} {'BIGINT' if name == 'batch' else 'STRING'}" for name in ("job", "batch", "source", "reason", "`row`"))
    gateway.run(f"CREATE TABLE u (a INT); ALTER TABLE t ADD ({aside})").close()
    with pytest.raises(InvalidOption, match=r"'job\.bad-rows' = 'default\.t': the job reads this table"):
        gateway.run(f"INSERT INTO u {query}", settings={**STREAMING, "job.bad-rows": "t"})


def test_what_a_view_reads_ends_where_its_sources_end(context: ExecutionContext) -> None:
    create_view(context.lake, "default.bounded_v", "SELECT a FROM still")
    create_view(context.lake, "default.hinted", f"SELECT a FROM k {LATEST}")
    streaming = replace(context, settings=STREAMING)
    for name, follows in {"v": True, "k": True, "bounded_v": False, "hinted": False, "hinted JOIN v ON true": True}.items():
        assert is_stream(parse_one(f"SELECT 1 FROM {name}"), streaming) is follows, name


def test_a_drain_that_would_leave_windows_out_is_refused(context: ExecutionContext, gateway: Gateway) -> None:
    """Of Spark's own sources, that cannot end event time; where nothing is held back there is nothing to leave out."""
    gateway.run("CREATE TABLE into_table (a INT); CREATE TABLE w (ts TIMESTAMP(3), n BIGINT)").close()
    create_view(context.lake, "default.over_timed", "SELECT a FROM timed GROUP BY a")
    grouped = "SELECT window_start, COUNT(a) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTES)) GROUP BY window_start"
    texts = {
        f"INSERT INTO w {grouped.format('timed')}": False,
        f"INSERT INTO into_table SELECT a FROM t; INSERT INTO w {grouped.format('timed')}": False,
        "INSERT INTO into_table SELECT a FROM over_timed": False,
        "INSERT INTO into_table SELECT a FROM timed WHERE a > 1": True,
        "INSERT INTO into_table SELECT t.a FROM t JOIN k ON t.a = k.a": True,
        f"INSERT INTO w {grouped.format(f'timed {LATEST}')}": True,
        "INSERT INTO into_table SELECT DISTINCT a FROM v": True,
    }
    for text, drains in texts.items():
        statement = f"EXECUTE STATEMENT SET BEGIN {text}; END" if ";" in text else text
        job_id = context.lake.jobs.create(name="j", statement=statement, database="default", settings=STREAMING, tables={})
        with (
            nullcontext() if drains else pytest.raises(UnsupportedStatement, match=r"WITH DRAIN: .*timed is a kafka table with a WATERMARK")
        ):
            check_job_drain(context, context.lake.jobs.get(job_id))
        if not drains:
            with pytest.raises(UnsupportedStatement, match="STOP JOB without DRAIN keeps them in the checkpoint"):
                gateway.run(f"STOP JOB '{job_id}' WITH DRAIN")
            assert context.lake.jobs.get(job_id).requested is None
        gateway.run(f"STOP JOB '{job_id}'").close()


def test_a_view_joins_no_alignment_group_in_a_select(context: ExecutionContext, gateway: Gateway) -> None:
    hint = "/*+ OPTIONS('scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min') */"
    create_view(context.lake, "default.aligned", f"SELECT a FROM t {hint}")
    with pytest.raises(InvalidOption, match="has no effect on a SELECT: jobs wait for each other"):
        gateway.run("SELECT a FROM aligned", settings=STREAMING)


def test_what_is_bounded_alone_is_read_as_it_is_now(ask: Callable[[str], object], gateway: Gateway) -> None:
    ask("CREATE TABLE b (a INT) WITH ('scan.bounded' = 'true'); INSERT INTO b VALUES (1), (2)")
    read = gateway.run("SELECT a FROM b", settings=STREAMING)
    assert (read.unbounded, read.collect()) == (False, [(1,), (2,)])


def test_what_a_table_stores_for_flink_keeps_nobody_from_reading_it(ask: Callable[[str], object], gateway: Gateway) -> None:
    """The idle timeout goes into Flink's watermarks without a group, too; a hint that would have no effect here is refused."""
    ask("CREATE TABLE idle (a INT) WITH ('scan.watermark.idle-timeout' = '30 s'); INSERT INTO idle VALUES (1)")
    assert gateway.run("SELECT a FROM idle LIMIT 1", settings=STREAMING).collect() == [(1,)]
    with pytest.raises(InvalidOption, match=r"needs 'scan\.watermark\.alignment\.group'"):
        gateway.run("SELECT a FROM idle /*+ OPTIONS('scan.watermark.idle-timeout' = '1 s') */", settings=STREAMING)
