"""ORC files decoded a few stripes at a time, by this process or by one whose death costs only the read.

Arrow's reader of ORC can end its process where a bit of a file was changed; a server has processes for that (`workers/orc.py`).
A stripe of a thousand bytes may unpack to gigabytes, as by one text that all rows have. What such a stripe takes is known only once it is
decoded, so one that takes too much, or ends its process for lack of memory, is decoded again, some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating
from table.format.rows.array_memory import memory_of

PART_BYTES = 4 << 20
"""Stripes are decoded together up to so many bytes of rows."""
_STRIPE_BYTES = 512 << 20
"""A stripe whose rows take more is not handed over whole."""
_ROWS_BYTES = 32 << 20
"""Rows of such a stripe are handed over together up to so many bytes."""
_JAVA = "ORC_JAVA"
"""What Arrow calls the writer of a file that Java wrote."""
FEWER = (512, 1)
"""Rows decoded at once, one number after the other until they fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcHead:
    """What the end of a file tells."""

    size: int
    rows: int
    stripes: int
    schema: pa.Schema
    by_java: bool
    """Whether Java's library of ORC wrote the file, which is Spark's, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcPart:
    """Rows of some stripes that follow each other."""

    head: OrcHead
    batches: Sequence[pa.RecordBatch]
    following: int
    """The stripe that comes next; as many as there are at the file's end."""
    together: int | None = None
    """How many rows are decoded at once from now on; None for whole stripes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of a file is to be decoded."""

    columns: Sequence[str] | None = None
    """Those of them that the file has; None for all."""
    stripe: int = 0
    """The first one."""
    row: int = 0
    """The first row of the file, where not whole stripes are decoded."""
    together: int | None = None
    """How many rows are decoded at once; None for whole stripes."""
    at_once: bool = False
    """Whether the file is small enough to be fetched from its store in one request."""


class OrcDecoder(Protocol):
    """Decodes files of a store; raises what its file system raises, and anything for bytes that are no ORC file."""

    def head(self, io: FileIO, path: str) -> OrcHead: ...
    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart: ...


class Here:
    """Decodes in this process."""

    def __init__(self) -> None:
        self._rows: dict[str, RowsOf] = {}
        """The file of which rows were decoded last, so that its next part does not begin at the file's beginning."""

    def head(self, io: FileIO, path: str) -> OrcHead:
        """What the end of the file tells."""
        with opened(io, path) as source:
            return head_of(source, orc.ORCFile(source))

    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart:
        """The next stripes, or rows of a stripe that takes much."""
        if wanted.together is None:
            try:
                with opened(io, path, at_once=wanted.at_once) as source:
                    return part_of(source, wanted)
            except (LargeStripe, MemoryError):
                wanted = replace(wanted, together=FEWER[0])
        rows = self._rows.pop(path, None)
        if rows is None or not rows.follows(wanted):
            rows = RowsOf(opened(io, path, at_once=wanted.at_once), wanted)
        part = rows.part(wanted.row)
        self._rows = {path: rows} if part.following < part.head.stripes else {}
        return part


def opened(io: FileIO, path: str, *, at_once: bool = False) -> pa.NativeFile:
    """The file; one that is fetched at once costs a store one request instead of one for its end and for each column."""
    if at_once and not io.atomic_rename:
        return pa.BufferReader(io.read(path))
    with translating(path):
        return io.open_input(path)


def head_of(source: pa.NativeFile, file: orc.ORCFile) -> OrcHead:
    """What an open file tells of itself."""
    return OrcHead(
        size=int(source.size()),
        rows=int(file.nrows),
        stripes=int(file.nstripes),
        schema=file.schema,
        by_java=file.writer == _JAVA,
    )


class LargeStripe(Exception):
    """The rows of a stripe take more than is handed over together."""


def part_of(source: pa.NativeFile, wanted: Wanted) -> OrcPart:
    """Some stripes; only as many rows as there are where the file has none of the wanted columns. Raises `LargeStripe`."""
    file = orc.ORCFile(source)
    head = head_of(source, file)
    if not head.rows and not head.stripes:
        return OrcPart(head=head, batches=(), following=0)
    names = _names(head, wanted)
    batches: list[pa.RecordBatch] = []
    stripe, held_bytes = wanted.stripe, 0
    while stripe < head.stripes and (not batches or held_bytes < PART_BYTES):
        batch = file.read_stripe(stripe, columns=names) if names is None or names else rows_of(file.read_stripe(stripe).num_rows)
        if batch.nbytes > _STRIPE_BYTES:
            if not batches:
                raise LargeStripe
            break
        batch.validate(full=True)
        batches.append(batch)
        held_bytes += memory_of(batch)
        stripe += 1
    return OrcPart(head=head, batches=batches, following=stripe)


class RowsOf:
    """The rows of a file from one of them on, so many decoded at once; goes on where the part before ended."""

    def __init__(self, source: pa.NativeFile, wanted: Wanted) -> None:
        import pyarrow.dataset as ds  # brings pandas along, which whoever decodes whole stripes does without

        assert wanted.together is not None
        self._head = head_of(source, orc.ORCFile(source))
        self._wanted = wanted
        self._names = _names(self._head, wanted)
        source.seek(0)
        fragment = ds.OrcFileFormat().make_fragment(source)
        self._batches: Iterator[pa.RecordBatch] = fragment.to_batches(
            columns=self._names, batch_size=wanted.together, batch_readahead=0, fragment_readahead=0, use_threads=False
        )
        self._row = 0

    def follows(self, wanted: Wanted) -> bool:
        """Whether its next part is the wanted one."""
        return wanted == replace(self._wanted, stripe=wanted.stripe, row=self._row)

    def part(self, row: int) -> OrcPart:
        """The rows from this one on, which does not lie behind the next."""
        batches: list[pa.RecordBatch] = []
        held_bytes = 0
        while held_bytes < _ROWS_BYTES and (batch := next(self._batches, None)) is not None:
            skipped = min(batch.num_rows, max(0, row - self._row))
            self._row += batch.num_rows
            batch = batch.slice(skipped)
            if batch.num_rows:
                batch.validate(full=True)
                batches.append(batch if self._names is None or self._names else rows_of(batch.num_rows))
                held_bytes += memory_of(batch)
        following = 0 if held_bytes >= _ROWS_BYTES else self._head.stripes
        return OrcPart(head=self._head, batches=batches, following=following, together=self._wanted.together)


def _names(head: OrcHead, wanted: Wanted) -> list[str] | None:
    return None if wanted.columns is None else [name for name in wanted.columns if name in head.schema.names]


def rows_of(rows: int) -> pa.RecordBatch:
    """So many rows of nothing."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], [" rows"])


def has_fractions_before_1970(values: pa.Array) -> bool:
    """Whether a column of times has such ones, which Arrow, and with it pypaimon, writes into ORC as no other reader takes them."""
    unit = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[values.type.unit]
    numbers = values.cast(pa.int64())
    whole = pc.multiply(pc.divide(numbers, unit), unit)
    return bool(pc.any(pc.and_(pc.less(numbers, 0), pc.not_equal(numbers, whole))).as_py())


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
    """All rows of a file, some stripes at a time; at least one part, which tells what the file is. Raises what `OrcDecoder` raises."""
    wanted, decoder = Wanted(columns=columns, at_once=at_once), _decoder()
    rows = 0
    while True:
        part = decoder.part(io, path, wanted)
        yield part
        if part.following >= part.head.stripes:
            return
        rows += sum(batch.num_rows for batch in part.batches)
        wanted = replace(wanted, stripe=part.following, row=rows, together=part.together)
