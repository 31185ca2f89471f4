"""The memory that results take while they are read, however slowly: bounded over all of them, and for each principal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.ipc as ipc

from model.errors import TooManyStatements
from model.work.fair_share import most_of_one
from model.work.shared_bytes import SharedBytes
from table.format.rows.array_memory import memory_of

_WAIT_SECONDS = 10.0
"""A result that may be asked for again waits so long for memory: rows that are taken quickly leave theirs in less."""
_LAST_WAIT_SECONDS = 60.0
"""One that may not waits so long; where making its rows was work, as long again for a place in twice the memory."""
_BATCH_BYTES = 8 << 20
"""What readers of files give at a time, about, unless nothing but bounds is known of their values."""
_READER_BYTES, _FURTHER_BYTES = 24 << 20, 8 << 20
"""What reading a file takes up to the text of its rows, and reading one more ahead; measured (pages of its columns, a batch, texts)."""
_FILES_AT_ONCE = 4
_SMALL_BYTES = 1 << 20
"""Results that take less wait for nobody."""
_UNPACKED_TIMES = 8
"""A small file takes so many times its size, unless its batches show more."""


def reading_bytes(sizes: Iterable[int]) -> int:
    """Bytes of memory that reading files of these sizes takes at a time, about."""
    largest = sorted(sizes, reverse=True)[:_FILES_AT_ONCE]
    return sum(min(_FURTHER_BYTES if at else _READER_BYTES, size * _UNPACKED_TIMES) for at, size in enumerate(largest))


Came: TypeAlias = Callable[[int], None]
"""What is told the bytes of each batch."""


def uncounted(_: int) -> None:
    """Where the bytes of batches do not count."""


class ReadingMemories:
    """The memory of all results that are read."""

    def __init__(self, most: int) -> None:
        """``most`` bytes, and half as many more for finding out which results are small, which no client that is slow holds."""
        self.shared = SharedBytes(most)
        self.brief = SharedBytes(most // 2)


class ReadingMemory:
    """What reading one result takes."""

    def __init__(self, memories: ReadingMemories, principal: str, size: int) -> None:
        self._shared, self._brief, self._principal = memories.shared, memories.brief, principal
        self._size = min(size, most_of_one(self._shared.most))

    @contextmanager
    def taken(
        self, open_batches: Callable[[], Iterator[pa.RecordBatch]], check: Callable[[], None], *, again: bool, is_made: bool
    ) -> Iterator[tuple[list[pa.RecordBatch] | None, Came]]:
        """Count what reading takes for as long as the block lasts, once there is space for it.

        What takes little is counted only once it has large batches. Where there is no space the batches are read here, as far as they are
        few: all those of a small result are given, and any other waits for space, to be read from its first.
        ``again``: whoever reads comes again where it is refused. ``is_made``: refusing one who does not loses work.
        Raises `TooManyStatements` where there is no space for long, and what ``check`` raises meanwhile.
        """
        counted, unseen = self._size, _BATCH_BYTES
        if self._size < _SMALL_BYTES:
            counted, unseen = 0, _SMALL_BYTES
        elif not self._shared.wait(self._principal, self._size, 0, check):
            if (few := self._few(open_batches, check, again)) is not None:
                yield few, uncounted
                return
            if not self._wait(check, again=again, is_made=is_made):
                own, most = self._shared.usage().get(self._principal, 0), self._shared.most
                raise TooManyStatements(
                    f"The results that are read now take as much memory as they may, {own >> 20:,} MB of it those of {self._principal} "
                    f"(SLUICE_RESULTS_READING_BYTES: {most >> 20:,} MB, four fifths of it for one). "
                    "Read some of them to their ends, or close them, and try again."
                )
        least = counted

        def came(batch_bytes: int) -> None:
            nonlocal counted
            more = least + max(0, batch_bytes - unseen) - counted
            if more > 0:
                counted += more
                self._shared.take_anyway(self._principal, more)

        try:
            yield None, came
        finally:
            if counted:
                self._shared.give(self._principal, counted)

    def _wait(self, check: Callable[[], None], *, again: bool, is_made: bool) -> bool:
        wait = partial(self._shared.wait, self._principal, self._size)
        if again:
            return wait(_WAIT_SECONDS, check)
        return wait(_LAST_WAIT_SECONDS, check) or (is_made and wait(_LAST_WAIT_SECONDS, check, times=2))

    def _few(
        self, open_batches: Callable[[], Iterator[pa.RecordBatch]], check: Callable[[], None], again: bool
    ) -> list[pa.RecordBatch] | None:
        """All batches, with nothing left open; None where they are not few, or could not be read now."""
        size = min(self._size, most_of_one(self._brief.most))
        if not self._brief.wait(self._principal, size, _WAIT_SECONDS if again else _LAST_WAIT_SECONDS, check):
            return None
        few, total = list[pa.RecordBatch](), 0
        try:
            for batch in open_batches():
                total += memory_of(batch)
                if total >= _SMALL_BYTES:
                    return None
                few.append(ipc.read_record_batch(batch.serialize(), batch.schema))  # a slice would keep all that it is cut from
                check()
            return few
        finally:
            self._brief.give(self._principal, size)


class StepMemory:
    """What a result without end takes for one step of what it reads after the other; before `count_in` nothing is counted."""

    def __init__(self) -> None:
        self._counted: tuple[SharedBytes, str] | None = None

    def count_in(self, memories: ReadingMemories, principal: str) -> None:
        """Count it as what a principal's results take."""
        self._counted = memories.shared, principal

    def take(self, size: int) -> Callable[[], None] | None:
        """Count so many bytes until what this gives is called; None where there is no space for them now."""
        if self._counted is None or size < _SMALL_BYTES:
            return lambda: None
        shared, principal = self._counted
        size = min(size, most_of_one(shared.most))
        return partial(shared.give, principal, size) if shared.take(principal, size) else None
