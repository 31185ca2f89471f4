"""A data file held against what its manifest tells of it: there, whole, and what was written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from model.errors import LakeError
from table.file_io import FileIO
from table.formats import format_of
from table.orc import orc_head, orc_parts
from table.storage_errors import storage_failure

MISSING = "is missing"
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """What a manifest tells of a data file."""

    path: str
    size: int
    rows: int


def fault_of(io: FileIO, expected: ExpectedFile, *, deep: bool) -> str | None:
    """What is wrong with a data file, None for one that is as it was written.

    Its size and what its footer tells; ``deep``: all its pages, their checksums where they have any, and the rows they hold.
    Raises `Unavailable` where the store does not tell.
    """
    path = io.arrow_path(expected.path)
    try:
        with io.arrow().open_input_file(path) as source:
            size = int(source.size())
            if size != expected.size:
                return f"has {size:,} bytes where its manifest tells {expected.size:,}"
            rows = _rows(io, source, expected.path, deep=deep)
    except FileNotFoundError:
        return MISSING
    except LakeError:
        raise
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        if (away := storage_failure(problem, expected.path)) is not None:
            raise away from problem
        return f"cannot be read: {problem}"
    if rows is not None and rows != expected.rows:
        return f"holds {rows:,} rows where its manifest tells {expected.rows:,}"
    return None


def _rows(io: FileIO, source: pa.NativeFile, path: str, *, deep: bool) -> int | None:
    """The rows of a file: as its footer tells, or as its pages do; None for a format that is not read here."""
    import pyarrow.parquet as pq

    match format_of(path):
        case "parquet":
            file = pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True)
            if not deep:
                return int(file.metadata.num_rows)
            return sum(int(batch.num_rows) for batch in file.iter_batches())
        case "orc":
            if not deep:
                return orc_head(io, path).rows
            return sum(int(batch.num_rows) for part in orc_parts(io, path) for batch in part.batches)
        case "avro" if deep:
            import fastavro

            return sum(1 for _ in fastavro.reader(source))
    return None
