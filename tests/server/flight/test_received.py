"""Rows of clients whose dictionaries are numbered in any way, as Arrow allows: each column has its own values."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from model.schema.schema import column, new_schema
from server.flight.wire.received import Message, ReceivedRows, _root, _Table
from workers.arrow import ArrowHere
from workers.readers import arrow_batches
from workers.spool import BodyFiles

_COLUMNS = ("a", "b", "c", "d")
_BATCHES = [{name: [f"{name}{number}", None, f"{name}x"] for name in _COLUMNS} for number in range(2)]


def _messages(ids: Sequence[int]) -> Iterator[Message]:
    """The rows as a client sends them that gives its columns' dictionaries these numbers; pyarrow's would be 0, 1, 2 and 3."""
    arrays = [[pa.array(batch[name]).dictionary_encode() for name in _COLUMNS] for batch in _BATCHES]
    schema = pa.schema([(name, arrays[0][0].type) for name in _COLUMNS])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for columns in arrays:
            stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        header = bytearray(message.metadata.to_pybytes())
        if message.type == "schema":
            for own, wanted in enumerate(ids):
                encoding = _field(bytes(header), own).table(4)
                if own != wanted:
                    _put(header, encoding, wanted)
        if message.type == "dictionary":
            batch = _root(bytes(header)).table(2)
            if ids[(own := batch.number("q", 0))] != own:
                _put(header, batch, ids[own])
        yield Message(bytes(header), message.body.to_pybytes())


def _field(header: bytes, number: int) -> _Table:
    """A column in a message of them."""
    schema = _root(header).table(2)
    where = schema._where(1)
    assert where is not None
    fields = where + int(struct.unpack_from("<I", header, where)[0])
    at = fields + 4 + 4 * number
    return _Table(header, at + int(struct.unpack_from("<I", header, at)[0]))


def _put(header: bytearray, table: _Table, number: int) -> None:
    where = table._where(0)
    assert where is not None, "0 is left out, and has no place for another number"
    struct.pack_into("<q", header, where, number)


@pytest.mark.parametrize("names", [None, ("w", "x", "y", "z")], ids=["ingest", "parameters"])
@pytest.mark.parametrize("ids", [(0, *ids) for ids in permutations((1, 2, 3))] + [(0, 9, 2**40, 5)])
def test_each_column_has_its_values_however_dictionaries_are_numbered(
    tmp_path: Path, ids: tuple[int, ...], names: tuple[str, ...] | None
) -> None:
    rows = ReceivedRows(_messages(ids), 1 << 20, ArrowHere(), "me")
    assert rows.schema.names == list(_COLUMNS)
    called = names or _COLUMNS
    schema = new_schema([column(name, "STRING") for name in called], options={"bucket": "-1"})
    with rows.as_file(BodyFiles(tmp_path)) as body:
        read = pa.Table.from_batches(list(arrow_batches(body, schema, "t", names)))
    for name, own in zip(called, _COLUMNS, strict=True):
        assert read.column(name).to_pylist() == [value for batch in _BATCHES for value in batch[own]], name
