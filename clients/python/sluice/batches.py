"""The rows of a streaming query, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from sluice.errors import Warning  # noqa: A004 - PEP 249's name


class Batches:
    """An iterator that closing ends; made by `Connection.stream`."""

    def __init__(
        self,
        next_batch: Callable[[], pa.RecordBatch | None],
        close: Callable[[], None],
        messages: tuple[tuple[type[Warning], Warning], ...],
    ) -> None:
        self._next_batch = next_batch
        self._close = close
        self.messages = messages
        """What the server told beside the rows, as a cursor's ``messages``."""

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        if (batch := self._next_batch()) is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the query."""
        self._close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
