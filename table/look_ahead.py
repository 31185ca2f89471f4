"""Several streams read at once by threads, handed on one after the other, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Thread

import pyarrow as pa

Stream = Callable[[], Iterator[pa.RecordBatch]]


class _Reader:
    """One stream on its own thread; it stops reading while the consumer is ``most_bytes`` behind."""

    def __init__(self, stream: Stream, most_bytes: int) -> None:
        self._stream = stream
        self._most = most_bytes
        self._ready = Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._held = 0
        self._ended = False
        self._cancelled = False
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name="scan", daemon=True)
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
        with self._ready:
            self._ready.wait_for(lambda: self._held < self._most or self._cancelled)
            if self._cancelled:
                return False
            self._batches.append(batch)
            self._held += batch.nbytes
            self._ready.notify_all()
            return True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the stream yields; its failure is raised after the batches before it."""
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._batches or self._ended)
                if not self._batches:
                    if self._failure is not None:
                        raise self._failure
                    return
                batch = self._batches.popleft()
                self._held -= batch.nbytes
                self._ready.notify_all()
            yield batch

    def cancel(self) -> None:
        """Let the thread end at its next batch and wait for it, so that it holds no file afterwards."""
        with self._ready:
            self._cancelled = True
            self._ready.notify_all()
        self._thread.join()


def in_order(streams: Sequence[Stream], *, window: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield all streams' batches in the streams' order while up to ``window`` of them are read, ``most_bytes`` held in all."""
    waiting: deque[_Reader] = deque()
    upcoming = iter(streams)
    try:
        while True:
            while len(waiting) < window and (following := next(upcoming, None)) is not None:
                waiting.append(_Reader(following, most_bytes // window))
            if not waiting:
                return
            yield from waiting[0].batches()
            waiting.popleft()
    finally:
        for reader in waiting:
            reader.cancel()
