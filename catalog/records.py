"""Rows of the catalog as dataclasses, for psycopg's ``class_row``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRow:
    """A database."""

    name: str
    comment: str | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A table with its newest schema."""

    table_id: UUID
    database: str
    name: str
    location: str
    schema_id: int
    published_schema_id: int
    moving_from: str | None
    diverged_at: str | None
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A decided snapshot, and whether its file is known to exist."""

    snapshot_id: int
    snapshot_uuid: str
    body: Mapping[str, Any]
    published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRow:
    """What a key did or is doing."""

    body_hash: str
    owner: UUID
    alive: bool
    answer: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTable:
    """A table as whoever looks after tables sees it."""

    table_id: UUID
    database: str
    name: str
    snapshot_id: int
    snapshot_uuid: str
    owner: UUID | None
    """The server process that looks after it now; None while none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRunRow:
    """What one compaction did."""

    started_at: datetime
    ended_at: datetime
    reason: str
    outcome: str
    message: str | None
    snapshot_id: int | None
    tasks: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    row_count: int
    server: str
