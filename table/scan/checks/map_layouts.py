"""Files with MAPs that Java's clients lay out by `map.storage-layout`, at which Spark's reader fails as at damage."""

from __future__ import annotations

import pyarrow as pa

from model.errors import UnsupportedType
from model.schema.schema import Schema
from model.schema.types import MapType
from table.format.formats import format_of
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating
from table.format.orc import orc_head
from table.format.parquet.metadata import footer_of, metadata_of
from table.scan.evolution import layout_problem


def shredded_map(io: FileIO, path: str, schema: Schema) -> UnsupportedType | None:
    """The error of a query that needs such a MAP of a file in Parquet or ORC, written with a schema; None where it has none."""
    names = [field.name for field in schema.fields if isinstance(field.type, MapType)]
    if not names or format_of(path) not in ("parquet", "orc"):
        return None
    stored = _held(io, path)
    problems = (layout_problem(stored.field(name).type, name) for name in names if name in stored.names)
    return next((problem for problem in problems if problem is not None), None)


def _held(io: FileIO, path: str) -> pa.Schema:
    if format_of(path) == "orc":
        return orc_head(io, path).schema
    with translating(path), io.open_input(path) as source:
        return metadata_of(footer_of(source)).schema.to_arrow_schema()
