"""The session zone and ANSI mode while our own expressions are analyzed; the user's query is analyzed under the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession


@contextlib.contextmanager
def plain(session: SparkSession) -> Iterator[None]:
    """Zone UTC and no ANSI inside the block: a clock time and its instant have the same number then."""
    keys = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}
    before = {key: session.conf.get(key) for key in keys}
    for key, value in keys.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is not None:
                session.conf.set(key, old)


def zone_of(session: SparkSession) -> str:
    """The zone a session reads and shows times in."""
    return session.conf.get("spark.sql.session.timeZone") or "UTC"


def in_utc(session: SparkSession) -> bool:
    """Whether that is UTC, where a clock time and its instant are one."""
    return zone_of(session) in ("UTC", "Z", "Etc/UTC")
