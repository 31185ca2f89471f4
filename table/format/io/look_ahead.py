"""Several streams read at once by threads, handed on one after the other, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Thread

import pyarrow as pa

from model.work.shared_bytes import SharedBytes
from table.format.io.patience import carried
from table.format.rows.array_memory import memory_of

Stream = Callable[[], Iterator[pa.RecordBatch]]


READ_AHEAD = SharedBytes(256 << 20)
"""What all readers of the process hold ahead of their consumers together, of whom no principal's hold more than four fifths.

A consumer that stands still keeps what was read for it: with a bound for each reader alone, forty of them held gigabytes.
"""


class _Reader:
    """One stream on its own thread; it stops reading while the consumer is ``most_bytes`` behind, or a batch where its share is used."""

    def __init__(self, stream: Stream, most_bytes: int, memory: SharedBytes, principal: str) -> None:
        self._stream = stream
        self._memory, self._principal = memory, principal
        self._most = most_bytes
        self._ready = Condition()
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        """And what each takes."""
        self._held = 0
        self._ended = False
        self._cancelled = False
        self._failure: BaseException | None = None
        self._thread = Thread(target=carried(self._run), name="scan", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            for batch in self._stream():
                if not self._hand_over(batch):
                    break
        except BaseException as problem:  # raised again where the rows are consumed
            failure = problem
        with self._ready:
            self._failure = failure
            self._ended = True
            self._ready.notify_all()

    def _hand_over(self, batch: pa.RecordBatch) -> bool:
        size = memory_of(batch)
        with self._ready:
            self._ready.wait_for(lambda: self._cancelled or self._takes(size))
            if self._cancelled:
                return False
            self._batches.append((batch, size))
            self._held += size
            self._ready.notify_all()
            return True

    def _takes(self, size: int) -> bool:
        """Whether a batch may be held, which then is counted; one that the consumer waits for may in any case."""
        if not self._batches:
            self._memory.take_anyway(self._principal, size)
            return True
        return self._held < self._most and self._memory.take(self._principal, size)

    def _give(self, size: int) -> None:
        self._held -= size
        self._memory.give(self._principal, size)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the stream yields; its failure is raised after the batches before it."""
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._batches or self._ended)
                if not self._batches:
                    if self._failure is not None:
                        raise self._failure
                    return
                batch, size = self._batches.popleft()
                self._give(size)
                self._ready.notify_all()
            yield batch

    def cancel(self) -> None:
        """Let the thread end at its next batch and wait for it, so that it holds no file afterwards."""
        with self._ready:
            self._cancelled = True
            self._batches.clear()
            self._give(self._held)
            self._ready.notify_all()
        self._thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How far streams are read ahead of their consumer."""

    streams: int
    """So many are begun in any case."""
    most_streams: int
    """And so many where what they ask their store for is small."""
    small_bytes: int
    """What the streams beyond the first take from the store together."""
    held_bytes: int
    """Rows held by the first of them, and as many by those beyond."""


def in_order(streams: Sequence[Stream], ahead: Ahead, sizes: Sequence[int] = (), principal: str = "") -> Iterator[pa.RecordBatch]:
    """Yield all streams' batches in the streams' order while several of them are read; ``sizes``: the bytes each takes from its store.

    Without sizes no more are begun than `Ahead.streams`. While the readers hold all that `READ_AHEAD` lets them, all together or those of
    the principal, no stream is begun before the consumer comes to it. Without a name they are the server's own.
    """
    memory = READ_AHEAD
    waiting: deque[tuple[_Reader, int]] = deque()
    most = ahead.most_streams if sizes else ahead.streams
    taken = begun = 0
    try:
        while True:
            while begun < len(streams) and len(waiting) < most and (not waiting or memory.has_space(principal)):
                size = sizes[begun] if sizes else 0
                is_beyond = len(waiting) >= ahead.streams
                if is_beyond and taken + size > ahead.small_bytes:
                    break
                share = ahead.held_bytes // (ahead.most_streams - ahead.streams if is_beyond else ahead.streams)
                waiting.append((_Reader(streams[begun], share, memory, principal), size))
                taken += size
                begun += 1
            if not waiting:
                return
            yield from waiting[0][0].batches()
            taken -= waiting.popleft()[1]
    finally:
        for reader, _ in waiting:
            reader.cancel()
