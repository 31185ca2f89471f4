"""The memory that results take while they are read, however slowly: bounded over all of them, and for each principal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from model.errors import TooManyStatements
from model.work.fair_share import most_of_one
from model.work.shared_bytes import SharedBytes

_WAIT_SECONDS = 10.0
"""A result that may be asked for again waits so long for memory: rows that are taken quickly leave theirs in less."""
_LAST_WAIT_SECONDS = 60.0
"""One that may not waits so long; where making its rows was work, as long again for a place in twice the memory."""
_BATCH_BYTES = 8 << 20
"""What readers of files give at a time, about, unless nothing but bounds is known of their values."""
_READER_BYTES, _FURTHER_BYTES = 24 << 20, 8 << 20
"""What reading a file takes up to the text of its rows, and reading one more ahead; measured (pages of its columns, a batch, texts)."""
_FILES_AT_ONCE = 4
_UNPACKED_TIMES = 8
"""A small file takes so many times its size, unless its batches show more."""


def reading_bytes(sizes: Iterable[int]) -> int:
    """Bytes of memory that reading files of these sizes takes at a time, about."""
    largest = sorted(sizes, reverse=True)[:_FILES_AT_ONCE]
    return sum(min(_FURTHER_BYTES if at else _READER_BYTES, size * _UNPACKED_TIMES) for at, size in enumerate(largest))


class ReadingMemory:
    """What reading one result takes."""

    def __init__(self, shared: SharedBytes, principal: str, size: int) -> None:
        self._shared, self._principal = shared, principal
        self._size = min(size, most_of_one(shared.most))

    @contextmanager
    def taken(self, check: Callable[[], None], *, again: bool, is_made: bool) -> Iterator[Callable[[int], None]]:
        """Count what reading takes for as long as the block lasts, once there is space for it; gives what is told of each batch's bytes.

        ``again``: whoever reads comes again where it is refused. ``is_made``: refusing one who does not loses work.
        Raises `TooManyStatements` where there is no space for long, and what ``check`` raises meanwhile.
        """
        if not self._wait(check, again=again, is_made=is_made):
            own, most = self._shared.usage().get(self._principal, 0), self._shared.most
            raise TooManyStatements(
                f"The results that are read now take as much memory as they may, {own >> 20:,} MB of it those of {self._principal} "
                f"(SLUICE_RESULTS_READING_BYTES: {most >> 20:,} MB, four fifths of it for one). "
                "Read some of them to their ends, or close them, and try again."
            )
        counted = self._size

        def came(batch_bytes: int) -> None:
            nonlocal counted
            more = self._size + max(0, batch_bytes - _BATCH_BYTES) - counted
            if more > 0:
                counted += more
                self._shared.take_anyway(self._principal, more)

        try:
            yield came
        finally:
            self._shared.give(self._principal, counted)

    def _wait(self, check: Callable[[], None], *, again: bool, is_made: bool) -> bool:
        wait = partial(self._shared.wait, self._principal, self._size)
        if again:
            return wait(_WAIT_SECONDS, check)
        return wait(_LAST_WAIT_SECONDS, check) or (is_made and wait(_LAST_WAIT_SECONDS, check, times=2))
