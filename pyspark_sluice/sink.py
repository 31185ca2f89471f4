"""The sink: tasks write data files, and one commit makes them the table's; a repeated micro-batch is recognized by its number."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from model.errors import ColumnNotExist, InvalidOption, Unavailable, nearest
from model.schema.schema import Schema
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.options import SourceOptions
from table.format.io.file_io import file_io_for
from table.format.manifests.entries import NewFile
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything
from table.write.writer import write_batches

_USER = "sluice-spark"
_PATIENCE_SECONDS = 300.0
"""For so long a commit tries to get in between others."""
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.5


@dataclass(frozen=True, kw_only=True)
class Written(WriterCommitMessage):
    """The files of one task, in the order of its rows."""

    files: tuple[NewFile, ...]
    paths: tuple[str, ...]


class _Target:
    """The table rows go to; each of the processes that use it opens it for itself."""

    def __init__(self, options: SourceOptions, shape: StructType, overwrite: bool) -> None:
        self._options = options
        with contextlib.closing(RemoteTable(options)) as table:
            self._schema: Schema = table.schema
        for name in shape.names:
            if self._schema.find(name) is None:
                raise ColumnNotExist(name, str(options.table), nearest=nearest(name, self._schema.field_names))
        self._location = table.location
        self._overwrite = overwrite

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows in their order; raises `InvalidData` for one that does not fit."""
        files = TableFiles(file_io_for(self._location), self._location)
        new = write_batches(files, self._schema, (fit(batch, self._schema, table=str(self._options.table)) for batch in batches))
        return Written(files=tuple(new), paths=tuple(_path(files, self._schema, file) for file in new))

    def land(self, messages: Sequence[WriterCommitMessage | None], *, user: str, identifier: int) -> None:
        """Commit the files of all tasks in the order of the tasks; those of a batch that was committed before are deleted again."""
        written = [message for message in messages if isinstance(message, Written)]
        adds = tuple(file for part in written for file in part.files)
        if not adds and not self._overwrite:
            return
        request = CommitRequest(
            kind=CommitKind.OVERWRITE if self._overwrite else CommitKind.APPEND,
            adds=adds,
            overwrite=everything if self._overwrite else None,
            commit_user=user,
            commit_identifier=identifier,
        )
        with contextlib.closing(RemoteTable(self._options)) as table:
            if not land(table, self._schema, request):
                self.remove(messages)

    def remove(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what was written and is not to be."""
        io = file_io_for(self._location)
        for message in messages:
            for path in message.paths if isinstance(message, Written) else ():
                with contextlib.suppress(OSError, Unavailable):  # what stays is for the orphan cleaning
                    io.delete(path)


def _path(files: TableFiles, schema: Schema, new: NewFile) -> str:
    from table.format.rows import binary_row

    values = binary_row.decode([field.type for field in schema.partition_fields], new.partition)
    return new.file.external_path or files.layout.data_file(schema, values, new.bucket, new.file.file_name)


def land(table: RemoteTable, schema: Schema, request: CommitRequest) -> bool:
    """Commit, building the snapshot anew for as long as others are faster; False where an earlier attempt had done it."""
    until = time.monotonic() + _PATIENCE_SECONDS
    wait = _FIRST_WAIT
    uuid = str(uuid4())
    while True:
        latest = table.latest()
        snapshot = build_snapshot(table.files, schema, latest, [request], uuid=uuid, time_millis=time.time_ns() // 1_000_000)
        try:
            done = table.commit(snapshot, latest.key if latest else None)
        except Unavailable:  # it may have been decided all the same; sent again, it is recognized
            if time.monotonic() > until:
                raise
            time.sleep(1)
            continue
        if done:
            return _is_ours(table, snapshot.id, uuid)
        if time.monotonic() > until:
            raise Unavailable(f"Other writers of table {table.identifier} were faster for {_PATIENCE_SECONDS:g} s; nothing was committed.")
        time.sleep(wait * random.uniform(0.5, 1.2))
        wait = min(2 * wait, _LONGEST_WAIT)


def _is_ours(table: RemoteTable, snapshot_id: int, uuid: str) -> bool:
    snapshot = table.files.read_snapshot(snapshot_id)
    return snapshot is not None and snapshot.uuid == uuid


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("sluice")``: append, or overwrite of the whole table."""

    def __init__(self, options: SourceOptions, shape: StructType, overwrite: bool) -> None:
        self._target = _Target(options, shape, overwrite)
        self._user = options.commit_user or f"{_USER}-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One commit for all tasks."""
        self._target.land(messages, user=self._user, identifier=BATCH_COMMIT_IDENTIFIER)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what the tasks wrote."""
        self._target.remove(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """``writeStream.format("sluice")``: each micro-batch lands once, however often Spark repeats it."""

    def __init__(self, options: SourceOptions, shape: StructType, overwrite: bool) -> None:
        self._target = _Target(options, shape, overwrite)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """One commit for the micro-batch."""
        self._target.land(messages, user=commit_user(self._options), identifier=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete what the tasks wrote."""
        self._target.remove(messages)


def commit_user(options: SourceOptions) -> str:
    """Who writes: the id Spark keeps in the query's checkpoint, for a new checkpoint counts its batches from 0 again."""
    if options.commit_user is not None:
        return options.commit_user
    if options.checkpoint is None:
        raise InvalidOption(
            "The sink cannot tell a repeated micro-batch from a new one: give the query's 'checkpointLocation' as an option of "
            "writeStream (not in Spark's settings), or a 'commitUser' that changes with the checkpoint."
        )
    path = f"{options.checkpoint.rstrip('/')}/metadata"
    try:
        return f"{_USER}-{json.loads(file_io_for(path).read(path))['id']}"
    except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
        raise InvalidOption(f"The query's id cannot be read from {path} ({problem}); give a 'commitUser' for this checkpoint.") from problem
