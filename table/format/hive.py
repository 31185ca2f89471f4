"""A directory of Parquet or ORC files laid out the Hive way, as a table it can become: columns, partitions, files with statistics."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from model.errors import InvalidData, InvalidSchema, UnsupportedType
from model.schema.schema import Schema
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import BigIntType, DataType, DateType, Field, IntType, LocalZonedTimestampType, TimestampType, VarCharType
from model.wall_clock import local_wall_millis
from table.format.io.file_io import FileIO, FileStatus
from table.format.io.storage_errors import translating
from table.format.manifests.entries import NewFile
from table.format.orc import OrcHead, orc_head
from table.format.parquet.metadata import footer_of, metadata_of
from table.format.rows import binary_row
from table.format.rows.arrow import data_type
from table.format.rows.stats import ColumnStats, StatsModes, stats_from_parquet
from table.write.data_file import describe

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
NULL_NAMES = frozenset({HIVE_NULL, "__DEFAULT_PARTITION__"})
"""Directory texts that stand for NULL, Hive's and Paimon's."""
_MAGIC = {b"PAR1": "parquet", b"ORC": "orc"}
_FORMATS = ("parquet", "orc")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,18})")
_POSITIONAL = re.compile(r"_col\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveFile:
    """One data file, with what its footer says."""

    path: str
    format: str
    partition: tuple[str | None, ...]
    """The directory's texts, in the order of the keys; None for NULL."""
    size: int
    rows: int
    columns: Mapping[str, DataType]
    parquet: pq.FileMetaData | None

    @property
    def name_needed(self) -> str:
        """The name under which Paimon's readers know the format: they go by the extension."""
        return self.path if self.path.lower().endswith(f".{self.format}") else f"{self.path}.{self.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveDirectory:
    """All data files of a directory, which agree on columns and partition keys."""

    location: str
    keys: tuple[str, ...]
    files: tuple[HiveFile, ...]
    columns: tuple[Field, ...]
    """Of the files, and behind them the partition keys."""


def survey(io: FileIO, location: str, *, threads: int = 8, allowed: Callable[[Iterable[str]], None] = lambda _: None) -> HiveDirectory:
    """Look at every file's footer; raises where they disagree, naming files and columns, or hold what a table cannot.

    ``allowed`` is asked about the files' paths before one is opened, and raises where one must not be.
    """
    entries = list(_walk(io, location, ()))
    allowed(status.path for status, _ in entries)
    if not entries:
        raise InvalidSchema(f"There are no data files in {location}.")
    keys = tuple(key for key, _ in entries[0][1])
    for status, spec in entries:
        if tuple(key for key, _ in spec) != keys:
            raise InvalidSchema(
                f"{status.path} and {entries[0][0].path} lie under different partition keys ({_spelled(spec)}; {_spelled(entries[0][1])})."
            )
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        files = tuple(pool.map(lambda one: _looked_at(io, one[0], tuple(value for _, value in one[1]), keys), entries))
    columns = _agreed(files)
    if overlap := [key for key in keys if key in columns]:
        raise InvalidSchema(f"The partition key {overlap[0]} is a column of the files, too; which of the two counts cannot be told.")
    fields = [Field(id=-1, name=name, type=type_) for name, type_ in columns.items()]
    fields += [Field(id=-1, name=key, type=_type_of({f.partition[at] for f in files})) for at, key in enumerate(keys)]
    return HiveDirectory(location=location, keys=keys, files=files, columns=tuple(fields))


Spec = tuple[tuple[str, str | None], ...]


def _walk(io: FileIO, directory: str, spec: Spec) -> Iterator[tuple[FileStatus, Spec]]:
    for status in io.list(directory):
        name = status.path.rstrip("/").rsplit("/", 1)[-1]
        if name.startswith(("_", ".")):
            continue  # hidden, as Hive and Spark read directories
        if not status.is_dir:
            if status.size:
                yield status, spec
            continue
        key, equals, value = name.partition("=")
        if not equals or not key:
            raise InvalidSchema(f"The directory {status.path} is not named key=value, so it is no partition; move it out of the table.")
        text = unquote(value)
        yield from _walk(io, status.path, (*spec, (unquote(key), None if text in NULL_NAMES else text)))


def _spelled(spec: Spec) -> str:
    return ", ".join(key for key, _ in spec) or "none"


def _looked_at(io: FileIO, status: FileStatus, partition: tuple[str | None, ...], keys: Sequence[str]) -> HiveFile:
    format_ = _format(io, status)
    try:
        if format_ == "orc":
            head = _orc_head(io, status.path)
            return _described(status, format_, partition, head.rows, head.schema, None)
        with translating(status.path), io.open_input(status.path) as source:
            metadata = metadata_of(footer_of(source))
            return _described(status, format_, partition, metadata.num_rows, metadata.schema.to_arrow_schema(), metadata)
    except pa.ArrowException as problem:
        raise InvalidData(f"{status.path} cannot be read as {format_}: {problem}") from problem


def _format(io: FileIO, status: FileStatus) -> str:
    ending = status.path.rsplit(".", 1)[-1].lower()
    if ending in _FORMATS:
        return ending
    with translating(status.path), io.open_input(status.path) as source:
        head = bytes(source.read(4))
    for magic, format_ in _MAGIC.items():
        if head.startswith(magic):
            return format_
    raise InvalidSchema(f"{status.path} is neither a Parquet nor an ORC file; tables hold nothing else that could be taken over.")


