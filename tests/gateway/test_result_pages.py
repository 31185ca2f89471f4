"""Pages by token: every row once and in order, the newest page again, older ones empty, others refused."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.page_readers import READERS, PageReaders
from gateway.result_pages import NotReady, Pages
from model.errors import InvalidData, InvalidToken, StatementCanceled
from model.schema.types import BigIntType, VarCharType
from sql.execution.results import ResultColumn, ResultSet
from tests.waiting import eventually

COLUMNS = (ResultColumn("n", BigIntType()),)


def result_of(*sizes: int) -> ResultSet:
    def batches() -> Iterator[pa.RecordBatch]:
        at = 0
        for size in sizes:
            yield pa.RecordBatch.from_arrays([pa.array(range(at, at + size), pa.int64())], names=["n"])
            at += size

    return ResultSet.streaming(COLUMNS, batches)


def numbers(pages: Pages, token: int) -> list[int]:
    return [n for batch in pages.page(token).batches for n in batch.column(0).to_pylist()]


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 15))
def test_walking_the_tokens_gives_every_row_once_in_order(sizes: list[int], rows: int) -> None:
    pages = Pages(result_of(*sizes), rows=rows)
    seen: list[int] = []
    token: int | None = 0
    while token is not None:
        page = pages.page(token)
        assert page.rows <= rows
        assert (page.next_token is None) == (page.rows == 0)
        assert numbers(pages, token) == numbers(pages, token)  # asked again: the same
        seen += numbers(pages, token)
        token = page.next_token
    assert seen == list(range(sum(sizes)))


def test_a_page_read_past_comes_back_empty_with_the_same_next_token() -> None:
    pages = Pages(result_of(10), rows=4)
    pages.page(0)
    pages.page(1)
    again = pages.page(0)
    assert (again.rows, again.next_token) == (0, 1)
    assert numbers(pages, 1) == [4, 5, 6, 7]


@pytest.mark.parametrize("token", [-1, 1, 7])
def test_a_token_never_handed_out_is_refused(token: int) -> None:
    with pytest.raises(InvalidToken, match=f"no result page {token}"):
        Pages(result_of(3)).page(token)


def test_past_the_last_page_there_is_nothing() -> None:
    pages = Pages(result_of(1))
    assert pages.page(0).next_token == 1
    assert pages.page(1).next_token is None
    with pytest.raises(InvalidToken):
        pages.page(2)


def test_pages_are_bounded_by_bytes_too() -> None:
    big = pa.RecordBatch.from_arrays([pa.array(["x" * 1000] * 100)], names=["s"])
    result = ResultSet.streaming([ResultColumn("s", VarCharType())], lambda: iter([big]))
    pages = Pages(result, bytes_=10_500)
    assert 8 <= pages.page(0).rows <= 10


def test_a_failure_while_reading_is_told_again_and_again() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([1], pa.int64())], names=["n"])
        raise InvalidData("broken file")

    pages = Pages(ResultSet.streaming(COLUMNS, batches), rows=1)
    assert numbers(pages, 0) == [1]
    for _ in range(2):
        with pytest.raises(InvalidData, match="broken file"):
            pages.page(1)


def test_the_last_page_frees_the_result() -> None:
    result = result_of(2)
    pages = Pages(result, rows=2)
    pages.page(0)
    assert not result.closed
    pages.page(1)
    assert result.closed


def slow_after_a_row(
    come: threading.Event, begun: list[str], fails: bool = False, *, owner: str = "", readers: PageReaders = READERS
) -> Pages:
    """Pages of a row each, of which the second is there when somebody says so."""

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(2):
            yield pa.RecordBatch.from_arrays([pa.array([n], pa.int64())], names=["n"])
            begun.append(threading.current_thread().name)
            assert come.wait(60)
            if fails:
                raise InvalidData("broken file")

    return Pages(ResultSet.streaming(COLUMNS, batches), owner=owner, rows=1, readers=readers)


def test_pages_are_read_in_turns_and_none_has_all_threads() -> None:
    come, begun = threading.Event(), list[str]()
    readers = PageReaders(4, of_one=2, kept=1)
    of_ada = [slow_after_a_row(come, begun, owner="ada", readers=readers) for _ in range(10)]
    of_bob = slow_after_a_row(come, begun, owner="bob", readers=readers)
    for pages in (*of_ada, of_bob):
        assert numbers(pages, 0) == [0]
    assert [pages.find(1, 0.01, empty=False) for pages in of_ada] == [NotReady()] * 10
    assert of_bob.find(1, 0.01, empty=False) == NotReady()
    assert eventually(lambda: len(begun) == 3, pause=0.01)
    assert of_ada[9].find(1, 0.01, empty=False) == NotReady()
    assert len(begun) == 3, "two of ada, one of bob"
    come.set()
    assert [numbers(pages, 1) for pages in (*of_ada, of_bob)] == [[1]] * 11


def test_rows_that_take_long_come_with_a_later_page() -> None:
    """Who waits on another server, or behind a balancer, gives up after a while; he would have asked for the whole query again."""
    come, begun = threading.Event(), list[str]()
    pages = slow_after_a_row(come, begun)
    assert numbers(pages, 0) == [0]
    assert pages.find(1, 0.01, empty=False) == NotReady()
    page = pages.page(1, seconds=0.01)
    assert (page.rows, page.next_token) == (0, 2)
    assert pages.page(1, seconds=0.01) == page
    assert (pages.page(0).rows, pages.page(0).next_token) == (0, 1)
    come.set()
    assert numbers(pages, 2) == [1]
    assert pages.page(3).next_token is None
    assert len(begun) == 2


def test_a_page_for_which_there_was_no_thread_comes_when_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    come, begun = threading.Event(), list[str]()
    come.set()
    pages = slow_after_a_row(come, begun)

    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "sluice-result-page":  # others of this process start theirs
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            pages.page(0)
    assert numbers(pages, 0) == [0]


def test_all_who_ask_for_a_page_that_takes_long_wait_for_one_thread() -> None:
    """Each repeat of a request held one more thread of the server, for as long as the rows took."""
    come, begun = threading.Event(), list[str]()
    before = set(threading.enumerate())
    pages = slow_after_a_row(come, begun)
    pages.page(0)
    for _ in range(5):
        assert pages.find(1, 0, empty=False) == NotReady()
    assert sum(thread.name == "sluice-result-page" for thread in set(threading.enumerate()) - before) == 1
    got: list[list[int]] = []
    asking = [threading.Thread(target=lambda: got.append(numbers(pages, 1))) for _ in range(3)]
    for thread in asking:
        thread.start()
    come.set()
    for thread in asking:
        thread.join(60)
    assert got == [[1]] * 3


def test_a_failure_that_takes_long_is_told_by_the_page_after() -> None:
    come, begun = threading.Event(), list[str]()
    pages = slow_after_a_row(come, begun, fails=True)
    pages.page(0)
    assert pages.page(1, seconds=0).rows == 0
    come.set()
    for _ in range(2):
        with pytest.raises(InvalidData, match="broken file"):
            pages.page(2)


@pytest.mark.parametrize("being_read", [True, False])
def test_a_result_that_is_closed_lets_go_of_its_rows_once_none_is_read(being_read: bool) -> None:
    asked, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for number in range(3):
                if number == 1:
                    asked.set()
                    assert go_on.wait(60)
                yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["n"])
        finally:
            ended.set()

    result = ResultSet.streaming(COLUMNS, batches)
    pages = Pages(result, rows=1)
    assert numbers(pages, 0) == [0]
    if being_read:
        assert pages.page(1, seconds=0).rows == 0
        assert asked.wait(60)
    result.close()
    assert ended.is_set() is not being_read
    go_on.set()
    assert eventually(ended.is_set)
    if being_read:  # the page that was read then is there
        assert numbers(pages, 2) == [1]
    with pytest.raises(StatementCanceled):
        pages.page(pages._token + 1)
