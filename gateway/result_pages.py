"""Results as pages by token, the way Flink's gateway hands them out (`gateway.md` 1.2)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TypeAlias

import pyarrow as pa

from gateway.page_readers import READERS, PageReaders
from model.errors import InvalidToken, TooManyStatements
from sql.execution.results import ResultColumn, ResultKind, ResultSet
from table.format.rows.array_memory import memory_of

PAGE_ROWS = 5000
PAGE_BYTES = 4 << 20
"""Arrow bytes of a page; JSON makes a few times as much of it."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """The operation still runs: ask for the same token again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """Some rows of a result; ``next_token`` is None on the last page, which has none."""

    columns: tuple[ResultColumn, ...]
    batches: tuple[pa.RecordBatch, ...]
    next_token: int | None
    kind: ResultKind
    is_query: bool
    job_id: str | None
    notices: tuple[str, ...]
    """What the reader of the result is to know, told with each page."""

    @property
    def rows(self) -> int:
        """How many rows the page has."""
        return sum(batch.num_rows for batch in self.batches)


Fetched: TypeAlias = NotReady | ResultPage
_Rows: TypeAlias = tuple[tuple[pa.RecordBatch, ...], bool]
"""The rows of a page, and whether there is one."""


class Pages:
    """Cuts a result into pages. The newest page may be read again; older ones come back empty.

    The rows of a page are read by one thread (`PageReaders`), for which all who ask for it wait: one that takes long, or waits for its
    turn, holds nobody longer than he wants to wait.
    """

    def __init__(
        self, result: ResultSet, *, owner: str = "", rows: int = PAGE_ROWS, bytes_: int = PAGE_BYTES, readers: PageReaders = READERS
    ) -> None:
        """``owner`` is the principal whose turn it must be for a page to be read."""
        self._result = result
        self._owner = owner
        self._readers = readers
        self._rows = rows
        self._bytes = bytes_
        self._slices = self._sliced()
        self._lock = threading.Lock()
        self._token = -1
        self._page: ResultPage | None = None
        self._held: pa.RecordBatch | None = None
        self._error: Exception | None = None
        self._reading: Future[_Rows] | None = None
        """The next page's rows, while they are read and until a page of them is handed out."""
        self._using = threading.Lock()
        """Held while rows are read."""
        self._cut = False
        """Whether the rows were let go before the last of them was read."""
        result.on_close(self._let_go)

    def page(self, token: int, *, seconds: float | None = None) -> ResultPage:
        """The page of a token; raises `InvalidToken` for one never handed out, or what reading the rows raises.

        `TooManyStatements` comes before the first rows, and may be asked again; whoever waits for seconds only gets none then.

        One whose rows are not there after so many seconds has none, and they come with the next.
        """
        page = self.find(token, seconds, empty=True)
        assert isinstance(page, ResultPage)
        return page

    def find(self, token: int, seconds: float | None, *, empty: bool) -> Fetched:
        """The same; with ``empty`` false `NotReady` while no rows are there, and the token stays to be asked for."""
        with self._lock:
            if (page := self._handed_out(token)) is not None:
                return page
            reading = self._begun()
        wait([reading], seconds)
        with self._lock:
            if (page := self._handed_out(token)) is not None:  # to another who waited
                return page
            try:
                batches, more = self._read(reading)
            except TooManyStatements:
                if seconds is None or self._result.closed:
                    raise
                batches, more = (), True  # there is no memory to read them: whoever comes for more finds some, or waits as long again
            if more and not batches and not empty:
                return NotReady()
            self._token = token
            self._page = self._make(batches, token + 1 if more else None)
            return self._page

    def _handed_out(self, token: int) -> ResultPage | None:
        """A page that was handed out before; None for the next one, of which nothing is known yet."""
        if self._page is not None and token == self._token:
            return self._page
        if 0 <= token < self._token:
            return self._make((), token + 1)
        if token != self._token + 1 or (self._page is not None and self._page.next_token is None):
            raise InvalidToken(f"There is no result page {token}; the newest page handed out is {self._token}.")
        if self._error is not None:
            raise self._error
        return None

    def _begun(self) -> Future[_Rows]:
        """The reading of the next page's rows, which begins where it has not."""
        if self._reading is None:
            reading = Future[_Rows]()
            if self._result.unbounded:  # they come, or say that none came, in a moment
                self._fill(reading)
            else:
                run = contextvars.copy_context().run
                self._readers.read(lambda: run(self._fill, reading), self._owner)
            self._reading = reading  # once it is on its way: where the machine has no thread left, whoever asks again may find one
        return self._reading

    def _fill(self, reading: Future[_Rows]) -> None:
        with self._using:
            try:
                reading.set_result(self._next())
            except BaseException as error:  # told to who waits
                reading.set_exception(error)
        self._let_go()

    def _let_go(self) -> None:
        """Let go of what is open of a closed result, as files and memory that counts, unless it is being read: then who reads does."""
        if not self._using.acquire(blocking=False):
            return
        try:
            if self._result.closed and getgeneratorstate(self._slices) != GEN_CLOSED:
                self._cut = True
                self._slices.close()
                self._held = None
        finally:
            self._using.release()

    def _read(self, reading: Future[_Rows]) -> _Rows:
        """What was read; no rows, and more to come, where the reading goes on, or another has heard that there are none now."""
        if reading is not self._reading or not reading.done():
            return (), True
        self._reading = None
        try:
            return reading.result()
        except Exception as error:
            if not self._result.closed:  # it was refused before it began, for want of memory, and may begin when it is asked for again
                self._slices = self._sliced()
                raise
            self._error = error  # kept: who asks again must not get a page as if nothing had failed
            raise

    def _sliced(self) -> Generator[pa.RecordBatch]:
        return _slices(self._result.batches(again=True), self._rows, self._bytes, ticks=self._result.unbounded)

    def _next(self) -> _Rows:
        """The next page's rows, and whether there is one.

        Of rows without end it is one batch, or none where none came for a moment: asking for a page says that the one before has
        arrived, so the stream must not be asked for more than the page holds.
        """
        if self._cut:
            self._result.check_open()
        if not self._result.unbounded:
            batches = tuple(self._take())
            return batches, bool(batches)
        piece = next(self._slices, None)
        return ((piece,) if piece is not None and piece.num_rows else ()), piece is not None

    def _take(self) -> Iterator[pa.RecordBatch]:
        """Slices that fit one page together; the first always does."""
        rows = size = 0
        while (piece := self._held if self._held is not None else next(self._slices, None)) is not None:
            self._held = piece
            rows, size = rows + piece.num_rows, size + memory_of(piece)
            if rows > self._rows or (size > self._bytes and rows > piece.num_rows):
                return
            self._held = None
            yield piece
            if rows == self._rows:  # full: what comes next, or whether it fails, is the next page's business
                return

    def _make(self, batches: tuple[pa.RecordBatch, ...], next_token: int | None) -> ResultPage:
        result = self._result
        return ResultPage(
            columns=result.columns,
            batches=batches,
            next_token=next_token,
            kind=result.kind,
            is_query=result.is_query,
            job_id=result.job_id,
            notices=result.notices,
        )


def _slices(batches: Iterator[pa.RecordBatch], rows: int, bytes_: int, *, ticks: bool) -> Generator[pa.RecordBatch]:
    """Cut batches so that each piece fits a page; empty ones are left out, except where they say that nothing came."""
    for batch in batches:
        if batch.num_rows == 0:
            if ticks:
                yield batch
            continue
        per_row = max(1, batch.nbytes // batch.num_rows)
        step = max(1, min(rows, bytes_ // per_row))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