def _described(
    status: FileStatus, format_: str, partition: tuple[str | None, ...], rows: int, schema: pa.Schema, parquet: pq.FileMetaData | None
) -> HiveFile:
    if parquet is not None:
        for at in range(len(parquet.schema)):
            if parquet.schema.column(at).physical_type == "INT96":
                raise UnsupportedType(
                    f"Column {parquet.schema.column(at).path} of {status.path} holds times as INT96, which readers take for different "
                    "instants; rewrite it with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS, or INSERT the rows."
                )
    columns: dict[str, DataType] = {}
    for field in schema:
        if format_ == "orc" and _POSITIONAL.fullmatch(field.name):
            raise InvalidSchema(f"{status.path} names its columns by position ({field.name}), as old Hive writes; rewrite it with names.")
        try:
            columns[field.name] = _held(field, orc_=format_ == "orc")
        except UnsupportedType as problem:
            raise UnsupportedType(f"Column {field.name} of {status.path}: {problem.message}") from None
    return HiveFile(path=status.path, format=format_, partition=partition, size=status.size, rows=rows, columns=columns, parquet=parquet)


def _held(field: pa.Field, *, orc_: bool) -> DataType:
    """The type under which every reader finds what the file holds."""
    for part in _leaves(field.type):
        inexact = pa.types.is_unsigned_integer(part) or pa.types.is_fixed_size_binary(part) or pa.types.is_time64(part)
        if inexact:
            raise UnsupportedType(f"Its type {part} cannot be held as it lies in the file.")
    type_ = data_type(field.type, nullable=field.nullable)
    if orc_ and isinstance(type_, TimestampType | LocalZonedTimestampType):  # ORC has one kind of time, of any precision
        type_ = replace(type_, precision=6)
    if unreadable := unreadable_in_sql(type_):
        raise UnsupportedType(f"The type {unreadable} cannot be held here.")
    return type_


def _leaves(type_: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(type_):
        yield type_.value_type if pa.types.is_dictionary(type_) else type_
    for at in range(type_.num_fields):
        yield from _leaves(type_.field(at).type)


def _agreed(files: Sequence[HiveFile]) -> dict[str, DataType]:
    """Every column of any file; one that some files lack is NULL there."""
    columns: dict[str, DataType] = {}
    first: dict[str, str] = {}
    for file in files:
        for name, type_ in file.columns.items():
            known = columns.get(name)
            if known is None:
                columns[name], first[name] = type_, file.path
            elif known.with_nullable(True) != type_.with_nullable(True):
                raise InvalidSchema(f"Column {name} is {known.sql()} in {first[name]} and {type_.sql()} in {file.path}.")
            elif type_.nullable:
                columns[name] = type_
    return {name: type_ if all(name in file.columns for file in files) else type_.with_nullable(True) for name, type_ in columns.items()}


def _type_of(texts: set[str | None]) -> DataType:
    """INT, BIGINT or DATE where all values are spelled as one, else STRING; so a value's text is always its own."""
    values = [text for text in texts if text is not None]
    if values and all(_WHOLE.fullmatch(text) and text != "-0" for text in values):
        most = max(abs(int(text)) for text in values)
        if most < 1 << 63:
            return IntType() if most < 1 << 31 else BigIntType()
    if values and all(_day(text) is not None for text in values):
        return DateType()
    return VarCharType()


def _day(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def partition_value(text: str | None, type_: DataType) -> object:
    """A directory's text as a partition's value; raises `InvalidData` where it is none of the type."""
    if text is None:
        return None
    root = type_.root
    if root == "VARCHAR":
        return text
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT") and _WHOLE.fullmatch(text):
        return int(text)
    if root == "DATE" and (day := _day(text)) is not None:
        return day
    raise InvalidData(f"The directory text '{text}' is no {type_.sql()}.")


def registered(file: HiveFile, schema: Schema) -> NewFile:
    """The file as a commit adds it: where it lies, with its footer's statistics."""
    modes = StatsModes(schema)
    stats: dict[str, ColumnStats] = {} if file.parquet is None else stats_from_parquet(file.parquet, modes.collected())
    types = [field.type for field in schema.partition_fields]
    values = [partition_value(text, type_) for text, type_ in zip(file.partition, types, strict=True)]
    now = local_wall_millis()
    described = describe(
        schema, modes, file.name_needed, size=file.size, rows=file.rows, stats=stats, first_sequence=0, created_millis=now, external=True
    )
    return NewFile(partition=binary_row.encode_prefixed(types, values), bucket=0, file=described)


def column_names(io: FileIO, path: str) -> frozenset[str] | None:
    """The columns a data file holds; None for a format whose files are not looked into."""
    ending = path.rsplit(".", 1)[-1].lower()
    if ending not in _FORMATS:
        return None
    if ending == "orc":
        return frozenset(_orc_head(io, path).schema.names)
    with translating(path), io.open_input(path) as source:
        return frozenset(pq.read_schema(source).names)


def _orc_head(io: FileIO, path: str) -> OrcHead:
    try:
        with translating(path):
            return orc_head(io, path)
    except ValueError as problem:
        raise InvalidData(f"{path} cannot be read as orc: {problem}") from problem
