"""What is wrong with one file that a manifest names: a data file, an index file of deleted rows, an index beside a data file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from lake.tables.handle import LakeTable
from model.damage import MISSING
from model.errors import LakeError, ResultTooLarge, TableDamaged, Unavailable
from model.schema.schema import Schema
from model.text.sql_text import literal
from table.format.deletions import INDEX_TYPE, index_path, wrong_vectors
from table.format.io.storage_errors import told_by_the_store
from table.format.layout import partition_dirs
from table.format.manifests.entries import ManifestEntry
from table.format.rows import binary_row
from table.index.compared import ComparedIndexes
from table.index.container import SUFFIX
from table.index.owner import is_anothers
from table.index.skip import beside_path, embedded_index, index_beside
from table.retention.check import ExpectedFile, fault_of
from table.scan.checks.partition_rows import PartitionRows

T = TypeVar("T")


def fault_of_entry(
    table: LakeTable, entry: ManifestEntry, *, deep: bool, shown: Callable[[pa.RecordBatch], None] = lambda batch: None
) -> tuple[str, str] | None:
    """The data file of an entry where it is not as it was written, with what is wrong with it; ``shown`` as `fault_of` has it.

    Raises what a store says that does not give the file, a catalog that does not give its schema, or a process that did not decode it:
    the file may be whole.
    """
    files, schema = table.files, table.schema
    try:
        written = table.schema_at(entry.file.schema_id) if deep else None
    except LakeError as problem:
        if problem.__cause__ is not None and not isinstance(problem, TableDamaged):  # said by Postgres or the store, and not of the table
            raise
        return entry.file.file_name, problem.message
    try:
        path = files.data_path(schema, entry)
        expected = ExpectedFile(path=path, size=entry.file.file_size, rows=entry.file.row_count, file=entry.file, schema=written)
        fault = fault_of(files.io, expected, deep=deep, shown=shown)
    except ResultTooLarge:
        return None  # what other readers read is no damage
    except LakeError as problem:
        if told_by_the_store(problem) or isinstance(problem, Unavailable):  # also a decoder that took too long, or was killed
            raise
        return entry.file.file_name, problem.message
    return None if fault is None else (path, fault)


def out_of_turn(table: str) -> str:
    """What is wrong with an index file whose vectors do not lie one after the other."""
    return (
        "holds deletion vectors with gaps between them: clients with Paimon before 2.0 that write to the bucket fail, or take one file's "
        f"deleted rows for another's; CALL sys.compact(`table` => {literal(table)}, compact_strategy => 'full') merges them"
    )


def fault_of_index_file(table: LakeTable, record: Mapping[str, Any], *, deep: bool) -> tuple[str, str] | None:
    """The index file of a line of an index manifest where it is not as it was written, with what is wrong with it.

    Raises what a store says that does not give the file, which may be whole.
    """
    files, path = table.files, str(record["_FILE_NAME"])
    try:
        path = index_path(files, table.schema, record)
        if (size := files.io.size(path)) != record["_FILE_SIZE"]:
            return path, f"has {size:,} bytes where its manifest tells {record['_FILE_SIZE']:,}"
        problems = wrong_vectors(files, path, record) if deep and record["_INDEX_TYPE"] == INDEX_TYPE else ()
        return next(((path, problem) for problem in problems), None)
    except FileNotFoundError:
        return path, MISSING
    except LakeError as problem:
        if told_by_the_store(problem):
            raise
        return path, problem.message


def indexes_of(table: LakeTable, entry: ManifestEntry) -> ComparedIndexes:
    """The indexes of an entry's file, to be held against its rows; none where they cannot be read, of which others tell."""
    files, container = table.files, embedded_index(entry.file)
    with contextlib.suppress(LakeError, FileNotFoundError):
        if container is None and (beside := beside_path(entry.file, files.data_path(table.schema, entry))) is not None:
            container = index_beside(files, entry.file, beside)
        return ComparedIndexes(container, table.schema_at(entry.file.schema_id))
    return ComparedIndexes(None, table.schema)


def index_fault(table: LakeTable, entry: ManifestEntry, compared: ComparedIndexes | None) -> tuple[str, str] | None:
    """The index of a data file that is missing, another's or not of its rows: they can be read without, by this server if by nobody else.

    ``compared``: the file's indexes where its rows were looked at, else None.
    """
    again = f"CALL sys.rewrite_file_index({literal(table.identifier.written())}) makes it anew"
    deep = compared is not None
    try:
        for path in table.files.extra_paths(table.schema, entry):
            if not table.files.io.file_exists(path):
                return path, f"{MISSING}; {again}" if path.endswith(SUFFIX) else MISSING
            if deep and path.endswith(SUFFIX) and is_anothers(table.files.io.read(path), path.rpartition("/")[2], entry.file):
                return path, f"is another file's index; {again}"
        if compared is not None and (problem := compared.fault()) is not None:
            return table.files.data_path(table.schema, entry), f"{problem}; {again}"
    except FileNotFoundError:
        return None  # removed in this moment
    except LakeError as problem:
        if told_by_the_store(problem):
            raise
        return entry.file.file_name, problem.message
    return None


def deep_fault(table: LakeTable, entry: ManifestEntry, *, contradictions: bool) -> tuple[str, str] | None:
    """What is wrong with a data file, all of it read; with ``contradictions`` also with its indexes or the partition that its rows tell.

    Raises what `fault_of_entry` raises. By the last two no row is lost, and their files stay when others are removed.
    """
    indexes = indexes_of(table, entry) if contradictions else ComparedIndexes(None, None)
    own = _partition_rows(table, entry) if contradictions else PartitionRows(table.schema, ())

    def look(batch: pa.RecordBatch) -> None:
        indexes.look(batch)
        own.look(batch)

    fault = fault_of_entry(table, entry, deep=True, shown=look) or index_fault(table, entry, indexes)
    if fault is None and (problem := own.fault()) is not None:
        return table.files.data_path(table.schema, entry), problem
    return fault


def _partition_rows(table: LakeTable, entry: ManifestEntry) -> PartitionRows:
    with contextlib.suppress(LakeError):  # a schema that is not there is told with the file
        schema = table.schema_at(entry.file.schema_id)
        if entry.file.external_path is None:
            return PartitionRows(schema, binary_row.decode([field.type for field in table.schema.partition_fields], entry.partition))
    return PartitionRows(table.schema, ())


def shown(schema: Schema, entry: ManifestEntry) -> str:
    """An entry's partition as its directory is named; empty without partitions."""
    return "/".join(partition_dirs(schema, binary_row.decode([f.type for f in schema.partition_fields], entry.partition)))


def decoded(decode: Callable[[], T]) -> T | str:
    """What a decoder makes of bytes, or what is wrong with them."""
    try:
        return decode()
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        return f"cannot be decoded ({type(problem).__name__}: {problem})"
