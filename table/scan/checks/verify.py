"""Data files held against their manifest before another engine reads them, whose reader believes what a footer says.

Spark takes a column that a footer calls by another name for one that is not there, leaves out what a footer's bounds exclude and a row
group whose offset lies elsewhere, and counts no rows. ORC has no checksums of its own: a file is held against the one it was written with,
and a small file of another writer is read once in full. What was found sound is not looked at again while its size and time stay as they
were. Codecs that Spark brings no class for are seen on the way.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from model.damage import MISSING
from model.schema.schema import Schema
from table.format.formats import format_of
from table.format.io.on_disk import OnDisk, on_disk
from table.format.io.patience import carried
from table.format.orc import OrcHead, orc_head
from table.format.parquet.nan import hides_nan
from table.format.store import TableFiles
from table.retention.check import ExpectedFile, bytes_fault_of, fault_of, footer_fault, orc_columns_fault
from table.scan.checks.checksums import recorded
from table.scan.checks.looks import KeptLooks, Look
from table.scan.checks.orc_times import columns_before_1970, not_for_spark
from table.scan.checks.partition_rows import PartitionRows
from table.scan.checks.statistics import holds_other_partition
from table.scan.planning.plan import PlannedFile

_THREADS = 4
_STORE_THREADS = 32
"""A look at an object is two requests, which mostly wait."""
MOST_ORC_BYTES = 32 << 20
"""Of ORC without checksums that was not looked at yet so much is decoded for one statement; the rest is read by a reader that looks at
what it reads."""
MOST_SUMMED_BYTES = 1 << 30
"""So much of ORC with checksums."""

_NOT_IN_SPARK = frozenset(("BROTLI", "LZO"))
"""Codecs of Parquet whose classes Spark looks for and does not bring."""


_IN_SPARK = Look(in_spark=True)
_READ_HERE = Look(in_spark=False)
_sound = KeptLooks()
"""Files that are what was written."""


def sound(files: TableFiles, planned: Sequence[PlannedFile], schema_at: Callable[[int], Schema]) -> Sequence[bool]:
    """Whether each file is known to be what was written, and packed so that Spark can read it; raises `TableDamaged` for a damaged one."""
    return [look.in_spark for look in looks(files, planned, schema_at)]


def looks(files: TableFiles, planned: Sequence[PlannedFile], schema_at: Callable[[int], Schema]) -> Sequence[Look]:
    """What is known of each file; raises `TableDamaged` for a damaged one.

    Avro is taken for sound, which is read here. Stores keep checksums of what they hold, and to ask whether an object is another by now
    is a request each: there the end of each file is looked at once, and of ORC partition columns and the times that Spark may not read.
    """
    known = [_IN_SPARK] * len(planned)
    unseen: list[tuple[bytes, int]] = []
    orc_bytes = {True: 0, False: 0}
    looked = [at for at, planned_file in enumerate(planned) if format_of(planned_file.file.file_name) in ("parquet", "orc")]
    for at, info in zip(looked, _infos(files, [planned[at] for at in looked]), strict=True):
        planned_file, key = planned[at], _key(planned[at], info)
        if (look := _sound.get(key)) is not None:
            known[at] = look
            continue
        if info is not None and format_of(planned_file.file.file_name) == "orc":
            summed = recorded(files.io, planned_file.path, planned_file.file) is not None
            orc_bytes[summed] += planned_file.file.file_size
            most = MOST_SUMMED_BYTES if summed else MOST_ORC_BYTES
            if orc_bytes[summed] > most and info.size == planned_file.file.file_size:
                known[at] = _READ_HERE
                continue
        unseen.append((key, at))
    if unseen:
        for (_, at), look in zip(unseen, _look(files, [(key, planned[at]) for key, at in unseen], schema_at), strict=True):
            known[at] = look
    return known


def read_here(files: TableFiles, planned: PlannedFile) -> None:
    """Let a file be read by our own reader from now on: Spark's fails at it, and ours finds all that was written."""
    (info,) = _infos(files, [planned])
    _sound.keep(_key(planned, info), _READ_HERE)


def forget() -> None:
    """What a restart forgets."""
    _sound.forget()


def _infos(files: TableFiles, planned: Sequence[PlannedFile]) -> Sequence[OnDisk | None]:
    """Each file as it lies on a disk; None for those of stores, and for those that are gone."""
    if not files.io.atomic_rename:
        return [None] * len(planned)
    return [on_disk(files.io, planned_file.path) for planned_file in planned]


def _key(planned: PlannedFile, info: OnDisk | None) -> bytes:
    stored = "" if info is None else f"{info.size} {info.version}"
    identity = f"{stored} {planned.file.file_size} {planned.file.row_count} {planned.file.schema_id} {planned.path}"
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


