"""The sink: tasks write data files, and one commit makes them the table's; a repeated micro-batch is recognized by its number."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from model.errors import ColumnNotExist, InvalidOption, LakeError, OutcomeUnknown, TableNotExist, Unavailable, nearest
from model.schema.schema import Schema
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.options import SourceOptions
from table.format.io.file_io import file_io_for
from table.format.manifests.entries import NewFile
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything, metadata_written
from table.write.writer import paths_of, write_batches

_USER = "sluice-spark"
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.5


@dataclass(frozen=True, kw_only=True)
class Written(WriterCommitMessage):
    """The files of one task, in the order of its rows."""

    files: tuple[NewFile, ...]
    paths: tuple[str, ...]
    """Of these and of what lies beside them."""
    table_id: UUID
    """The table they were written to: by the time of the commit another may have its name, and its directory."""


class _Target:
    """The table rows go to; each of the processes that use it opens it for itself."""

    def __init__(self, options: SourceOptions, shape: StructType, overwrite: bool, *, patience: float | None = None) -> None:
        self._options = options
        with contextlib.closing(RemoteTable(options, patience=patience)) as table:
            self._schema: Schema = table.schema
            self._table_id = table.table_id
        for name in shape.names:
            if self._schema.find(name) is None:
                raise ColumnNotExist(name, str(options.table), nearest=nearest(name, self._schema.field_names))
        self._location = table.location
        self._overwrite = overwrite

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows in their order, on disk when it returns; raises `InvalidData` for one that does not fit."""
        files = TableFiles(file_io_for(self._location), self._location)
        new = write_batches(files, self._schema, (fit(batch, self._schema, table=str(self._options.table)) for batch in batches))
        paths = tuple(path for file in new for path in paths_of(files, self._schema, file))
        written = Written(files=tuple(new), paths=paths, table_id=self._table_id)
        try:
            files.io.sync(written.paths)
        except BaseException:
            self._remove([written])
            raise
        return written

    def land(self, messages: Sequence[WriterCommitMessage | None], *, user: str, identifier: int) -> None:
        """Commit the files of all tasks in the order of the tasks.

        What certainly is not the table's is deleted again: the files of a batch that was committed before, or whose commit was refused.
        """
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
        try:
            with contextlib.closing(RemoteTable(self._options)) as table:
                if any(part.table_id != table.table_id for part in written):  # another with the name, whose columns are others
                    raise TableNotExist(f"{self._options.table}, to which the rows were written,")
                ours = land(table, self._schema, request)
        except OutcomeUnknown:
            raise
        except Exception:
            self._remove(written)
            raise
        if not ours:
            self._remove(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what some tasks wrote where another one failed.

        Spark aborts after a commit that failed, too, in another process: that one has deleted what is not to be, and what it left may be
        the table's. Only where a task brings nothing there was no commit.
        """
        if any(message is None for message in messages):
            self._remove([message for message in messages if isinstance(message, Written)])

    def _remove(self, written: Sequence[Written]) -> None:
        io = file_io_for(self._location)
        for path in (path for part in written for path in part.paths):
            with contextlib.suppress(OSError, Unavailable):  # what stays is for the orphan cleaning
                io.delete(path)


def land(table: RemoteTable, schema: Schema, request: CommitRequest) -> bool:
    """Commit, building the snapshot anew for as long as others are faster; False where an earlier attempt had done it.

    Raises `OutcomeUnknown` where the files may be the table's, now or later; whatever else it raises, they are not and will not be.
    """
    commit = _Commit(table)
    try:
        return commit.land(schema, request)
    except Exception as problem:
        if not commit.in_doubt:
            raise
        raise OutcomeUnknown(
            f"Whether a write to table {table.identifier} is committed is not known, and its files stay: {problem} If it is, the table "
            f"has a snapshot whose commit_user is '{request.commit_user}'. A streaming query started again recognizes its micro-batch."
        ) from problem


class _Commit:
    """The attempts of one commit."""

    def __init__(self, table: RemoteTable) -> None:
        self._table = table
        self._until = time.monotonic() + table.patience
        self.in_doubt = False
        """Whether the answer to an attempt was lost: then one that is refused later says nothing of it."""

    def land(self, schema: Schema, request: CommitRequest) -> bool:
        """See `land`."""
        wait, uuid, table = _FIRST_WAIT, str(uuid4()), self._table
        while True:
            latest = table.latest()
            snapshot = build_snapshot(table.files, schema, latest, [request], uuid=uuid, time_millis=time.time_ns() // 1_000_000)
            table.files.io.sync(metadata_written(table.files, schema, latest, snapshot))  # as the server flushes no files of its clients
            landed = self._sent(snapshot, latest.key if latest else None)
            if landed is not None:
                return landed == uuid or self.in_doubt
            if time.monotonic() > self._until:
                raise Unavailable(f"Other writers of table {table.identifier} were faster for {table.patience:g} s.")
            time.sleep(wait * random.uniform(0.5, 1.2))
            wait = min(2 * wait, _LONGEST_WAIT)

    def _sent(self, snapshot: Snapshot, base: str | None) -> str | None:
        """What `RemoteTable.commit` returns, once there is an answer: the very same snapshot, sent again, is never committed twice."""
        doubted = self.in_doubt
        while True:
            self.in_doubt = True
            try:
                landed = self._table.commit(snapshot, base)
            except Unavailable:
                doubted = True
                if time.monotonic() > self._until:
                    raise
                self._table.pause()
                continue
            except LakeError:
                self.in_doubt = doubted
                raise
            self.in_doubt = doubted
            return landed


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("sluice")``: append, or overwrite of the whole table."""

    def __init__(self, options: SourceOptions, shape: StructType, overwrite: bool) -> None:
        self._target = _Target(options, shape, overwrite, patience=0)  # nothing is written yet, and the server may be a wrong one
        self._user = options.commit_user or f"{_USER}-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One commit for all tasks."""
        self._target.land(messages, user=self._user, identifier=BATCH_COMMIT_IDENTIFIER)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """See `_Target.abort`."""
        self._target.abort(messages)


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
        """See `_Target.abort`."""
        self._target.abort(messages)


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
