"""Rows a client sends over Flight, as the messages they come in: handed to workers undecoded.

A message of 4 KB may unfold to gigabytes. How large it becomes stands in its header and in front of each compressed buffer; Arrow believes
both before it unfolds anything, so that of parameters, which come back, they are added up first.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO

import pyarrow as pa

from model.errors import BadRequest, StatementTooLarge
from sql.execution.array_memory import ARRAY_BYTES, BATCH_BYTES
from workers.arrow import ArrowReader
from workers.spool import BodyFiles

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
"""Numbers of ``MessageHeader`` in Arrow's `Message.fbs`."""
_END = b"\xff\xff\xff\xff\0\0\0\0"
_LONGEST_HEADER = 4 << 20
"""A batch of tens of thousands of columns."""
_FEW_ROWS, _FEW_BYTES = 10_000, 1 << 20
"""Of what an INSERT … VALUES with parameters may hold at most, about."""
PLACE_BYTES = 64 << 20
PLACE_ROWS = 1_000_000
"""Parameters that stay in this process take no more, all batches of a call together."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an Arrow stream."""

    header: bytes
    body: bytes

    @property
    def kind(self) -> int:
        """The number of its header's type; raises `BadRequest` for bytes that are none."""
        return _root(self.header).number("B", 1)

    @property
    def rows(self) -> int:
        """Rows of a batch; 0 for anything else."""
        return self._batch.number("q", 0) if self.kind == _BATCH else 0

    @property
    def is_compressed(self) -> bool:
        """Whether a batch's buffers have to be unfolded."""
        return self._batch.has(3)

    def place_bytes(self) -> int:
        """What it takes as a batch beside its buffers."""
        return BATCH_BYTES + ARRAY_BYTES * self._batch.count(1) if self.kind in (_DICTIONARY, _BATCH) else 0

    def unfolded_bytes(self) -> int:
        """What its buffers take once they are decompressed; raises `BadRequest` for a header that does not fit its body."""
        if self.kind not in (_DICTIONARY, _BATCH):
            return 0
        if _root(self.header).number("q", 3) != len(self.body):
            raise BadRequest("The rows cannot be read: a message's body is not as long as its header says.")
        batch, total, compressed = self._batch, 0, self.is_compressed
        for offset, length in batch.pairs(2):
            if offset < 0 or length < 0:
                raise BadRequest("The rows cannot be read: a buffer begins or ends before its message.")
            if compressed and length:
                unfolded = _number("q", self.body, offset)
                length = length - 8 if unfolded == -1 else unfolded
                if length < 0:
                    raise BadRequest("The rows cannot be read: a compressed buffer tells a negative size.")
            total += length
        return total

    def framed(self) -> Iterator[bytes]:
        """Its bytes in an Arrow IPC stream."""
        padding = -len(self.header) % 8
        yield struct.pack("<iI", -1, len(self.header) + padding) + self.header + bytes(padding)
        if self.body:
            yield self.body

    @property
    def _batch(self) -> _Table:
        header = _root(self.header).table(2)
        return header.table(1) if self.kind == _DICTIONARY else header


