"""Results that are read as they are made take memory while their reader stands still: counted by whose they are, and bounded."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import cast

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from gateway.result_pages import PAGE_ROWS, ResultPage
from lake import Caller
from model.errors import StatementCanceled, TooManyStatements
from model.schema.types import BigIntType, IntType
from sql.execution import held_results, reading_memory
from sql.execution.results import ResultColumn, ResultSet
from sql.local import tail
from tests.fix_gateway import Ask
from tests.waiting import eventually

ANNA = Caller(principal="anna", administrator=True)
BEN = Caller(principal="ben", administrator=True)


@pytest.fixture(autouse=True)
def rows(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table; nobody waits for memory, no result is small, and what is gathered goes to the spool."""
    monkeypatch.setattr(reading_memory, "_WAIT_SECONDS", 0)
    monkeypatch.setattr(reading_memory, "_LAST_WAIT_SECONDS", 0)
    monkeypatch.setattr(reading_memory, "_SMALL_BYTES", 0)
    monkeypatch.setattr(held_results, "_FEW_BYTES", 100)
    ask("CREATE TABLE t (id INT, s STRING)")
    ask("INSERT INTO t VALUES " + ", ".join(f"({number}, 'some text of row {number}')" for number in range(50)))


SCAN, GATHERED = "SELECT id, s FROM t", "SELECT id, s FROM t$audit_log"


def begun(gateway: Gateway, text: str, caller: Caller, max_rows: int | None = None) -> tuple[ResultSet, Generator[pa.RecordBatch]]:
    result = gateway.run(text, caller=caller, max_rows=max_rows)
    batches = cast("Generator[pa.RecordBatch]", result.batches())
    next(batches)
    return result, batches