def _look(files: TableFiles, unseen: Sequence[tuple[bytes, PlannedFile]], schema_at: Callable[[int], Schema]) -> list[Look]:
    """Look at files; raises `TableDamaged` for one that is not what was written."""
    schemas = {planned.file.schema_id: schema_at(planned.file.schema_id) for _, planned in unseen}
    budget = _Budget(MOST_ORC_BYTES)

    def look(entry: tuple[bytes, PlannedFile]) -> tuple[str | None, Look]:
        key, planned = entry
        expected = ExpectedFile(
            path=planned.path,
            size=planned.file.file_size,
            rows=planned.file.row_count,
            file=planned.file,
            schema=schemas[planned.file.schema_id],
        )
        footers: list[pq.FileMetaData] = []
        heads: list[OrcHead] = []
        ours_alone: list[bool] = []
        own = PartitionRows(schemas[planned.file.schema_id], planned.partition if planned.file.external_path is None else ())
        left_out = False

        def shown(batch: pa.RecordBatch) -> None:
            ours_alone.append(not_for_spark(batch))
            own.look(batch)

        if format_of(planned.file.file_name) == "parquet":
            fault = footer_fault(files.io, expected, footers.append)
        elif not files.io.atomic_rename:
            fault, left_out = _orc_of_store(files, expected, budget, heads.append, shown)
        elif (checksum := recorded(files.io, planned.path, planned.file)) is not None:
            fault = bytes_fault_of(files.io, expected, checksum) or orc_columns_fault(
                files.io, expected, lambda head: _own_partition_columns(expected, head), own.look
            )
        else:
            fault = fault_of(files.io, expected, deep=True, shown=shown)
        known = _of_footer(footers[0]) if footers else _IN_SPARK
        here_alone = left_out or any(ours_alone) or own.other is not None
        if fault is None and (here_alone or _tells_no_partition(files, expected, planned.partition, footers, heads)):
            known = _READ_HERE
        if fault is None and (not left_out or expected.size > MOST_ORC_BYTES):  # else the next statement may have enough left for it
            _sound.keep(key, known)
        return fault, known

    threads = _THREADS if files.io.atomic_rename else _STORE_THREADS
    with ThreadPoolExecutor(min(threads, len(unseen)), thread_name_prefix="sound") as pool:
        known = []
        for (_, planned), (fault, came_of_it) in zip(unseen, pool.map(carried(look), unseen), strict=True):
            known.append(came_of_it)
            if fault is not None:
                raise files.missing(planned.path) if fault == MISSING else files.damaged(planned.path, str(fault))
    return known


class _Budget:
    """What may be decoded for one statement, by several threads."""

    def __init__(self, size_bytes: int) -> None:
        self._lock = threading.Lock()
        self._left_bytes = size_bytes

    def take(self, size_bytes: int) -> bool:
        """Take so many bytes of it, where they are left."""
        with self._lock:
            fits = size_bytes <= self._left_bytes
            self._left_bytes -= size_bytes if fits else 0
        return fits


def _orc_of_store(
    files: TableFiles,
    expected: ExpectedFile,
    budget: _Budget,
    read: Callable[[OrcHead], None],
    shown: Callable[[pa.RecordBatch], None],
) -> tuple[str | None, bool]:
    """What is wrong with an ORC file of a store by its end, and whether the budget is too small to look at times that Spark may not read.

    ``read`` is shown the end, and ``shown`` partition columns, and the times that the budget allows. Files of Java, and files written here,
    hold none that Spark may not read.
    """
    left_out = False

    def columns(head: OrcHead) -> Sequence[str]:
        nonlocal left_out
        read(head)
        assert expected.file is not None
        assert expected.schema is not None
        keys = _own_partition_columns(expected, head)  # constants, which are a few bytes of each stripe
        times = [] if head.by_java else columns_before_1970(expected.file, expected.schema)
        if not times or recorded(files.io, expected.path, expected.file) is not None:
            return keys
        left_out = not budget.take(expected.size)
        return keys if left_out else [*times, *(key for key in keys if key not in times)]

    return orc_columns_fault(files.io, expected, columns, shown), left_out


def _own_partition_columns(expected: ExpectedFile, head: OrcHead) -> Sequence[str]:
    """The partition columns that a file has itself; what was taken over where it lies is read by the names of its directories."""
    assert expected.file is not None
    assert expected.schema is not None
    keys = expected.schema.partition_keys if expected.file.external_path is None else ()
    return [key for key in keys if key in head.schema.names]


def _tells_no_partition(
    files: TableFiles,
    expected: ExpectedFile,
    partition: Sequence[object],
    footers: Sequence[pq.FileMetaData],
    heads: Sequence[OrcHead],
) -> bool:
    """Whether a file leaves partition columns to its manifest, or has other values there, as far as a footer of Parquet tells.

    Of ORC, whose end tells no values, rows are looked at (`PartitionRows`).

    Spark does not read the manifest, whose partition counts: it would show NULL, or what the file has. The file's end is read where neither
    a footer nor a head of it was. What was taken over where it lies is read by the names of its directories.
    """
    assert expected.file is not None
    assert expected.schema is not None
    keys = expected.schema.partition_keys
    if not keys or expected.file.external_path is not None:
        return False
    schema = footers[0].schema.to_arrow_schema() if footers else (heads[0] if heads else orc_head(files.io, expected.path)).schema
    if not set(keys).issubset(schema.names):
        return True
    return bool(footers) and len(partition) == len(keys) and holds_other_partition(footers[0], expected.file, expected.schema, partition)


def _of_footer(metadata: pq.FileMetaData) -> Look:
    group = metadata.row_group(0) if metadata.num_row_groups else None
    codecs = {group.column(at).compression for at in range(group.num_columns)} if group is not None else set()
    return Look(in_spark=_NOT_IN_SPARK.isdisjoint(codecs), bounded=not hides_nan(metadata))
