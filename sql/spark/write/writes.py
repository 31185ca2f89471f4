"""A DataFrame as data files of a table (`architecture.md`, Bulk data; `peers.md`, last paragraph).

Spark's own writer fills a staging directory; the files are then described from their footers and moved to where they
belong. ORC goes through the Arrow writer on the executors, which computes the statistics Spark's ORC footers keep to
themselves.

So does Parquet where the store cannot rename: there Spark's committer copies each file out of its ``_temporary`` (the
committers that do not are no part of Spark's own distribution), and moving it to its place would copy it again, while
the Arrow writer opens the final object at once. Leaving files where Spark put them, named by the manifest's external
path, is no way out: such a path is absolute, and tables move when they are renamed.
"""

from __future__ import annotations

import contextlib
import pickle
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from threading import Semaphore
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake import LakeTable
from model.errors import LakeError
from model.schema.schema import Schema
from sql.spark.executors.writing import writing
from sql.spark.read.reads import named
from sql.spark.session.settings import LOCAL_FILES
from sql.spark.session.zone import plain
from sql.spark.write.assign import kept, physical
from sql.spark.write.bucket import bucket_column
from table.format.discard import discard
from table.format.formats import FileFormat
from table.format.io.patience import carried
from table.format.io.storage_errors import translating
from table.format.manifests.entries import DataFile, NewFile
from table.format.parquet.batches import bounded_batches, opened
from table.format.parquet.footer import mark_file
from table.format.rows import binary_row
from table.format.rows.array_memory import memory_of
from table.format.rows.stats import StatsModes
from table.index.build import attached, index_of_file
from table.index.container import SUFFIX
from table.scan.evolution import evolved
from table.scan.planning.entry_scan import PlannedFile
from table.write.bucket import internal_values
from table.write.data_file import creation_millis, describe_parquet, open_file

_ORDER = "__sluice_order"
_BUCKET = "__sluice_bucket"
_PARTITION = "__sluice_partition_"
_LONGEST_STAGED = 60
"""Bytes of a partition's value up to which it stands in the name of its staged directory, where each may take three."""
_PART = re.compile(r"part-(\d+)-.*?(?:-c|\.c)(\d+)")
_WHOLE_DIRECTORIES = {"mapreduce.fileoutputcommitter.algorithm.version": "1"}
"""The committer that renames a directory of a partition as one; the other makes it anew and renames its files one by one."""
_THREADS = 8
_ASSUMED_ROW_BYTES = 64
_TELLING_ROWS = 10_000
_ENOUGH_FILES = 32
_MOST_MANIFESTS = 32
_MOST_ENTRIES = 20_000
_TOO_LARGE = 1.3
"""How far a file may pass its target; one that is larger is split."""
_SPLIT_ROWS = 16_384
_SPLIT_BYTES = 64 << 20
"""Of each column at a time: without it Arrow holds whole row groups, and of a large file all of them."""
_SPLITTING = Semaphore(2)
_MOST_BUCKET_TASKS = 1_000
"""Of more buckets each task takes several: a table may say that it has billions, and an INSERT of one row would make a task for each."""
_NO_DATA = frozenset({"manifest", "snapshot", "schema", "tag", "index", "_staging"})


Arrange = Callable[[DataFrame, list[Column]], DataFrame]
"""Puts rows in order; it is given the hidden columns that must come first."""


def write(
    session: SparkSession, frame: DataFrame, table: LakeTable, *, arrange: Arrange | None = None, rewrites: bool = False
) -> list[NewFile]:
    """Write the rows, which have the table's columns and types; returns the files, not yet committed.

    Rows of a bucket keep the frame's order, or have the one ``arrange`` gives them. Where the write ``rewrites`` rows the table holds,
    their values stay as they are. On failure or cancel everything written is removed.
    """
    format_ = FileFormat.of(table.schema)
    with plain(session):
        if not rewrites:  # before a row is given its place: that of what is stored
            frame = frame.select(*kept(table.schema))
        routed = _routed(frame, table.schema) if arrange is None else _arranged(frame, table.schema, arrange)
        if format_.name == "orc" or not table.files.io.atomic_rename:
            return _through_arrow(routed, table)
        staging = f"{table.files.layout.staging_dir()}/{uuid4()}"
        try:
            _spark_write(session, routed, table, format_, staging, arranged=arrange is not None)
            return _publish(table, staging)
        except BaseException:
            _close_what_failed(session)
            raise
        finally:
            with contextlib.suppress(LakeError):  # what stays is an orphan; what was written, or failed, is the outcome
                table.files.io.delete_tree(staging)


def _close_what_failed(session: SparkSession) -> None:
    """Java closes a file whose writer failed when it collects the writer; until then a full disk stays full of deleted files."""
    with contextlib.suppress(Exception):  # a Spark that is gone keeps nothing open
        session.range(1).select(F.java_method(F.lit("java.lang.System"), F.lit("gc"))).collect()


