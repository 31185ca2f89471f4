"""Results of queries that lie in memory until they are read, counted by whose they are; what finds no space there goes to the spool."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.ipc as ipc

from lake import Caller
from model.errors import TooManyStatements
from model.work.shared_bytes import SharedBytes
from sql.execution.cancellation import Cancellation
from sql.execution.reading_memory import ReadingMemories, ReadingMemory, reading_bytes
from sql.execution.results import ResultColumn, ResultSet, result_schema
from sql.execution.spool import Spool, SpoolEntry
from table.format.io.file_io import FileIO
from table.format.io.look_ahead import READ_AHEAD
from table.format.io.storage_errors import translating
from table.format.rows.array_memory import memory_of, memory_of_columns

_log = logging.getLogger(__name__)
_FEW_BYTES = 32 << 20
"""Of rows that are gathered, what is not put into the spool as they come."""
_FILE = "rows.arrow"
_SMALL_BYTES = 1 << 16
"""Smaller results stay in memory twice as long: a file for each costs more than its bytes do."""
_MANY_COLUMNS_BYTES = 1 << 16
"""Columns that take less are counted, and find a place in any case: of some hundreds nobody has so many results at once."""


def is_small(size: int) -> bool:
    """Whether a result of so many bytes is too small for a file of its own."""
    return size < _SMALL_BYTES


class HeldResults:
    """The bytes that results take in memory, of all principals together and of each: of rows that lie there, and of what reads others."""

    def __init__(self, spool: Spool, most: int, most_read: int) -> None:
        """``most`` bytes of rows lie in memory, and reading results takes ``most_read``."""
        self._spool = spool
        self._memory = SharedBytes(most)
        self._reading = ReadingMemories(most_read)

    def usage(self) -> dict[str, int]:
        """Bytes of rows that lie in memory, by principal."""
        return self._memory.usage()

    def reading(self) -> dict[str, int]:
        """Bytes that results take while they are read, by principal."""
        return self._reading.shared.usage()

    def memory(self) -> dict[str, int]:
        """Bytes of all principals, by what for: rows that wait to be read, what reading takes, and files read ahead."""
        used = {"held": self._memory, "read": self._reading.shared, "ahead": READ_AHEAD}
        return {what: sum(memory.usage().values()) for what, memory in used.items()}

    def keep(self, result: ResultSet, caller: Caller, cancellation: Cancellation) -> None:
        """Count a result until it is closed, or put its rows into the spool, and count what reading them takes, until it ends.

        Raises what the spool raises, and `TooManyStatements` where thousands of columns find no space in memory, for queries alone.
        What has changed something is done: its rows never fail it, and stay in memory where the spool takes them not.
        """
        columns = memory_of_columns(len(result.columns))
        size = result.size + columns
        if result.size and self.take(caller.principal, size, of=size):
            result.on_close(lambda: self.give(caller.principal, size))
        else:
            self._keep_columns(result, caller, columns)
            if not result.size:
                pass  # they are made as they are read
            elif result.is_query:
                self._spill(result, caller, cancellation)
            else:
                self._spill_if_possible(result, caller)
        if result.reading_bytes:
            result.memory = ReadingMemory(self._reading, caller.principal, result.reading_bytes)
        if result.steps is not None:
            result.steps.count_in(self._reading, caller.principal)

    def take(self, principal: str, size: int, *, of: int) -> bool:
        """Count so many bytes more of a principal, until `give`; False where there is no space in memory for them.

        ``of`` are those of the whole result, of which these are the last.
        """
        return self._memory.take(principal, size, times=2 if is_small(of) else 1)

    def take_anyway(self, principal: str, size: int) -> None:
        """The same for what finds a place nowhere else, and is not to be lost."""
        self._memory.take_anyway(principal, size)

    def give(self, principal: str, size: int) -> None:
        """So many bytes that were counted are free again."""
        self._memory.give(principal, size)

    def check_files(self, principal: str) -> None:
        """Raise `QuotaExceeded` where a principal's results in files hold as much as they may."""
        self._spool.check_principal(principal)

    def _keep_columns(self, result: ResultSet, caller: Caller, size: int) -> None:
        """Count the columns of a result whose rows lie elsewhere: thousands of them are megabytes that no spool takes."""
        if size < _MANY_COLUMNS_BYTES or not result.is_query:
            self.take_anyway(caller.principal, size)
        elif not self._memory.take(caller.principal, size, times=2):
            result.close()
            raise TooManyStatements(
                f"The results of {caller.principal} that nobody has fetched leave no memory for one with {len(result.columns):,} columns. "
                "Fetch some of them, or close them, and try again."
            )
        result.on_close(lambda: self.give(caller.principal, size))

    def _spill_if_possible(self, result: ResultSet, caller: Caller) -> None:
        size = result.size
        entry: SpoolEntry | None = None
        rows: list[pa.RecordBatch] = []
        try:
            entry = self._spool.new(caller=caller)
            rows = list(result.moved_to(partial(_rows_in, self._spool.file_io, entry.path)))
            _write(self._spool.file_io, entry, result.schema, rows, Cancellation())
            result.on_close(entry.remove)
        except Exception:
            if entry is not None:
                result.moved_to(lambda: iter(rows))
            self.take_anyway(caller.principal, size)
            result.on_close(lambda: self.give(caller.principal, size))
            if entry is not None:
                _remove_if_possible(entry)

    def _spill(self, result: ResultSet, caller: Caller, cancellation: Cancellation) -> None:
        try:
            entry = self._spool.new(cancellation, caller=caller)
            result.on_close(entry.remove)
            rows = partial(_rows_in, self._spool.file_io, entry.path)
            _write(self._spool.file_io, entry, result.schema, result.moved_to(rows), cancellation)
            result.reading_bytes = reading_bytes([entry.bytes])
        except BaseException:
            result.close()
            raise