def room_for(gateway: Gateway, text: str, count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Memory for so many such results of one principal; returns what each takes."""
    _, batches = begun(gateway, text, ANNA)
    size = gateway._runner.held.reading()["anna"]
    batches.close()
    monkeypatch.setattr(gateway._runner.held._reading.shared, "most", size * count * 5 // 4)
    return size


@pytest.mark.parametrize(("text", "most"), [(SCAN, 4), (f"{SCAN} WHERE id > 3", 4), (f"{SCAN} LIMIT 7", 4), (GATHERED, 8)])
def test_readers_that_stand_still_are_bounded_for_each(gateway: Gateway, text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were work to make, and nobody comes back for, find twice the memory, and no more."""
    size = room_for(gateway, text, 4, monkeypatch)
    assert size > 100
    still = [begun(gateway, text, ANNA) for _ in range(most)]
    with pytest.raises(TooManyStatements, match="SLUICE_RESULTS_READING_BYTES"):
        begun(gateway, text, ANNA)
    begun(gateway, text, BEN)[1].close()
    gateway.run("SHOW TABLES", caller=ANNA).collect()
    still.pop()[1].close()
    assert len(gateway.run(text, caller=ANNA).collect()) >= 7
    for _, batches in still:
        batches.close()
    assert gateway._runner.held.reading() == {}


def test_streams_that_stand_still_in_a_large_step_are_bounded_and_go_on(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind in a table's past waits for memory, without a thread; one that has caught up holds none."""
    monkeypatch.setattr(tail, "_SHARED_BYTES", 0)
    memory = gateway._runner.held

    def stream(caller: Caller) -> Generator[pa.RecordBatch]:
        result = gateway.run(f"SET 'execution.runtime-mode' = 'streaming'; {SCAN}", caller=caller)
        assert result.waiting is not None
        result.waiting.never_wait()
        return cast("Generator[pa.RecordBatch]", result.batches())

    def rows(batches: Generator[pa.RecordBatch]) -> int:
        """Of the first batch that has some, where there is one soon."""
        return next((batch.num_rows for batch in islice(batches, 100) if batch.num_rows), 0)

    still = [stream(ANNA)]
    assert rows(still[0]) == 50
    size = memory.reading()["anna"]
    monkeypatch.setattr(memory._reading.shared, "most", size * 4 * 5 // 4)
    still += [stream(ANNA) for _ in range(3)]
    assert [rows(batches) for batches in still[1:]] == [50] * 3
    late, other = stream(ANNA), stream(BEN)
    assert (rows(late), rows(other)) == (0, 50)
    assert memory.reading() == {"anna": 4 * size, "ben": size}
    assert next(still[0]).num_rows == 0  # it has read the step, and waits for the next one
    assert (rows(late), memory.reading()["anna"]) == (50, 4 * size)
    for batches in (*still, late, other):
        batches.close()
    assert memory.reading() == {}


def to_the_end(result: ResultSet, batches: Generator[pa.RecordBatch]) -> None:
    assert list(batches) is not None


def given_up(result: ResultSet, batches: Generator[pa.RecordBatch]) -> None:
    batches.close()


def closed_while_read(result: ResultSet, batches: Generator[pa.RecordBatch]) -> None:
    result.close()
    with pytest.raises(StatementCanceled):
        list(batches)


def thrown(result: ResultSet, batches: Generator[pa.RecordBatch]) -> None:
    with pytest.raises(OSError, match="of a test"):
        batches.throw(OSError("of a test"))


@pytest.mark.parametrize("end", [to_the_end, given_up, closed_while_read, thrown])
@pytest.mark.parametrize(("text", "max_rows"), [(SCAN, None), (GATHERED, None), (SCAN, 3)])
def test_memory_is_given_back_however_reading_ends(
    gateway: Gateway, text: str, max_rows: int | None, end: Callable[[ResultSet, Generator[pa.RecordBatch]], None]
) -> None:
    result, batches = begun(gateway, text, ANNA, max_rows)
    assert gateway._runner.held.reading()["anna"] > 0
    end(result, batches)
    del batches
    assert gateway._runner.held.reading() == {}


def test_a_result_that_is_closed_counts_as_long_as_its_reader_holds_rows(gateway: Gateway) -> None:
    """Whoever cancels statements while their connections stand still would have any number of them."""
    result, batches = begun(gateway, SCAN, ANNA)
    result.close()
    assert gateway._runner.held.reading()["anna"] > 0
    del batches
    assert gateway._runner.held.reading() == {}


def test_rows_that_unpack_to_more_than_their_file_count_as_what_they_take() -> None:
    """A file of some kilobytes may hold one text a million times."""
    memories = reading_memory.ReadingMemories(200 << 20)
    shared = memories.shared
    few, many = pa.record_batch({"n": pa.nulls(8, pa.int64())}), pa.record_batch({"n": pa.nulls(4 << 20, pa.int64())})
    result = ResultSet.streaming([ResultColumn("n", BigIntType())], lambda: iter((few, many, few)))
    result.memory = reading_memory.ReadingMemory(memories, "anna", 1_000)
    batches = result.batches()
    counted = [(next(batches).nbytes, shared.usage()["anna"]) for _ in range(3)]
    assert counted[0][1] == 1_000
    assert many.nbytes - (8 << 20) < counted[1][1] <= many.nbytes + 3_000
    assert next(batches, None) is None
    assert shared.usage() == {}


def test_a_row_of_many_columns_counts_while_it_is_read_with_its_arrays() -> None:
    """One of 9,000 takes 7 MB and counted as 45 kB."""
    memories = reading_memory.ReadingMemories(200 << 20)
    wide = pa.record_batch({f"n{number}": pa.array([number], pa.int32()) for number in range(20_000)})
    result = ResultSet.streaming([ResultColumn(name, IntType()) for name in wide.schema.names], lambda: iter((wide,)))
    result.memory = reading_memory.ReadingMemory(memories, "anna", 1_000)
    batches = result.batches()
    next(batches)
    assert memories.shared.usage()["anna"] > 7 << 20
    assert next(batches, None) is None


def test_few_rows_of_many_columns_are_no_small_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is full those are read at once and held."""
    monkeypatch.setattr(reading_memory, "_SMALL_BYTES", 1 << 20)
    memories = reading_memory.ReadingMemories(200 << 20)
    memory = reading_memory.ReadingMemory(memories, "anna", 64 << 20)
    wide = pa.record_batch({f"n{number}": pa.array([number], pa.int32()) for number in range(2_000)})
    assert memory._few(lambda: iter((wide.select([0]),)), lambda: None, again=True) is not None
    assert memory._few(lambda: iter((wide,)), lambda: None, again=True) is None


def refused(gateway: Gateway, text: str, monkeypatch: pytest.MonkeyPatch) -> Generator[pa.RecordBatch]:
    """The reader of another result that has all of one's memory, so that anna's next is refused; closing it lets it in."""
    room_for(gateway, text, 1, monkeypatch)
    return begun(gateway, text, ANNA)[1]


@pytest.mark.parametrize("text", [SCAN, GATHERED])
def test_a_kept_result_that_is_refused_is_read_when_it_is_asked_for_again(
    gateway: Gateway, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What made its rows may have taken an hour."""
    still = refused(gateway, text, monkeypatch)
    kept = gateway.keep(text, caller=ANNA)
    kept.operation.wait_to_end()
    for _ in range(2):
        with pytest.raises(TooManyStatements, match="SLUICE_RESULTS_READING_BYTES"):
            kept.page(0)
    still.close()
    assert sum(batch.num_rows for batch in kept.page(0)) == 50
    assert not kept.has_page(1)
    assert gateway._runner.held.reading() == {}


@pytest.mark.parametrize("text", [SCAN, GATHERED])
def test_a_page_of_a_session_that_finds_no_memory_has_no_rows_yet(gateway: Gateway, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink's clients close an operation of which a page fails."""
    still = refused(gateway, text, monkeypatch)
    session = gateway.open_session(caller=ANNA)
    operation = gateway.submit(session, text, caller=ANNA)
    first = gateway.fetch(session, operation, 0, wait=60, seconds=60)
    assert isinstance(first, ResultPage)
    assert (first.rows, first.next_token) == (0, 1)
    still.close()
    second = gateway.fetch(session, operation, 1, seconds=60)
    assert isinstance(second, ResultPage)
    assert second.rows == 50


def test_rows_that_were_work_to_make_find_place_where_those_that_were_not_are_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = refused(gateway, GATHERED, monkeypatch)
    assert len(gateway.run(GATHERED, caller=ANNA).collect()) == 50
    with pytest.raises(TooManyStatements):
        gateway.run(SCAN, caller=ANNA).collect()
    still.close()
    assert gateway._runner.held.reading() == {}


def deleted(gateway: Gateway, session: str, operation: str) -> None:
    gateway.cancel(session, operation)


def ended(gateway: Gateway, session: str, operation: str) -> None:
    gateway.close_session(session)


@pytest.mark.parametrize("end", [deleted, ended])
def test_closing_a_result_of_which_pages_were_read_gives_its_memory_back(
    gateway: Gateway, end: Callable[[Gateway, str, str], None]
) -> None:
    """A session keeps its operations, and what read their pages, until it ends."""
    gateway.run("INSERT INTO t VALUES " + ", ".join(f"({number}, 'x')" for number in range(2 * PAGE_ROWS))).close()
    session = gateway.open_session(caller=ANNA)
    operation = gateway.submit(session, SCAN, caller=ANNA)
    first = gateway.fetch(session, operation, 0, wait=60)
    assert isinstance(first, ResultPage)
    assert first.rows > 0
    assert gateway._runner.held.reading()["anna"] > 0
    pages = gateway._sessions.get(session).operation(operation).pages()
    end(gateway, session, operation)
    assert gateway._runner.held.reading() == {}
    with pytest.raises(StatementCanceled):
        pages.page(1)


LOOKUPS = [f"{SCAN} WHERE id = 7", f"{SCAN} LIMIT 1", "SELECT id, s FROM t$audit_log WHERE id = 7"]


@pytest.mark.parametrize("max_rows", [None, 10])
@pytest.mark.parametrize("text", LOOKUPS)
def test_a_lookup_goes_on_where_its_user_s_large_results_stand_still(
    gateway: Gateway, text: str, max_rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = refused(gateway, SCAN, monkeypatch)
    taken = gateway._runner.held.reading()
    monkeypatch.setattr(reading_memory, "_SMALL_BYTES", 3_000)
    assert len(gateway.run(text, caller=ANNA, max_rows=max_rows).collect()) == 1
    with pytest.raises(TooManyStatements):
        gateway.run(SCAN, caller=ANNA).collect()
    assert (gateway._runner.held.reading(), gateway._runner.held._reading.brief.usage()) == (taken, {})
    still.close()


@pytest.mark.parametrize("max_rows", [None, 20])
def test_a_result_that_is_not_small_is_read_from_its_first_row_once_there_is_space(
    gateway: Gateway, max_rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = refused(gateway, SCAN, monkeypatch)
    monkeypatch.setattr(reading_memory, "_LAST_WAIT_SECONDS", 60)
    rows = gateway.run(SCAN, caller=ANNA, max_rows=max_rows)
    with ThreadPoolExecutor(1) as threads:
        coming = threads.submit(rows.collect)
        assert eventually(lambda: "anna" in gateway._runner.held._reading.shared._waiting)
        still.close()
        assert [row[0] for row in coming.result()] == list(range(max_rows or 50))
    assert rows.truncated is (max_rows is not None)
    assert gateway._runner.held.reading() == {}


def test_what_takes_little_waits_for_nobody(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    still = refused(gateway, SCAN, monkeypatch)
    taken = gateway._runner.held.reading()
    monkeypatch.setattr(reading_memory, "_SMALL_BYTES", 1 << 20)
    _, batches = begun(gateway, SCAN, ANNA)
    assert gateway._runner.held.reading() == taken
    batches.close()
    still.close()


def test_large_batches_of_what_was_to_take_little_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_memory, "_SMALL_BYTES", 1 << 20)
    memories = reading_memory.ReadingMemories(200 << 20)
    few, many = pa.record_batch({"n": pa.nulls(8, pa.int64())}), pa.record_batch({"n": pa.nulls(512 << 10, pa.int64())})
    result = ResultSet.streaming([ResultColumn("n", BigIntType())], lambda: iter((few, many, few)))
    result.memory = reading_memory.ReadingMemory(memories, "anna", 1_000)
    counted = [memories.shared.usage().get("anna", 0) for _ in result.batches()]
    assert (counted[0], counted[1] > 3 << 20, memories.shared.usage()) == (0, True, {})


def test_what_fails_while_it_is_found_out_to_be_small_fails_as_any_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Generator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise OSError("of a test")

    monkeypatch.setattr(reading_memory, "_SMALL_BYTES", 3_000)
    memories, told = reading_memory.ReadingMemories(1_000), list[BaseException]()
    memories.shared.take_anyway("anna", 900)
    result = ResultSet.streaming([ResultColumn("n", BigIntType())], broken)
    result.memory, result.on_failure = reading_memory.ReadingMemory(memories, "anna", 800), told.append
    with pytest.raises(OSError, match="of a test"):
        list(result.batches())
    assert ([str(problem) for problem in told], result.closed) == (["of a test"], True)
    assert (memories.shared.usage(), memories.brief.usage()) == ({"anna": 900}, {})
