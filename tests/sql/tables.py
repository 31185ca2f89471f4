"""Tables the tests of this package need, made without SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lake import Lake, LakeTable
from model.identifier import Identifier
from model.schema.schema import Schema, new_schema
from model.schema.types import DataType, Field, parse_type
from model.snapshot import CommitKind
from sql.execution.cancellation import Cancellation
from sql.execution.session import Session
from sql.statements.base import ExecutionContext
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.fix_gateway import NoSparkLease


def column_type(spelled: str) -> DataType:
    """A type as SQL spells it, lists and maps of simple types included."""
    text = spelled.removesuffix(" NOT NULL")
    nullable = text == spelled
    if text.startswith("ARRAY<"):
        return parse_type({"type": "ARRAY" if nullable else "ARRAY NOT NULL", "element": text[6:-1]})
    if text.startswith("MAP<"):
        key, value = text[4:-1].split(", ")
        return parse_type({"type": "MAP", "key": key, "value": value})
    return parse_type(spelled)


def make_table(
    lake: Lake, called: str = "t", /, *, options: Mapping[str, str] | None = None, partition: str = "", **columns: str
) -> LakeTable:
    """Create and open ``default.<called>`` with columns spelled as in SQL; one ordered bucket unless the options say otherwise."""
    fields = [Field(id=0, name=column, type=column_type(spelled)) for column, spelled in columns.items()]
    bucket_key = next(f.name for f in fields if f.name != partition)
    schema = new_schema(
        fields,
        options=options if options is not None else {"bucket": "1", "bucket-key": bucket_key},
        partition_keys=[partition] if partition else [],
    )
    identifier = Identifier("default", called)
    lake.create_table(identifier, schema)
    return lake.open(identifier)


def context_of(lake: Lake) -> ExecutionContext:
    """What a statement runs in, without Spark and without a place for results."""
    return ExecutionContext(
        lake=lake,
        session=Session("s"),
        spark=NoSparkLease(),
        settings={},
        cancellation=Cancellation(),
        statement_id="x",
        spool=None,  # type: ignore[arg-type]
    )


def put_unchecked(lake: Lake, values: Mapping[str, Sequence[Any]], *, as_in: Callable[[Schema], Schema] | None = None) -> None:
    """Commit rows to ``default.t`` that nothing checks, as another client's or an earlier version's; ``as_in``: the schema they had."""
    table = lake.open(Identifier("default", "t"))
    schema = table.schema if as_in is None else as_in(table.schema)
    batch = pa.RecordBatch.from_pydict({name: list(column) for name, column in values.items()}, schema=arrow_schema(schema.fields))
    files = tuple(write_batches(table.files, schema, [batch]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=files, commit_user="other"))
