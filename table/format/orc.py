"""ORC files decoded a few stripes at a time, by this process or by one whose death costs only the read.

Arrow's reader of ORC can end its process where a bit of a file was changed; a server has processes for that (`workers/orc.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyarrow import orc

from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating

PART_BYTES = 4 << 20
"""Stripes are decoded together up to so many bytes of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcHead:
    """What the end of a file tells."""

    size: int
    rows: int
    stripes: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcPart:
    """Rows of some stripes that follow each other."""

    head: OrcHead
    batches: Sequence[pa.RecordBatch]
    following: int
    """The stripe that comes next; as many as there are at the file's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of a file is to be decoded."""

    columns: Sequence[str] | None = None
    """Those of them that the file has; None for all."""
    stripe: int = 0
    """The first one."""
    at_once: bool = False
    """Whether the file is small enough to be fetched from its store in one request."""


class OrcDecoder(Protocol):
    """Decodes files of a store; raises what its file system raises, and anything for bytes that are no ORC file."""

    def head(self, io: FileIO, path: str) -> OrcHead: ...
    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart: ...


class Here:
    """Decodes in this process."""

    def head(self, io: FileIO, path: str) -> OrcHead:
        """What the end of the file tells."""
        with opened(io, path) as source:
            return head_of(source, orc.ORCFile(source))

    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart:
        """The next stripes; see `part_of`."""
        with opened(io, path, at_once=wanted.at_once) as source:
            return part_of(source, wanted)


def opened(io: FileIO, path: str, *, at_once: bool = False) -> pa.NativeFile:
    """The file; one that is fetched at once costs a store one request instead of one for its end and for each column."""
    if at_once and not io.atomic_rename:
        return pa.BufferReader(io.read(path))
    with translating(path):
        return io.arrow().open_input_file(io.arrow_path(path))


def head_of(source: pa.NativeFile, file: orc.ORCFile) -> OrcHead:
    """What an open file tells of itself."""
    return OrcHead(size=int(source.size()), rows=int(file.nrows), stripes=int(file.nstripes), schema=file.schema)


def part_of(source: pa.NativeFile, wanted: Wanted) -> OrcPart:
    """Some stripes; only as many rows as there are where the file has none of the wanted columns."""
    file = orc.ORCFile(source)
    head = head_of(source, file)
    if not head.rows and not head.stripes:
        return OrcPart(head=head, batches=(), following=0)
    names = None if wanted.columns is None else [name for name in wanted.columns if name in head.schema.names]
    batches: list[pa.RecordBatch] = []
    stripe, held_bytes = wanted.stripe, 0
    while stripe < head.stripes and (not batches or held_bytes < PART_BYTES):
        batch = file.read_stripe(stripe, columns=names) if names is None or names else rows_of(file.read_stripe(stripe).num_rows)
        batch.validate(full=True)
        batches.append(batch)
        held_bytes += batch.nbytes
        stripe += 1
    return OrcPart(head=head, batches=batches, following=stripe)


def rows_of(rows: int) -> pa.RecordBatch:
    """So many rows of nothing."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], [" rows"])


_HERE = Here()
_ELSEWHERE: list[OrcDecoder] = []
"""Who decodes for this process instead, the last one first: which process may die is a matter of the process, not of a table."""


def decode_with(decoder: OrcDecoder) -> None:
    """Let another decode this process's files from now on."""
    _ELSEWHERE.append(decoder)


def decode_without(decoder: OrcDecoder) -> None:
    """Take back `decode_with`."""
    if decoder in _ELSEWHERE:
        _ELSEWHERE.remove(decoder)


def _decoder() -> OrcDecoder:
    return _ELSEWHERE[-1] if _ELSEWHERE else _HERE


def orc_head(io: FileIO, path: str) -> OrcHead:
    """What the end of a file tells; raises what `OrcDecoder` raises."""
    return _decoder().head(io, path)


def orc_parts(io: FileIO, path: str, columns: Sequence[str] | None = None, *, at_once: bool = False) -> Iterator[OrcPart]:
    """All stripes of a file, some at a time; at least one part, which tells what the file is. Raises what `OrcDecoder` raises."""
    stripe, decoder = 0, _decoder()
    while True:
        part = decoder.part(io, path, Wanted(columns=columns, stripe=stripe, at_once=at_once))
        yield part
        stripe = part.following
        if stripe >= part.head.stripes:
            return
