"""Deleting many files: one that stays keeps none of the others."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from model.errors import LakeError
from table.format.io.file_io import FileIO
from table.format.io.patience import carried

_MOST_FAILURES = 20
"""After so many the store is away, and is not asked for the rest."""
_AT_ONCE = 16
"""Files a store is asked to delete at the same time: each takes two or three requests, and one after another a table that is written to
all the time would get files faster than it loses them."""


def delete_all(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files, on local disks in their order, as far as the store lets them go; raises the first failure at the end."""
    problems: list[LakeError | OSError] = []

    def delete(path: str) -> None:
        if len(problems) < _MOST_FAILURES:
            try:
                io.delete(path)
            except (LakeError, OSError) as problem:
                problems.append(problem)

    ordered = list(paths)
    threads = 1 if io.atomic_rename else min(_AT_ONCE, len(ordered))
    if threads > 1:
        with ThreadPoolExecutor(threads, thread_name_prefix="delete") as pool:
            for _ in pool.map(carried(delete), ordered):
                pass
    else:
        for path in ordered:
            delete(path)
    if problems:
        raise problems[0]
