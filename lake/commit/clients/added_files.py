"""The data files that a client's commit adds, looked at before they are live: one that cannot be read is damage for all who read the table.

The look is bounded, so that commits stay quick: who may write files can change them right after, and readers judge what they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from model.damage import MISSING
from model.errors import LakeError
from model.schema.schema import Schema
from table.format.io.patience import carried
from table.format.manifests.entries import ManifestEntry
from table.format.store import TableFiles
from table.retention.check import ExpectedFile, ends_fault, size_fault

MOST_LOOKED_AT = 64
"""Of so many files of a commit the ends are read; of the others only the size is asked."""
_STORE_THREADS = 16
"""A look at an object is two requests, which mostly wait; all commits of the process share these threads."""


def fault_of_added(files: TableFiles, added: Sequence[tuple[ManifestEntry, str]]) -> str | None:
    """What is wrong with the first of these files, each with where it lies, that is not what its entry tells; None for nothing.

    Raises `Unavailable` where the store does not tell.
    """

    def size(one: tuple[ManifestEntry, str]) -> str | None:
        return size_fault(files.io, _expected(*one))

    def ends(one: tuple[ManifestEntry, str]) -> str | None:
        return ends_fault(files.io, _expected(*one, _schema_of(files, one[0])))

    looked_at, others = added[:MOST_LOOKED_AT], added[MOST_LOOKED_AT:]
    if files.io.atomic_rename or len(added) == 1:
        faults = [*map(ends, looked_at), *map(size, others)]
    else:
        faults = [*_store_threads().map(carried(ends), looked_at), *_store_threads().map(carried(size), others)]
    for (_, path), problem in zip(added, faults, strict=True):
        if problem is not None:
            return f"it adds {path}, which does not exist." if problem == MISSING else f"it adds {path}, which {problem}."
    return None


def _expected(entry: ManifestEntry, path: str, schema: Schema | None = None) -> ExpectedFile:
    return ExpectedFile(path=path, size=entry.file.file_size, rows=entry.file.row_count, file=entry.file, schema=schema)


def _schema_of(files: TableFiles, entry: ManifestEntry) -> Schema | None:
    try:
        return files.read_schema(entry.file.schema_id)
    except LakeError:  # there is none of that version, which is told as such
        return None


@cache
def _store_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_STORE_THREADS, thread_name_prefix="added-files")
