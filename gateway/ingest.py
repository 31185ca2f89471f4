"""Rows a client brings with columns of their own: appended to a table, or to one made for them, as one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from typing import IO

import pyarrow as pa

from gateway.append import AppendResult
from gateway.sessions import Sessions
from lake import EVERYBODY, Caller, Lake, LakeTable
from model.errors import OutcomeUnknown, TableAlreadyExist, TableNotExist
from model.identifier import Identifier
from model.schema.schema import Schema, new_schema, with_queue_defaults
from model.schema.types import DataType, Field, LocalZonedTimestampType, TimestampType, VarBinaryType, VarCharType
from model.snapshot import CommitKind
from model.work.deciding import to_the_end
from sql.execution.session import Session
from sql.execution.writing import append_written, before_commit, written_by_worker
from sql.parameters.types import PlainInsert, plain_insert
from sql.parsing.ddl import TableDefinition
from sql.parsing.turns import read_for
from sql.statements.tables import check_type, schema_of
from table.format.manifests.entries import NewFile
from table.format.rows.arrow import data_type
from table.write.snapshot_builder import everything
from workers.pool import WorkerPool
from workers.readers import ARROW_STREAM
from workers.spool import size_of

_FINEST = 6
"""Digits of a second that columns made here have at most; finer values must be zero behind them."""


class IfExists(StrEnum):
    """What to do with a table that is there."""

    FAIL = "fail"
    APPEND = "append"
    REPLACE = "replace"


class Ingester:
    """Takes bodies in; workers decode them."""

    def __init__(self, lake: Lake, workers: WorkerPool, outside: Callable[[], AbstractContextManager[None]], sessions: Sessions) -> None:
        self._lake = lake
        self._workers = workers
        self._outside = outside
        self._sessions = sessions

    def plain_insert(self, text: str, *, session: str | None = None, caller: Caller = EVERYBODY) -> PlainInsert | None:
        """The table and columns an ``INSERT … VALUES (?, …)`` fills, so that many rows can be taken in at once; None for anything else."""
        sql_session = self._sessions.get(session).session if session is not None else Session("", None)
        with read_for(caller.principal):
            return plain_insert(text, self._lake.for_caller(caller), sql_session)

    def __call__(  # noqa: PLR0913 - what a client says of its rows
        self,
        identifier: Identifier,
        schema: pa.Schema,
        body: Callable[[], IO[bytes]],
        *,
        create: bool,
        if_exists: IfExists,
        options: Mapping[str, str] | None = None,
        caller: Caller = EVERYBODY,
    ) -> AppendResult:
        """Write the rows of an Arrow IPC stream in one commit; a table made for them is gone again where they do not fit.

        ``body`` gives the stream as a file, and is asked for it when the caller may write; ``schema`` tells its columns, with the names
        they are to have. Raises `TableAlreadyExist`, `TableNotExist`, what an append raises, and for a replacement by other columns what
        `Lake.replace_filled` does. Whatever is raised but `OutcomeUnknown` has changed nothing of a table that was there.
        """
        with self._outside():
            lake = self._lake.for_caller(caller)
            lake.reserve.require()
            lake.quotas.check_ingest(caller)
            try:
                table = lake.open_to_write(identifier, overwrite=if_exists is IfExists.REPLACE)
            except TableNotExist:
                if not create:
                    raise
                try:
                    return self._created(lake, identifier, schema, body, options or {})
                except TableAlreadyExist as taken:  # somebody else has made it meanwhile
                    if if_exists is IfExists.FAIL:
                        raise
                    try:
                        table = lake.open_to_write(identifier, overwrite=if_exists is IfExists.REPLACE)
                    except TableNotExist:  # it is a view
                        raise taken from None
            if if_exists is IfExists.FAIL:
                raise TableAlreadyExist(str(identifier))
            with body() as stream, lake.reserve.promise(size_of(stream)):
                if if_exists is IfExists.REPLACE:
                    return self._replaced(lake, table, schema, stream)
                return self._append(lake, table, schema, stream)

    def _created(
        self, lake: Lake, identifier: Identifier, schema: pa.Schema, body: Callable[[], IO[bytes]], options: Mapping[str, str]
    ) -> AppendResult:
        with to_the_end():  # what is decided is its rows: without them it is taken back
            made = lake.create_table(identifier, table_schema(schema, options))
        assert made is not None
        try:
            with body() as stream, lake.reserve.promise(size_of(stream)):
                return self._append(lake, lake.open(identifier), schema, stream)
        except OutcomeUnknown:
            raise  # the rows may be there
        except BaseException as problem:
            lake.take_back(identifier, made, problem)
            raise

    def _replaced(self, lake: Lake, table: LakeTable, schema: pa.Schema, stream: IO[bytes]) -> AppendResult:
        wanted = replacing_schema(schema, table.schema)
        if _columns(wanted) == _columns(table.schema):
            return self._overwrite(lake, table, schema, stream)
        rows, snapshot = lake.replace_filled(
            table.identifier, wanted, lambda there: before_commit(there, self._written(lake, there, schema, stream))
        )
        return AppendResult(rows=rows, snapshot_id=snapshot.id if snapshot else None)

    def _append(self, lake: Lake, table: LakeTable, schema: pa.Schema, stream: IO[bytes]) -> AppendResult:
        rows, snapshot = append_written(lake, table, self._written(lake, table, schema, stream))
        return AppendResult(rows=rows, snapshot_id=snapshot.id if snapshot else None)

    def _overwrite(self, lake: Lake, table: LakeTable, schema: pa.Schema, stream: IO[bytes]) -> AppendResult:
        with table.write() as write:
            write.add(before_commit(table, self._written(lake, table, schema, stream)))
            request = write.request(CommitKind.OVERWRITE, overwrite=everything, operation="OVERWRITE")
            return AppendResult(rows=write.rows, snapshot_id=lake.commit(table, request).id)

    def _written(self, lake: Lake, table: LakeTable, schema: pa.Schema, stream: IO[bytes]) -> list[NewFile]:
        lake.quotas.ingested(lake.caller, size_of(stream))
        return written_by_worker(self._workers, lake, table, ARROW_STREAM, stream, names=schema.names)


def table_schema(schema: pa.Schema, options: Mapping[str, str]) -> Schema:
    """The schema of a table made for such rows; raises `UnsupportedType` for columns no table here can have."""
    return schema_of(TableDefinition(columns=_fields(schema), options=dict(options)))


def replacing_schema(schema: pa.Schema, before: Schema) -> Schema:
    """The schema of a table whose place such rows take: its options are only read, as other clients and earlier versions may store more.

    Raises `UnsupportedType` for columns no table here can have, and what `check_schema` does for options of columns that are not there.
    """
    columns = _fields(schema)
    for column in columns:
        check_type(column.name, column.type)
    options = {key: value for key, value in before.options.items() if not key.startswith("schema.")}
    if set(before.bucket_keys) <= set(schema.names):
        options.setdefault("bucket", str(before.bucket))
    else:  # chosen anew, as for a table that is made
        options.pop("bucket-key", None)
        options.pop("bucket", None)
    options = with_queue_defaults(options, columns, before.partition_keys)
    return new_schema(columns, partition_keys=before.partition_keys, options=options, stored=before.options)


def _fields(schema: pa.Schema) -> tuple[Field, ...]:
    return tuple(Field(id=-1, name=field.name, type=_column_type(field.type)) for field in schema)


def _column_type(type_: pa.DataType) -> DataType:
    """The column for an Arrow type; all may hold NULL, as a client's schema tells of the rows it has and not of those to come."""
    if pa.types.is_null(type_) or pa.types.is_string_view(type_):
        return VarCharType()
    if pa.types.is_binary_view(type_):
        return VarBinaryType()
    made = data_type(type_, nullable=True)
    if isinstance(made, TimestampType | LocalZonedTimestampType):
        return replace(made, precision=min(made.precision, _FINEST) if made.precision else 3)
    return made


def _columns(schema: Schema) -> list[tuple[str, DataType]]:
    return [(field.name, field.type.with_nullable(True)) for field in schema.fields]