class ReceivedRows:
    """A stream of messages, to be read once."""

    def __init__(self, messages: Iterable[Message], most_bytes: int, reader: ArrowReader, owner: str) -> None:
        """``most_bytes`` bounds the stream as it comes; the ``reader`` reads for the principal that is the ``owner``."""
        self._messages = iter(messages)
        self._most_bytes = most_bytes
        self._reader = reader
        self._owner = owner

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns; raises `BadRequest` where the stream does not begin with them, `InvalidData` for a name that is no text."""
        return self._reader.schema([*self._first.framed(), _END], self._owner)

    @cached_property
    def _first(self) -> Message:
        first = next(self._messages, None)
        if first is None or first.kind != _SCHEMA:
            raise BadRequest("The rows cannot be read: their stream does not begin with a schema.")
        return first

    def several(self) -> bool:
        """Whether there is more than one row; looks two batches ahead at most."""
        ahead: list[Message] = []
        for message in self._messages:
            ahead.append(message)
            if sum(batch.rows for batch in ahead) > 1 or len(ahead) > 2:
                break
        self._messages = itertools.chain(ahead, self._messages)
        return sum(batch.rows for batch in ahead) > 1

    def few(self) -> bool:
        """Whether the rows are so few that they might be one statement; looks no further ahead."""
        ahead: list[Message] = []
        rows = size = 0
        for message in self._messages:
            ahead.append(message)
            rows, size = rows + message.rows, size + len(message.header) + len(message.body)
            if rows > _FEW_ROWS or size > _FEW_BYTES:
                break
        self._messages = itertools.chain(ahead, self._messages)
        return rows <= _FEW_ROWS and size <= _FEW_BYTES

    def as_file(self, files: BodyFiles) -> IO[bytes]:
        """The stream as a file for a worker.

        It begins with the client's own message of the columns: that gives dictionaries the numbers by which those come, which are anything.
        """
        return files.spooled_parts(itertools.chain(self._first.framed(), self._counted(), [_END]))

    def batches(self) -> list[pa.RecordBatch]:
        """All rows, validated, in one batch, or none; raises `StatementTooLarge` past what is taken into this process."""
        return self._reader.rows(list(self._in_place()), self._owner)

    def _in_place(self) -> Iterator[bytes]:
        """The stream, once none of its messages tells that it takes too much."""
        yield from self._first.framed()
        rows = sent = size = arrays = 0
        for message in self._messages:
            rows += message.rows
            sent += len(message.header) + len(message.body)
            size += message.unfolded_bytes()
            arrays = max(arrays, message.place_bytes())  # once: all rows come back in one batch
            if rows > PLACE_ROWS or max(sent, size + arrays) > PLACE_BYTES:
                raise StatementTooLarge(
                    f"The parameters are more than {PLACE_ROWS} rows, or more than {PLACE_BYTES} bytes: as they were sent, or decompressed "
                    f"with {ARRAY_BYTES} for each column. Send them in parts, or ingest rows."
                )
            yield from message.framed()
        yield _END

    def _counted(self) -> Iterator[bytes]:
        size = 0
        for message in self._messages:
            for part in message.framed():
                size += len(part)
                if size > self._most_bytes:
                    raise StatementTooLarge(
                        f"The rows are more than the {self._most_bytes} bytes this server takes at once; send them in parts."
                    )
                yield part


def file_of(files: BodyFiles, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> IO[bytes]:
    """Batches that were decoded already as a file for a worker."""
    return files.spooled_parts(itertools.chain([bytes(schema.serialize())], (bytes(batch.serialize()) for batch in batches), [_END]))


class _Table:
    """A table of a flatbuffer, read as Arrow's own reader does; everything outside the bytes is a `BadRequest`."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - _number("i", data, at)
        self._size = _number("H", data, self._fields)

    def has(self, slot: int) -> bool:
        """Whether the field is there."""
        return self._where(slot) is not None

    def number(self, kind: str, slot: int) -> int:
        """A number; 0 where it is left out."""
        where = self._where(slot)
        return 0 if where is None else _number(kind, self._data, where)

    def table(self, slot: int) -> _Table:
        """Another table."""
        where = self._where(slot)
        if where is None:
            raise _damaged()
        return _Table(self._data, where + _number("I", self._data, where))

    def pairs(self, slot: int) -> Iterator[tuple[int, int]]:
        """A vector of two 64-bit numbers each."""
        where = self._where(slot)
        if where is None:
            return
        start = where + _number("I", self._data, where)
        for number in range(_number("I", self._data, start)):
            at = start + 4 + 16 * number
            yield _number("q", self._data, at), _number("q", self._data, at + 8)

    def count(self, slot: int) -> int:
        """How many a vector has."""
        where = self._where(slot)
        return 0 if where is None else _number("I", self._data, where + _number("I", self._data, where))

    def _where(self, slot: int) -> int | None:
        place = 4 + 2 * slot
        offset = _number("H", self._data, self._fields + place) if place + 2 <= self._size else 0
        return self._at + offset if offset else None


def _root(data: bytes) -> _Table:
    if len(data) > _LONGEST_HEADER:
        raise BadRequest(f"The rows cannot be read: a message's header is longer than {_LONGEST_HEADER} bytes.")
    return _Table(data, _number("I", data, 0))


def _number(kind: str, data: bytes, at: int) -> int:
    if at < 0:
        raise _damaged()
    try:
        return int(struct.unpack_from(f"<{kind}", data, at)[0])
    except struct.error:
        raise _damaged() from None


def _damaged() -> BadRequest:
    return BadRequest("The rows cannot be read: a message's header is damaged.")
