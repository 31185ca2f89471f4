"""Rows with their ids and the snapshots that wrote them last (`row-tracking.enabled`), as Paimon's ``t$row_tracking`` shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.schema.schema import Schema
from model.schema.types import Field, parse_type
from table.format.deletions import alive, positions
from table.format.store import TableFiles
from table.scan.planning.plan import PlannedFile
from table.scan.read import Projection, check_whole

# The ids are those that Paimon reserves for them, near the largest INT.
ROW_ID = Field(id=2**31 - 6, name="_ROW_ID", type=parse_type("BIGINT NOT NULL"))
SEQUENCE_NUMBER = Field(id=2**31 - 2, name="_SEQUENCE_NUMBER", type=parse_type("BIGINT NOT NULL"))
_HIDDEN = (ROW_ID, SEQUENCE_NUMBER)


def with_row_ids(schema: Schema) -> Schema:
    """A table's columns and the two that tell of its rows."""
    return replace(schema, fields=(*schema.fields, *_HIDDEN))


def read_with_row_ids(
    files: TableFiles, schema: Schema, planned: Sequence[PlannedFile], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of files in plan order, with their ids; ``schema`` is one of `with_row_ids`. Raises `TableDamaged` for rows without any."""
    own = replace(schema, fields=tuple(field for field in schema.fields if field not in _HIDDEN))
    wanted = list(schema.fields) if columns is None else [schema.field(name) for name in columns]
    for planned_file in planned:
        batches = _numbered(files, own, planned_file, wanted)
        vector = planned_file.vector
        yield from batches if vector is None else alive(batches, positions(files, vector, planned_file.file.row_count))


def _numbered(files: TableFiles, schema: Schema, planned: PlannedFile, wanted: Sequence[Field]) -> Iterator[pa.RecordBatch]:
    """All rows of a file, deleted ones too: a row without an id of its own is numbered by its place."""
    file = planned.file
    file_schema = schema if file.schema_id == schema.id else files.read_schema(file.schema_id)
    check_whole(file, schema, file_schema)
    # Some column must lie in the file, or its rows could not be counted.
    read = [*wanted, *(field for field in schema.fields if field not in wanted and field.name not in schema.partition_keys)][
        : len(wanted) + 1
    ]
    at = 0
    for batch in Projection(schema, file_schema, replace(planned, vector=None), read, *_HIDDEN).batches(files):
        columns = []
        for field in wanted:
            column = batch.column(field.name)
            if field == ROW_ID and column.null_count and file.first_row_id is not None:
                column = pc.coalesce(column, pa.array(np.arange(at, at + len(column)) + file.first_row_id))
            elif field == SEQUENCE_NUMBER and column.null_count:
                column = column.fill_null(file.max_sequence_number)
            if field == ROW_ID and column.null_count:
                raise files.damaged(planned.path, "has rows without ids, and its manifest tells none")
            columns.append(column)
        at += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, names=[field.name for field in wanted])
