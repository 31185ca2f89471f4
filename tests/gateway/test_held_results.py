"""Results in memory are counted by whose they are; what finds no space there lies in the spool, where quotas count it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from gateway.result_pages import Pages
from lake import Caller, Lake
from model.errors import QuotaExceeded, StorageFull, TooManyStatements, Unavailable
from model.work import shared_bytes
from sql.execution import held_results
from sql.execution.cancellation import Cancellation
from sql.execution.results import ResultSet
from table.format.rows.array_memory import memory_of_columns
from tests.fix_gateway import NoSpark

ANNA = Caller(principal="anna", administrator=True)
BEN = Caller(principal="ben", administrator=True)
QUERY = "SELECT * FROM t$audit_log"


@pytest.fixture
def small(catalog: CatalogStore, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """A gateway with space in memory for two and a half of these results, of one principal for two."""
    monkeypatch.setattr(held_results, "_SMALL_BYTES", 500)
    lake = Lake(catalog, str(warehouse))
    gateway = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=4, spark_statements=1))
    gateway.start()
    gateway.run("CREATE TABLE t (id INT, s STRING)").close()
    gateway.run("INSERT INTO t VALUES " + ", ".join(f"({number}, 'some text of row {number}')" for number in range(30))).close()
    with gateway.run(QUERY):
        (size,) = gateway._runner.held.usage().values()
    assert size > 500
    gateway.close()
    gateway = Gateway(lake, NoSpark(), limits=replace(gateway.limits, held_bytes=size * 5 // 2))
    gateway.start()
    yield gateway
    gateway.close()
    lake.close()


def spooled(warehouse: Path) -> int:
    return len(list(warehouse.rglob(".sluice/spool/*/*/rows.arrow")))


def test_what_finds_no_room_in_memory_lies_in_the_spool(small: Gateway, warehouse: Path) -> None:
    results = [small.run(QUERY, caller=caller) for caller in (ANNA, ANNA, ANNA, BEN)]
    assert [result.size > 0 for result in results] == [True, True, False, False]
    assert spooled(warehouse) == 2
    rows = [result.collect() for result in results]
    assert len(rows[0]) == 30
    assert rows == [rows[0]] * 4
    assert spooled(warehouse) == 0, "read to their ends, they are gone"
    assert small._runner.held.usage() == {}


def test_a_row_of_many_columns_counts_with_its_arrays(small: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 9,900 columns took 8 MB and counted as 40 kB, eight hundred of them for each user."""
    monkeypatch.setattr(small._runner.held._memory, "most", 1 << 30)
    with small.run(f"SELECT {', '.join(f'{number} AS a{number}' for number in range(1000))}", caller=ANNA) as result:
        assert result.size > 1000 * 700
        assert small._runner.held.usage()["anna"] > result.size
        assert result.collect() == [tuple(range(1000))]
    assert small._runner.held.usage() == {}


