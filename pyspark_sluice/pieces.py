"""What one Spark task reads: files, or parts of files, of one bucket, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from model.options.watermark import END_OF_TIME
from model.schema.schema import Schema
from table.format.io.file_io import file_io_for
from table.format.manifests.entries import SimpleStats
from table.format.store import TableFiles
from table.index.checksum import container_of, told
from table.scan.planning.entry_scan import PlannedFile
from table.scan.read import Selection, read_batches

_LEAST_BYTES, _MOST_BYTES = 4 << 20, 128 << 20
"""Files of a table without order are read by tasks of about so many bytes each: a task costs something, and so does an uneven end."""
_ROUNDS = 3
"""Of tasks, where there are bytes for them: whoever is done first takes more."""
_NO_STATS = SimpleStats()


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows ``start`` to ``stop`` of a file."""

    planned: PlannedFile
    start: int
    stop: int

    @property
    def whole(self) -> bool:
        """Whether it is all of the file."""
        return self.start == 0 and self.stop == self.planned.file.row_count

    @property
    def nbytes(self) -> int:
        """About the bytes to read."""
        return self.planned.file.file_size * (self.stop - self.start) // max(1, self.planned.file.row_count)


class Split(InputPartition):
    """The pieces of one task, and all it takes to read them."""

    def __init__(self, files: TableFiles, schema: Schema, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.table = files.name
        """What errors call it."""
        self.location = files.location
        self.branch = files.layout.branch
        self.allowed = files.reach.allowed
        """Where its files may lie besides the table's directory: those that were migrated stayed where they were."""
        self.schema = schema
        self.pieces = [_slim(piece) for piece in pieces]


class LastRow(InputPartition):
    """The row after a stream's last: in its event time time is over, all else is NULL."""

    def __init__(self, column: str) -> None:
        super().__init__(None)
        self.column = column


def read_last(row: LastRow, target: StructType) -> Iterator[pa.RecordBatch]:
    """That row, in exactly the Arrow types Spark expects."""
    wanted = to_arrow_schema(target, timezone="UTC")
    moment = pa.array([END_OF_TIME * 1000])
    arrays = [moment.cast(field.type) if field.name == row.column else pa.nulls(1, field.type) for field in wanted]
    yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _slim(piece: Piece) -> Piece:
    """Without statistics and indexes, which decided what is read and are of no use in a task; a checksum is."""
    container = piece.planned.file.embedded_file_index
    alone = None if container is None else container_of(told(container))
    return replace(
        piece, planned=replace(piece.planned, file=replace(piece.planned.file, value_stats=_NO_STATS, embedded_file_index=alone))
    )


def splits(files: TableFiles, schema: Schema, pieces: Iterable[Piece], *, parallelism: int) -> list[Split]:
    """One split for each partition and bucket, in the order they come first; of a table without order, splits of even size."""
    if schema.bucket <= 0:
        return [Split(files, schema, some) for some in _packed(list(pieces), parallelism)]
    places: dict[tuple[object, ...], list[Piece]] = {}
    for piece in pieces:
        places.setdefault((piece.planned.partition, piece.planned.bucket), []).append(piece)
    return [Split(files, schema, some) for some in places.values()]


def _packed(pieces: Sequence[Piece], parallelism: int) -> Iterator[list[Piece]]:
    total = sum(piece.nbytes for piece in pieces)
    most = min(_MOST_BYTES, max(_LEAST_BYTES, total // (_ROUNDS * parallelism)))
    pack: list[Piece] = []
    size = 0
    for piece in pieces:
        if pack and size + piece.nbytes > most:
            yield pack
            pack, size = [], 0
        pack.append(piece)
        size += piece.nbytes
    if pack:
        yield pack


def read_split(split: Split, columns: Sequence[str], target: StructType) -> Iterator[pa.RecordBatch]:
    """The rows in order, in exactly the Arrow types Spark expects."""
    files = _files(split.table, split.location, split.branch, split.allowed)
    wanted = to_arrow_schema(target, timezone="UTC")
    for whole, group in groupby(split.pieces, key=lambda piece: piece.whole):
        if whole:
            batches = read_batches(files, split.schema, [piece.planned for piece in group], Selection(columns=columns))
            yield from (_fitted(batch, wanted) for batch in batches)
            continue
        for piece in group:
            yield from (_fitted(batch, wanted) for batch in _part(files, split.schema, piece, columns))


def _part(files: TableFiles, schema: Schema, piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    at = 0
    for batch in read_batches(files, schema, [piece.planned], Selection(columns=columns, limit=piece.stop)):
        if at + batch.num_rows > piece.start:
            yield batch.slice(max(0, piece.start - at))
        at += batch.num_rows


def _fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Milliseconds as microseconds, and the like: never a loss."""
    arrays = [array if array.type == field.type else array.cast(field.type) for array, field in zip(batch.columns, wanted, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


@cache
def _files(table: str, location: str, branch: str, allowed: tuple[str, ...] | None) -> TableFiles:
    return TableFiles(file_io_for(location), location, branch, name=table, allowed=allowed)