def _routed(frame: DataFrame, schema: Schema) -> DataFrame:
    """The rows where their bucket's and partition's writer is, in order; with hidden columns that say where that is."""
    frame, keys = _with_partition_keys(frame, schema)
    if schema.bucket <= 0:
        return frame.hint("rebalance", *[F.col(key) for key in keys]) if keys else frame
    frame = _with_bucket(frame, schema).withColumn(_ORDER, F.monotonically_increasing_id())
    if _task_is_bucket(schema):
        return frame.repartitionById(schema.bucket, _BUCKET).sortWithinPartitions(_ORDER)
    return frame.repartition(*keys, _BUCKET).sortWithinPartitions(*keys, _BUCKET, _ORDER)


def _task_is_bucket(schema: Schema) -> bool:
    """Whether each bucket has a task of its own, whose number tells it."""
    return not schema.partition_keys and 0 < schema.bucket <= _MOST_BUCKET_TASKS


def _arranged(frame: DataFrame, schema: Schema, arrange: Arrange) -> DataFrame:
    frame, keys = _with_partition_keys(frame, schema)
    if schema.bucket > 0:
        frame, keys = _with_bucket(frame, schema), [*keys, _BUCKET]
    return arrange(frame, [F.col(key) for key in keys])


def _with_bucket(frame: DataFrame, schema: Schema) -> DataFrame:
    return frame.withColumn(_BUCKET, bucket_column(schema) if schema.bucket > 1 else F.lit(0))


def _with_partition_keys(frame: DataFrame, schema: Schema) -> tuple[DataFrame, list[str]]:
    """A hidden column for each partition column, by which Spark puts rows into staged directories: one for each value.

    Spark's own name for NULL is that of the empty value and of a text, too, a long value makes a name that no file system takes, and in
    names bytes that are no text are all one sign.
    """
    keys = [_PARTITION + str(i) for i in range(len(schema.partition_keys))]
    for key, name in zip(keys, schema.partition_keys, strict=True):
        text = named(name).cast("string")
        short = F.concat(F.lit("v"), text)
        nameless = (F.octet_length(text) > _LONGEST_STAGED) | ~F.is_valid_utf8(text)
        whole = F.when(nameless, F.concat(F.lit("h"), F.sha2(text, 256))).otherwise(short)
        frame = frame.withColumn(key, F.when(text.isNull(), F.lit("n")).otherwise(whole))
    return frame, keys


def _hidden(schema: Schema, *, arranged: bool) -> list[str]:
    """The hidden columns Spark's writer splits files by, but where the task's number is the bucket."""
    if _task_is_bucket(schema) and not arranged:
        return []
    keys = [_PARTITION + str(i) for i in range(len(schema.partition_keys))]
    return [*keys, _BUCKET] if schema.bucket > 0 else keys


def _spark_write(session: SparkSession, routed: DataFrame, table: LakeTable, format_: FileFormat, staging: str, *, arranged: bool) -> None:
    hidden = _hidden(table.schema, arranged=arranged)
    out = routed.select(*physical(routed, table.schema), *[F.col(name) for name in hidden])
    writer = out.write.options(**LOCAL_FILES, **_WHOLE_DIRECTORIES).option("compression", format_.codec)
    writer = writer.option("maxRecordsPerFile", rows_per_file(table, format_))
    writer = writer.option("parquet.block.size", format_.block_bytes).option("parquet.enable.dictionary", str(format_.dictionary).lower())
    if format_.level is not None:
        writer = writer.option("parquet.compression.codec.zstd.level", format_.level)
    if hidden:
        writer = writer.partitionBy(*hidden)
    writer.parquet(staging)


