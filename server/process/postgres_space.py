"""How much space the embedded Postgres's write-ahead log takes, and may come to take."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

WAL_SEGMENT_BYTES = 16 << 20
"""Postgres starts and ends a segment of its log as a whole: with less space it does not start, and ends where it needs the next one."""
_SHARE = 32
"""The log takes this part of its disk at most, and `_MOST_BYTES`, which is what Postgres takes by itself."""
_LEAST_BYTES, _MOST_BYTES = 2 * WAL_SEGMENT_BYTES, 1 << 30


def _most_wal(directory: Path) -> int:
    """The size at which a checkpoint lets old segments be used again, in whole segments."""
    share = shutil.disk_usage(directory).total // _SHARE
    return max(_LEAST_BYTES, min(_MOST_BYTES, share // WAL_SEGMENT_BYTES * WAL_SEGMENT_BYTES))


def wal_settings(directory: Path) -> list[tuple[str, str]]:
    """Settings for a cluster whose disk is small; none where Postgres's own do."""
    most = _most_wal(directory)
    if most >= _MOST_BYTES:
        return []
    # A checkpoint that is spread over most of the time until the next one lets the log grow to two and a half times its size under load.
    return [
        ("max_wal_size", f"{most >> 20}MB"),
        ("min_wal_size", f"{_LEAST_BYTES >> 20}MB"),
        ("checkpoint_completion_target", "0"),
    ]


def wal_growth(data: Path) -> int:
    """Bytes the log may still grow by: up to its size, and the next segment, which is made before an old one may be used again."""
    directory = data / "postgres"
    try:
        with os.scandir(directory / "pg_wal") as entries:
            now = sum(entry.stat().st_size for entry in entries if entry.is_file())
        most = _most_wal(directory)
    except OSError:  # it is being made, or moved
        return WAL_SEGMENT_BYTES
    return max(0, most - now) + WAL_SEGMENT_BYTES