def test_columns_of_results_that_nobody_fetches_are_bounded(small: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a table with 9,000 columns took 1.8 MB for each result, and counted as nothing."""
    memory = small._runner.held
    monkeypatch.setattr(memory._memory, "most", 1_000_000)
    small.run(f"CREATE TABLE wide ({', '.join(f'c{number} INT' for number in range(2000))})").close()
    small.run("INSERT INTO wide (c1) VALUES (7)").close()
    waiting = [small.run("SELECT * FROM wide", caller=ANNA) for _ in range(4)]
    assert memory.usage()["anna"] > 4 * 2000 * 100
    with pytest.raises(TooManyStatements, match="no memory for one with 2,000 columns"):
        small.run("SELECT * FROM wide", caller=ANNA)
    small.run("SHOW DATABASES", caller=ANNA).close()
    assert len(small.run("SELECT c1 FROM wide", caller=ANNA).collect()) == 1, "few columns find a place"
    assert len(waiting.pop().collect()) == 1
    waiting.append(small.run("SELECT * FROM wide", caller=ANNA))
    for result in waiting:
        result.close()
    assert memory.usage() == {}


def test_one_principal_leaves_room_to_others(small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_bytes, "most_of_one", lambda most: most // 2)
    results = [small.run(QUERY, caller=caller) for caller in (ANNA, ANNA, BEN)]
    assert [result.size > 0 for result in results] == [True, False, True]
    for result in results:
        result.close()
    assert spooled(warehouse) == 0


def test_rows_that_were_cut_off_are_told_from_the_spool_too(small: Gateway) -> None:
    results = [small.run(QUERY, caller=ANNA, max_rows=29) for _ in range(3)]
    assert results[2].size == 0
    for result in results:
        assert len(result.collect()) == 29
        assert result.truncated


def test_the_quota_of_the_spool_counts_them_and_small_answers_go_on(small: Gateway, warehouse: Path) -> None:
    small.run("SET QUOTA spool.bytes = 1 FOR USER anna").close()
    results = [small.run(QUERY, caller=ANNA) for _ in range(2)]
    with pytest.raises(QuotaExceeded, match=r"spool\.bytes"):
        small.run(QUERY, caller=ANNA)
    assert spooled(warehouse) == 0, "what is refused leaves no file"
    small.run("SHOW DATABASES", caller=ANNA).close()
    small.run(QUERY, caller=BEN).close()
    for result in results:
        result.close()
    small.run(QUERY, caller=ANNA).close()


def test_a_table_that_is_gathered_lies_in_the_spool_from_the_first_megabytes_on(
    small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_results, "_FEW_BYTES", 100)
    with small.run(f"{QUERY} WHERE id > 3 LIMIT 20", caller=ANNA) as result:
        assert result.size == 0
        assert spooled(warehouse) == 1
        assert [row[1] for row in result.collect()] == list(range(4, 24))
    assert spooled(warehouse) == 0
    with small.run("SELECT COUNT(*) FROM t$audit_log WHERE id > 3") as result:
        assert result.collect() == [(26,)]
    with small.run("SELECT id FROM t$audit_log ORDER BY id DESC LIMIT 2") as result:
        assert result.collect() == [(29,), (28,)]


def test_small_results_nobody_fetches_are_bounded_too(small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of statements that are no queries, however many of them wait."""
    held = small._runner.held
    monkeypatch.setattr(held._memory, "most", 2000)
    texts = (f"SELECT '{'x' * 200}' AS s", "SHOW FUNCTIONS", "SHOW DATABASES")
    rows = []
    for text in texts:
        with small.run(text, caller=ANNA) as result:
            rows.append(result.collect())
    results = [(number % 3, small.run(texts[number % 3], caller=ANNA)) for number in range(60)]
    assert held.usage()["anna"] <= 2 * 2000 + memory_of_columns(sum(len(result.columns) for _, result in results))
    assert spooled(warehouse) > 20
    small.run(texts[0], caller=BEN).close()
    assert [result.collect() for _, result in results] == [rows[which] for which, _ in results]
    assert (spooled(warehouse), held.usage()) == (0, {})


def test_what_was_done_is_told_where_the_spool_takes_nothing(small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = small._runner.held
    monkeypatch.setattr(held._memory, "most", 1)

    def full(*_: object, **__: object) -> None:
        raise StorageFull("The disk has no space left.")

    for failing in ("new", "check"):
        with monkeypatch.context() as broken:
            broken.setattr(small._spool, failing, full)
            result = small.run("INSERT INTO t VALUES (1, 'a')", caller=ANNA)
        assert held.usage()["anna"] > 0
        assert result.collect()
        assert (spooled(warehouse), held.usage()) == (0, {})
    with small.run("SELECT COUNT(*) FROM t") as counted:
        assert counted.collect() == [(32,)]


def test_what_was_done_is_told_where_the_spools_store_is_away(small: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither can its rows be put there, nor what was begun of them taken away again."""
    held = small._runner.held
    monkeypatch.setattr(held._memory, "most", 1)
    spool = small._spool.file_io
    small._spool._beat()

    def away(*_: object) -> None:
        raise Unavailable("The store is away.")

    with monkeypatch.context() as broken:
        for call in ("mkdirs", "delete_tree"):
            broken.setattr(spool, call, away)
        result = small.run("CALL sys.create_tag(`table` => 'default.t', tag => 'kept')", caller=ANNA)
        assert held.usage()["anna"] > 0
        assert result.collect()
    assert held.usage() == {}
    with small.run("SELECT tag_name FROM t$tags") as tags:
        assert tags.collect() == [("kept",)]


def test_pages_of_kept_statements_count_in_memory_and_as_the_principals_files(
    small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = small._runner.held
    monkeypatch.setattr(held._memory, "most", 1 << 20)
    first = small.keep(QUERY, caller=ANNA)
    assert first.operation.wait(120)
    assert first.page(0)
    page = held.usage()["anna"]
    assert (page > 0, first.file_bytes) == (True, 0), "read to its end, its pages are in memory"
    monkeypatch.setattr(held._memory, "most", page)
    second = small.keep(QUERY, caller=ANNA)
    assert second.operation.wait(120)
    assert second.page(0) == first.page(0)
    assert second.file_bytes > 0
    assert small.kept.usage() == {("anna", "spool.bytes"): second.file_bytes}
    assert held.usage() == {"anna": page}
    assert small.bodies._held._files.total() == 0, "they take no places of bodies under way"
    assert small.bodies._held.of("principal anna") == second.file_bytes, "and count for what she may have of the space"
    for kept in (first, second):
        small.kept.forget(kept)
    assert (held.usage(), dict(small.kept.usage()), small.bodies._held.of("principal anna")) == ({}, {}, 0)


def test_small_results_of_kept_statements_find_a_place_when_files_are_out(
    small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, files = small._runner.held, small.kept._files._held
    monkeypatch.setattr(held_results, "_SMALL_BYTES", 1 << 16)
    monkeypatch.setattr(files, "_most", 4)
    monkeypatch.setattr(held._memory, "most", 1000)
    with ExitStack() as until_the_end:
        for number in range(8):
            kept = small.keep(f"INSERT INTO t VALUES ({number}, 'more')", caller=ANNA)
            until_the_end.callback(small.kept.forget, kept)
            assert kept.operation.wait(120)
            assert [row[0] for row in kept.result().collect()] == [1], number
            if number == 1:
                assert kept.file_bytes == 0, "small ones have twice the space in memory before they need a file"
        assert small.kept.usage()[("anna", "spool.bytes")] > 0
        assert files._files.total() == 3
        monkeypatch.setattr(held_results, "_SMALL_BYTES", 500)
        large = small.keep(QUERY, caller=ANNA)
        until_the_end.callback(small.kept.forget, large)
        assert large.operation.wait(120)
        with pytest.raises(TooManyStatements, match="The statement is done; let the results of others go"):
            large.page(0)
        monkeypatch.setattr(files, "_most", 40)
        assert sum(batch.num_rows for batch in large.page(0)) == 38
    assert (held.usage(), dict(small.kept.usage()), files._files.total()) == ({}, {}, 0)


def test_the_quota_of_the_spool_binds_pages_of_kept_statements_and_they_bind_the_spool(
    small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (small.keep(QUERY, caller=ANNA) for _ in range(2))
    assert first.operation.wait(120)
    assert second.operation.wait(120)
    monkeypatch.setattr(small._runner.held._memory, "most", 1)
    small.run("SET QUOTA spool.bytes = 1 FOR USER anna").close()
    assert first.page(0), "it begins below its quota"
    assert first.file_bytes > 0
    with pytest.raises(QuotaExceeded, match=r"spool\.bytes"):
        second.page(0)
    with pytest.raises(QuotaExceeded, match=r"spool\.bytes"):
        small.run(QUERY, caller=ANNA)
    written = small.keep("INSERT INTO t VALUES (1, 'a')", caller=ANNA)
    monkeypatch.setattr(held_results, "_SMALL_BYTES", 1 << 16)
    assert written.operation.wait(120)
    assert written.result().collect()[0][0] == 1, "what was done is told"
    page = first.page(0)
    small.kept.forget(first)
    assert second.page(0) == page
    assert spooled(warehouse) == 0
    for kept in (second, written):
        small.kept.forget(kept)
    assert dict(small.kept.usage()) == {}


def test_a_kept_result_that_began_below_its_quota_is_handed_out_whole(small: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped in its middle for good: what lies in the spool still was counted beside the pages made of it."""
    monkeypatch.setattr("gateway.retained_results.Pages", partial(Pages, rows=10))
    monkeypatch.setattr(small._runner.held._memory, "most", 1)
    kept = small.keep(QUERY, caller=ANNA)
    assert kept.operation.wait(120)
    assert kept.page(0)
    assert kept.file_bytes > 0
    small.run("SET QUOTA spool.bytes = 1 FOR USER anna").close()
    with kept.result() as result:
        assert len(result.collect()) == 30


def test_rows_that_were_put_into_the_spool_lie_in_memory_no_more(small: Gateway, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = small._runner.held
    monkeypatch.setattr(held._memory, "most", 1)
    gc.collect()  # what other tests left must not go in between
    before = pa.total_allocated_bytes()
    result = ResultSet.of_strings(["s"], [("x" * 1000,) for _ in range(4000)]).limited(3000)
    assert pa.total_allocated_bytes() - before > 3_000_000
    held.keep(result, ANNA, Cancellation())
    assert spooled(warehouse) == 1
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert (len(result.collect()), result.truncated) == (3000, True)
