"""Cleaning up behind a write: what nothing names goes as far as the store lets it, and no failure of that is told instead of another."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from model.errors import LakeError
from model.repeats import REPEATS
from table.format.store import TableFiles

_log = logging.getLogger(__name__)


def discard(files: TableFiles, paths: Iterable[str]) -> None:
    """Remove files that no snapshot names; those that stay are invisible to every reader, and found later as orphans."""
    try:
        files.delete(paths)
    except (LakeError, OSError) as problem:
        _log.warning("Files that were not committed could not be deleted in %s: %s", files.location, problem, extra=REPEATS)
