"""Deleting many files: one that stays keeps none of the others."""

from __future__ import annotations

from collections.abc import Iterable

from model.errors import LakeError
from table.format.io.file_io import FileIO

_MOST_FAILURES = 20
"""After so many the store is away, and is not asked for the rest."""


def delete_all(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files in their order, as far as the store lets them go; raises the first failure at the end."""
    problems: list[LakeError | OSError] = []
    for path in paths:
        try:
            io.delete(path)
        except (LakeError, OSError) as problem:
            problems.append(problem)
            if len(problems) == _MOST_FAILURES:
                break
    if problems:
        raise problems[0]
