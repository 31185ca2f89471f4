"""Statements submitted to be asked for later: their results stay, as pages that may be read again, until nobody wants them."""

from __future__ import annotations

import datetime as dt
import io
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.ipc as ipc

from gateway.operation import Operation
from gateway.result_pages import Pages
from lake import Caller
from model.errors import InvalidToken, LakeError, OperationNotExist, TooManyStatements
from model.work.fair_share import may_have_another
from model.work.quota import SPOOL
from sql.execution.held_results import HeldResults, is_small
from sql.execution.results import ResultColumn, ResultSet
from workers.spool import MEMORY_BYTES, BodyFiles, owner_of


class RetainedResult:
    """A statement and, once it has ended, the pages of its result read so far."""

    def __init__(self, operation: Operation, seconds: float, files: BodyFiles, held: HeldResults) -> None:
        self.operation = operation
        self._seconds = seconds
        self._touched = time.monotonic()
        self._lock = threading.Lock()
        self._files = files.of(owner_of(operation.principal))
        self._held = held
        self._taken = 0
        """Bytes of pages in memory, which count there."""
        self._file: IO[bytes] = io.BytesIO()
        """The pages; in memory while they are few and find space there."""
        self.file_bytes = 0
        """Bytes of pages on disk."""
        self._places: list[tuple[int, int]] = []
        self._pages: Pages | None = None
        self._complete = False
        self._closed = False
        operation.on_end(self.touch)

    def touch(self) -> None:
        """Somebody wants it: it stays for its time again."""
        self._touched = time.monotonic()

    @property
    def expired(self) -> bool:
        """Whether it has ended and nobody asked for it for so long."""
        return self.operation.state.terminal and time.monotonic() - self._touched > self._seconds

    @property
    def expires(self) -> dt.datetime | None:
        """When it goes if nobody asks again; None while it runs."""
        if not self.operation.state.terminal:
            return None
        left = self._seconds - (time.monotonic() - self._touched)
        return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=left)

    def columns(self) -> tuple[ResultColumn, ...]:
        """The result's columns; raises what the statement ended with."""
        return self.operation.outcome().columns

    def page(self, number: int) -> tuple[pa.RecordBatch, ...]:
        """The rows of a page, as often as asked; pages end where `has_page` says. Raises `InvalidToken` past the last one."""
        self.touch()
        with self._lock:
            if not self._reach(number):
                raise InvalidToken(f"There is no result page {number}; the result has {max(1, len(self._places))}.")
            return self._read(number)

    def has_page(self, number: int) -> bool:
        """Whether the result goes that far; raises what reading its rows raises."""
        with self._lock:
            return self._reach(number)

    def result(self) -> ResultSet:
        """All rows, from the first, as a result of its own that whoever takes it closes."""
        made = ResultSet.streaming(self.columns(), self._all)
        made.notices = self.operation.outcome().notices
        return made

    def close(self) -> None:
        """Let the result and what it holds on disk go."""
        self.operation.close()
        with self._lock:
            self._closed = True
            self._file.close()
            self.file_bytes = 0
            self._give_back()

    def _all(self) -> Iterator[pa.RecordBatch]:
        number = 0
        while number == 0 or self.has_page(number):
            yield from self.page(number)
            number += 1

    def _reach(self, number: int) -> bool:
        """Read the result up to a page, keeping what comes; the first page is always there, also of no rows."""
        if self._closed:
            raise OperationNotExist("The result was let go while it was read.")
        outcome = self.operation.outcome()
        if self._pages is None:
            self._pages = Pages(outcome, owner=self.operation.principal)
        while not self._complete and len(self._places) <= number:
            page = self._pages.page(len(self._places))
            if page.batches:
                self._keep(outcome.schema, page.batches)
            self._complete = page.next_token is None
        return number == 0 or number < len(self._places)

    def _keep(self, schema: pa.Schema, batches: tuple[pa.RecordBatch, ...]) -> None:
        with pa.BufferOutputStream() as sink:
            with ipc.new_stream(sink, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            page = sink.getvalue().to_pybytes()
        start = self._file.seek(0, os.SEEK_END)
        size = start + len(page)
        may_stay = isinstance(self._file, io.BytesIO) and size <= MEMORY_BYTES
        stays = may_stay and self._held.take(self.operation.principal, len(page), of=size)
        try:
            # What began is handed out whole: its rows may lie in the spool, too, and are counted there.
            if not stays and not self.file_bytes:
                self._held.check_files(self.operation.principal)
            self._file = self._files.add(self._file, page, in_memory=MEMORY_BYTES if stays else 0)
        except LakeError:
            if not (may_stay and is_small(size)):
                raise
            # What the statement did is done, and its answer may be these few bytes: no want of files keeps them from whoever asks.
            self._held.take_anyway(self.operation.principal, len(page))
            self._file = self._files.add(self._file, page)
            stays = True
        if stays:
            self._taken += len(page)
        else:
            self.file_bytes = size
            self._give_back()
        self._places.append((start, len(page)))

    def _give_back(self) -> None:
        taken, self._taken = self._taken, 0
        if taken:
            self._held.give(self.operation.principal, taken)

    def _read(self, number: int) -> tuple[pa.RecordBatch, ...]:
        if number >= len(self._places):
            return ()
        start, length = self._places[number]
        self._file.seek(start)
        with ipc.open_stream(self._file.read(length)) as reader:
            return tuple(reader)


class RetainedResults:
    """All that were submitted to be asked for later."""

    def __init__(self, files: BodyFiles, held: HeldResults, *, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._files = files.kept()
        self._held = held
        self._most = most
        self._kept: dict[str, RetainedResult] = {}
        self._lock = threading.Lock()

    def add(self, operation: Operation) -> RetainedResult:
        """Keep a statement from now on; raises `TooManyStatements` where no more can be kept, or no more of its principal."""
        statement = RetainedResult(operation, self._seconds, self._files, self._held)
        with self._lock:
            own = sum(retained.operation.principal == operation.principal for retained in self._kept.values())
            if not may_have_another(own, len(self._kept), self._most):
                full = len(self._kept) >= self._most
                which = f"{self._most} statements are" if full else f"{own} statements of {operation.principal} are"
                rest = "" if full else f", and the rest of the {self._most} places is for others"
                raise TooManyStatements(
                    f"{which} kept already{rest}; DELETE /statements/{{id}} lets one go, and each goes by itself {self._seconds:g} s after "
                    "it was last asked for."
                )
            self._kept[operation.handle] = statement
        return statement

    def usage(self) -> dict[tuple[str, str], int]:
        """Bytes of pages on disk, by (principal, quota)."""
        usage = Counter[tuple[str, str]]()
        with self._lock:
            for retained in self._kept.values():
                usage[(retained.operation.principal, SPOOL)] += retained.file_bytes
        return usage

    def find(self, name: str, caller: Caller) -> RetainedResult | None:
        """The caller's statement of this handle or name; others may bear the same name."""
        with self._lock:
            own = (retained for retained in reversed(self._kept.values()) if retained.operation.owner.admits(caller.owner))
            statement = self._kept.get(name)
            if statement is None or not statement.operation.owner.admits(caller.owner):
                statement = next((retained for retained in own if retained.operation.name == name), None)
        if statement is not None:
            statement.touch()
        return statement

    def get(self, name: str, caller: Caller) -> RetainedResult:
        """The same; raises `OperationNotExist`."""
        statement = self.find(name, caller)
        if statement is None:
            raise OperationNotExist(f"No statement {name} of yours is kept.")
        return statement

    def forget(self, statement: RetainedResult) -> None:
        """Let one go, its result with it."""
        with self._lock:
            self._kept.pop(statement.operation.handle, None)
        statement.close()

    def expire(self) -> None:
        """Let those go that nobody asks for."""
        with self._lock:
            expired = [statement for statement in self._kept.values() if statement.expired]
        for statement in expired:
            self.forget(statement)

    def close(self) -> None:
        """Let all go."""
        with self._lock:
            statements = list(self._kept.values())
        for statement in statements:
            self.forget(statement)
