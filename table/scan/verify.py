"""Data files held against their manifest before another engine reads them, whose reader believes what a footer says.

Spark takes a column that a footer calls by another name for one that is not there, leaves out what a footer's bounds exclude and a row
group whose offset lies elsewhere, and counts no rows. ORC has no checksums at all, so a small ORC file is read once in full. What was
found sound is not looked at again while its size and time stay as they were. Codecs that Spark brings no class for are seen on the way.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs as pafs
from cachetools import LRUCache

from model.schema.schema import Schema
from table.format.formats import format_of
from table.format.store import TableFiles
from table.retention.check import MISSING, ExpectedFile, fault_of, footer_fault
from table.scan.plan import PlannedFile

_THREADS = 4
_MOST_KEPT = 200_000
MOST_ORC_BYTES = 32 << 20
"""Of ORC that was not looked at yet so much is read for one statement; the rest is read by a reader that looks at what it reads."""

_NOT_IN_SPARK = frozenset(("BROTLI", "LZO"))
"""Codecs of Parquet whose classes Spark looks for and does not bring."""

_lock = threading.Lock()
_sound: LRUCache[bytes, bool] = LRUCache(_MOST_KEPT)
"""Files that are what was written; whether Spark can unpack each."""


def sound(files: TableFiles, planned: Sequence[PlannedFile], schema_at: Callable[[int], Schema]) -> Sequence[bool]:
    """Whether each file is known to be what was written, and packed so that Spark can read it; raises `TableDamaged` for a damaged one.

    Files of stores that keep checksums of their own are taken for sound, as is Avro, which is read here.
    """
    if not files.io.atomic_rename:
        return [True] * len(planned)
    known = [True] * len(planned)
    unseen: list[tuple[bytes, int]] = []
    orc_bytes = 0
    looked = [at for at, planned_file in enumerate(planned) if format_of(planned_file.file.file_name) in ("parquet", "orc")]
    infos = files.io.arrow().get_file_info([files.io.arrow_path(planned[at].path) for at in looked])
    for at, info in zip(looked, infos, strict=True):
        planned_file, key = planned[at], _key(planned[at], info)
        with _lock:
            if (in_spark := _sound.get(key)) is not None:
                known[at] = in_spark
                continue
        if format_of(planned_file.file.file_name) == "orc":
            orc_bytes += planned_file.file.file_size
            if orc_bytes > MOST_ORC_BYTES and info.type == pafs.FileType.File and info.size == planned_file.file.file_size:
                known[at] = False
                continue
        unseen.append((key, at))
    if unseen:
        for (_, at), in_spark in zip(unseen, _look(files, [(key, planned[at]) for key, at in unseen], schema_at), strict=True):
            known[at] = in_spark
    return known


def forget() -> None:
    """What a restart forgets."""
    with _lock:
        _sound.clear()


def _key(planned: PlannedFile, info: pafs.FileInfo) -> bytes:
    identity = f"{info.size} {info.mtime_ns} {planned.file.row_count} {planned.file.schema_id} {planned.path}"
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


def _look(files: TableFiles, unseen: Sequence[tuple[bytes, PlannedFile]], schema_at: Callable[[int], Schema]) -> list[bool]:
    """Look at files; returns whether Spark can unpack each, and raises `TableDamaged` for one that is not what was written."""
    schemas = {planned.file.schema_id: schema_at(planned.file.schema_id) for _, planned in unseen}

    def look(entry: tuple[bytes, PlannedFile]) -> tuple[str | None, bool]:
        key, planned = entry
        expected = ExpectedFile(
            path=planned.path,
            size=planned.file.file_size,
            rows=planned.file.row_count,
            file=planned.file,
            schema=schemas[planned.file.schema_id],
        )
        parquet = format_of(planned.file.file_name) == "parquet"
        codecs: set[str] = set()
        fault = footer_fault(files.io, expected, codecs) if parquet else fault_of(files.io, expected, deep=True)
        in_spark = codecs.isdisjoint(_NOT_IN_SPARK)
        if fault is None:
            with _lock:
                _sound[key] = in_spark
        return fault, in_spark

    with ThreadPoolExecutor(min(_THREADS, len(unseen)), thread_name_prefix="sound") as pool:
        known = []
        for (_, planned), (fault, in_spark) in zip(unseen, pool.map(look, unseen), strict=True):
            known.append(in_spark)
            if fault is not None:
                raise files.missing(planned.path) if fault == MISSING else files.damaged(planned.path, str(fault))
    return known