def rows_per_file(table: LakeTable, format_: FileFormat) -> int:
    """Rows that make a file of the target size, by what the table's rows take so far; by a guess where there are none."""
    taken = _newest_sizes(table)
    rows = sum(count for _, count in taken)
    per_row = sum(size for size, _ in taken) / rows if rows else 0.0
    if not per_row:
        return min(format_.target_rows, max(1, 4 * format_.target_bytes // _ASSUMED_ROW_BYTES))
    return int(min(format_.target_rows, max(1, format_.target_bytes / per_row)))


def _newest_sizes(table: LakeTable) -> list[tuple[int, int]]:
    """Bytes and rows of the newest files that are large enough to tell; a few manifests are looked at, however large the table is."""
    latest = table.latest()
    taken: list[tuple[int, int]] = []
    seen = 0
    for manifest in list(reversed(table.files.manifests_of(latest)))[:_MOST_MANIFESTS] if latest else ():
        for size, rows in table.files.newest_sizes(manifest, _MOST_ENTRIES - seen):
            seen += 1
            # A file that is deleted by now tells as much about the rows as one that is not.
            if rows >= _TELLING_ROWS:
                taken.append((size, rows))
            if len(taken) == _ENOUGH_FILES or seen == _MOST_ENTRIES:
                return taken
    return taken


def _publish(table: LakeTable, staging: str) -> list[NewFile]:
    """Describe the staged files and move them to their places."""
    modes = StatsModes(table.schema)
    paths = sorted(_staged(table, staging), key=_position)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="footers") as threads:
        described = list(threads.map(carried(partial(_described, table, modes)), paths))
        present = [entry for entry in described if entry is not None]
        placed = _in_sequence(table.schema, present)
        moved: list[str] = []
        moves = [threads.submit(carried(_placed), table, entry, file, moved) for entry, file in placed]
        try:
            return [move.result() for move in moves]
        except BaseException:
            for move in moves:
                move.cancel()
            wait(moves)  # none may move a file after the others were removed
            discard(table.files, moved)
            raise


def _staged(table: LakeTable, directory: str) -> Iterator[str]:
    for status in table.files.io.list(directory):
        name = status.path.rsplit("/", 1)[-1]
        if status.is_dir and not name.startswith(("_temporary", ".")):
            yield from _staged(table, status.path)
        elif name.endswith(".parquet") and not name.startswith((".", "_")):
            yield status.path


def _position(path: str) -> tuple[str, int, int]:
    """Directory, task and number of a staged file: the order its rows were written in."""
    directory, name = path.rsplit("/", 1)
    match = _PART.search(name)
    return directory, int(match[1]) if match else 0, int(match[2]) if match else 0


_Described = tuple[str, tuple[object, ...], int, DataFile, bytes | None]
"""Where a file is staged, its partition and bucket, the file under the name it will have, and its index, which lies nowhere yet."""


def _described(table: LakeTable, modes: StatsModes, path: str) -> list[_Described] | None:
    """A staged file with its partition and bucket, split where it is far too large; None for one without rows."""
    schema = table.schema
    format_ = FileFormat.of(schema)
    name, created = _new_name(format_), creation_millis()
    mark_file(table.files, path, schema.fields, name, created)
    file = replace(describe_parquet(table.files, schema, path, created_millis=created, modes=modes), file_name=name)
    if not file.row_count:
        return None
    bucket = _bucket_of_path(schema, path)
    values = _partition_of(table, path)
    if file.file_size <= _TOO_LARGE * format_.target_bytes or file.row_count < 2:
        return [(path, values, bucket, file, _index_of(table, path, values, bucket, file))]
    with _SPLITTING:
        parts = [
            (part, describe_parquet(table.files, schema, part, created_millis=created, modes=modes))
            for part, created in _split(table, format_, modes, path, file)
        ]
    return [(part, values, bucket, file, _index_of(table, part, values, bucket, file)) for part, file in parts]


def _new_name(format_: FileFormat) -> str:
    return f"{format_.prefix}{uuid4()}-0.{format_.extension}"


def _index_of(table: LakeTable, path: str, values: tuple[object, ...], bucket: int, file: DataFile) -> bytes | None:
    """What the table's file indexes say of a staged file; only the indexed columns are read."""
    return index_of_file(table.files, table.schema, PlannedFile(path=path, partition=values, bucket=bucket, file=file))


def _split(table: LakeTable, format_: FileFormat, modes: StatsModes, path: str, file: DataFile) -> list[tuple[str, int]]:
    """Write a staged file again as files of the target size, in order, under the names they will have, each with when it was made.

    Only the first rows of a table are misjudged so far.
    """
    io = table.files.io
    count = -(-file.file_size // format_.target_bytes)
    per_file = -(-file.row_count // count)
    parts: list[tuple[str, int]] = []
    with translating(path), io.open_input(path) as source:
        schema = opened(source).schema_arrow
        batches = bounded_batches(source, most_rows=min(per_file, _SPLIT_ROWS))
        rest: pa.RecordBatch | None = next(batches, None)
        while rest is not None:
            part = f"{path.rpartition('/')[0]}/{_new_name(format_)}"
            out = open_file(table.files, format_, part, schema, modes)
            try:
                while rest is not None and out.rows < per_file:
                    group, rest = _row_group(rest, batches, per_file - out.rows)
                    out.write(group)
                out.close(modes)
            except BaseException:
                out.discard()
                raise
            parts.append((part, out.created_millis))
    io.delete(path)
    return parts


def _row_group(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch], most: int) -> tuple[pa.Table, pa.RecordBatch | None]:
    """Rows for one row group, at most ``most`` of them, and what follows."""
    taken: list[pa.RecordBatch] = []
    rows = 0
    rest: pa.RecordBatch | None = first
    while rest is not None and rows < most and sum(map(memory_of, taken)) < _SPLIT_BYTES:
        head = rest.slice(0, most - rows)
        taken.append(head)
        rows += head.num_rows
        rest = rest.slice(head.num_rows) if head.num_rows < rest.num_rows else next(batches, None)
    return pa.Table.from_batches(taken), rest


def _bucket_of_path(schema: Schema, path: str) -> int:
    if schema.bucket <= 0:
        return 0
    match = re.search(_BUCKET + r"=(\d+)/", path)
    if match is None:
        assert not schema.partition_keys, path
        return _position(path)[1]
    return int(match[1])


def _partition_of(table: LakeTable, path: str) -> tuple[object, ...]:
    """The partition's values, from the file's first row: a directory's name cannot tell NULL from a text that looks like it."""
    fields = table.schema.partition_fields
    if not fields:
        return ()
    with translating(path), table.files.io.open_input(path) as source:
        first = next(pq.ParquetFile(source).iter_batches(batch_size=1, columns=[f.name for f in fields]))
    columns = [evolved(first.column(first.schema.get_field_index(f.name)), f.type, f.type, f.name) for f in fields]
    return tuple(internal_values(f.type, column)[0] for f, column in zip(fields, columns, strict=True))


def _in_sequence(schema: Schema, described: Sequence[list[_Described]]) -> list[tuple[_Described, DataFile]]:
    """Number the rows of each (partition, bucket) through its files, in order."""
    tops: dict[tuple[bytes, int], int] = defaultdict(int)
    placed = []
    for entry in (item for group in described for item in group):
        _, values, bucket, file, _ = entry
        place = _row_bytes(schema, values), bucket
        first = tops[place] if schema.bucket > 0 else 0
        tops[place] += file.row_count
        placed.append((entry, replace(file, min_sequence_number=first, max_sequence_number=first + file.row_count - 1)))
    return placed


def _placed(table: LakeTable, entry: _Described, file: DataFile, moved: list[str]) -> NewFile:
    """Move a file to its bucket's directory."""
    path, values, bucket, _, index = entry
    target = f"{table.files.layout.new_bucket_dir(table.schema, values, bucket)}/{file.file_name}"
    table.files.io.rename(path, target)
    moved += [target, target + SUFFIX]
    file = attached(table.files, table.schema, target, file, index)
    return NewFile(partition=_row_bytes(table.schema, values), bucket=bucket, file=file)


def _row_bytes(schema: Schema, values: tuple[object, ...]) -> bytes:
    """A partition as manifests hold it; NaN is equal to itself there, and the zeros are two."""
    return binary_row.encode_prefixed([f.type for f in schema.partition_fields], values)


def _through_arrow(routed: DataFrame, table: LakeTable) -> list[NewFile]:
    """Write on the executors with the Arrow writer, each file at its final place; each task sends back what it wrote.

    A task that is killed cannot clean up, so all names carry a mark of this write, by which what nobody reported is found.
    """
    files = table.files
    mark = f"{FileFormat.of(table.schema).prefix}{uuid4().hex[:12]}-"
    schema = replace(table.schema, options={**table.schema.options, "data-file.prefix": mark})
    try:
        rows = routed.select(*physical(routed, schema)).mapInArrow(writing(files, schema), "file binary").collect()
    except BaseException:
        _remove_marked(table, table.location, mark, named=frozenset(), deep=True)
        raise
    written: list[NewFile] = [pickle.loads(bytes(row.file)) for row in rows]
    types = [f.type for f in schema.partition_fields]
    named = frozenset(name for new in written for name in (new.file.file_name, *new.file.extra_files))
    for place in {(new.partition, new.bucket) for new in written}:
        directory = files.layout.bucket_dir(schema, binary_row.decode(types, place[0]) if types else (), place[1])
        _remove_marked(table, directory, mark, named=named, deep=False)
    return written


def _remove_marked(table: LakeTable, directory: str, mark: str, *, named: frozenset[str], deep: bool) -> None:
    """Remove what attempts of tasks that failed or ran twice left of a write; where the store fails it is found later as orphans."""
    with contextlib.suppress(LakeError):  # what failed the write may fail this; the first failure is the one to tell
        discard(table.files, list(_marked(table, directory, mark, named=named, deep=deep)))


def _marked(table: LakeTable, directory: str, mark: str, *, named: frozenset[str], deep: bool) -> Iterator[str]:
    for status in table.files.io.list(directory):
        name = status.path.rsplit("/", 1)[-1]
        if status.is_dir and deep and name not in _NO_DATA:
            yield from _marked(table, status.path, mark, named=named, deep=True)
        elif not status.is_dir and name.startswith(mark) and name not in named:
            yield status.path