def gathered(
    spool: Spool, columns: Sequence[ResultColumn], batches: Iterator[pa.RecordBatch], caller: Caller, cancellation: Cancellation
) -> ResultSet:
    """The result of a query whose rows are all read now: in memory while they are few, else in the spool."""
    few: deque[pa.RecordBatch] = deque()
    size = 0
    for batch in batches:
        few.append(batch)
        size += memory_of(batch)
        if size > _FEW_BYTES:
            break
    else:
        return ResultSet.of_batches(columns, few)
    entry = spool.new(cancellation, caller=caller)
    try:
        _write(spool.file_io, entry, result_schema(columns), chain(_taken(few), batches), cancellation)
    except BaseException:
        entry.remove()
        raise
    result = ResultSet.streaming(columns, partial(_rows_in, spool.file_io, entry.path), entry.remove)
    result.reading_bytes = reading_bytes([entry.bytes])
    return result


def _remove_if_possible(entry: SpoolEntry) -> None:
    try:
        entry.remove()
    except Exception:  # the store is away, as it was for the rows: the spool's end takes what lies there
        _log.warning("What was begun of a result in the spool could not be removed", exc_info=True)


def _taken(batches: deque[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while batches:
        yield batches.popleft()


def _write(io: FileIO, entry: SpoolEntry, schema: pa.Schema, batches: Iterable[pa.RecordBatch], cancellation: Cancellation) -> None:
    """Put rows into an entry, where `_rows_in` reads them; raises `ResultTooLarge` and `QuotaExceeded` where they are too many."""
    io.mkdirs(entry.path)
    path = f"{entry.path}/{_FILE}"
    options = ipc.IpcWriteOptions(compression="zstd")
    with translating(path), io.open_output(path) as sink, ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            cancellation.check()
            writer.write_batch(batch)
    entry.finish()


def _rows_in(io: FileIO, directory: str) -> Iterator[pa.RecordBatch]:
    path = f"{directory}/{_FILE}"
    with translating(path), io.open_input(path) as source, ipc.open_stream(source) as reader:
        yield from reader
