"""Rows of the catalog as dataclasses, for psycopg's ``class_row``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRow:
    """A database."""

    name: str
    comment: str | None
    options: Mapping[str, str]
    owner: str | None
    created_at: dt.datetime
    created_by: str | None
    updated_at: dt.datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpublishedRow:
    """What is still to be written of the versions of a branch's schema."""

    location: str
    schema_id: int
    """The present one."""
    published: int
    """The newest whose file was written, and those before it; -1 where none was."""
    bodies: list[dict[str, Any]]
    """Those whose files may not be there, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedRow:
    """A directory that is garbage, by Postgres's clock since when."""

    dropped_at: dt.datetime
    known: Mapping[str, Any] | None
    """Of the table or branch it was of: the times of its ``schemas``, the uuids of its ``snapshots``, and ``stale`` paths."""
    being_filled: bool
    """Whether somebody fills it now for a table that is to be: it is garbage only where that does not come to be."""

    @property
    def renamed(self) -> tuple[UUID, str] | None:
        """The table and the name by now of a branch that was renamed, while what its files alone tell lies here still."""
        renamed = (self.known or {}).get("renamed")
        return None if renamed is None else (UUID(renamed["table"]), renamed["branch"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A table, or a branch of one, with its newest schema."""

    table_id: UUID
    database: str
    name: str
    branch: str
    location: str
    external: bool
    allowed_locations: list[str] | None
    """Where files of it may lie besides its directory; None for a table from before this was recorded."""
    schema_id: int
    published_schema_id: int
    moving_from: str | None
    diverged_at: str | None
    stale: bool
    """Whether files of snapshots or schemas that are no more lie there still."""
    owner: str | None
    created_at: dt.datetime
    created_by: str | None
    updated_at: dt.datetime
    updated_by: str | None
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A decided snapshot, and whether its file is known to exist."""

    snapshot_id: int
    snapshot_uuid: str
    body: Mapping[str, Any]
    published: bool
    decided_at: dt.datetime | None = None
    """When this catalog decided it, by Postgres's clock; None where another did, whose files were taken over, or an earlier version."""

    @property
    def made_millis(self) -> int:
        """Since when it is there, in milliseconds since 1970: the later of that and of what it says, as its maker's clock may be behind."""
        said = int(self.body["timeMillis"])
        return said if self.decided_at is None else max(said, int(self.decided_at.timestamp() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRow:
    """What a key did or is doing."""

    body_hash: str
    owner: UUID
    alive: bool
    answer: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTable:
    """A table as its maintenance sees it."""

    table_id: UUID
    database: str
    name: str
    snapshot_id: int
    snapshot_uuid: str
    schema_id: int
    overdue_since: dt.datetime | None
    """Since when time has made something due though nothing was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentTable:
    """A table that is there, as a server sees it that has maintained it."""

    table_id: UUID
    database: str
    name: str
    taken: bool
    """Whether another server maintains it."""
    settled: str | None
    """The key of its latest snapshot where nothing is to be done as of that; falling due by time is not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledTable:
    """A table of which nothing is to be done for some seconds unless something is committed or its options change."""

    table_id: UUID
    snapshot_uuid: str
    schema_id: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRunRow:
    """What one compaction did."""

    started_at: dt.datetime
    ended_at: dt.datetime
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRunRow(CompactionRunRow):
    """A compaction with the table it was of."""

    database: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRow:
    """What a commit is compared with: a table or branch, and the snapshot it points at."""

    table_id: UUID
    location: str
    allowed_locations: list[str] | None
    moving_from: str | None
    diverged_at: str | None
    stale: bool
    schema_id: int
    snapshot_id: int | None
    snapshot_key: str | None
    snapshot_uuid: str | None
    """As its client sent it; old clients send none, and the key stands for it in the catalog."""
    snapshot_schema_id: int | None
    published: bool | None
    partition_keys: list[str]
    beside: list[str]
    """What tells whether the table's other branches and its tags are what they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """A snapshot kept under a name."""

    name: str
    snapshot: Mapping[str, Any]
    created_millis: int | None
    retained: str | None
    published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsRow:
    """What a branch's latest snapshot holds; ``counted`` and ``listed`` tell whether these numbers and the partitions' rows do hold."""

    snapshot_uuid: str
    record_count: int
    file_size: int
    file_count: int
    last_file_millis: int
    counted: bool
    listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition: what its files hold, and what clients said of it."""

    name: str
    spec: Mapping[str, str]
    record_count: int
    file_size: int
    file_count: int
    last_file_millis: int
    total_buckets: int
    explicit: bool
    done: bool
    options: Mapping[str, str]
    created_at: dt.datetime
    created_by: str | None
    updated_at: dt.datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRow:
    """A view or a function: a body the protocol's clients wrote, under a name."""

    id: UUID
    database: str
    name: str
    body: Mapping[str, Any]
    owner: str | None
    created_at: dt.datetime
    created_by: str | None
    updated_at: dt.datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """How far a consumer is, and what its file was last made to say; None where nothing was told yet."""

    next_snapshot: int | None
    written: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFileRow:
    """A file to be removed as long as it holds what its mark says."""

    path: str
    mark: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """How many there are of everything that may need attention."""

    asked_at: dt.datetime
    """By Postgres's clock."""
    tables: int
    unpublished_snapshots: int
    expired_table_leases: int
    expired_job_leases: int
    diverged: list[list[str]]
    """Database and name of each, and the file that shows it."""
    unattended: list[str]
    """Tables with snapshots that no server maintains now."""
    jobs: Mapping[str, int]
    """By state."""
    dropped_tables: int
    """Kept for UNDROP, and the bytes of their latest snapshots."""
    dropped_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLagRow:
    """A consumer that has not read all of its table."""

    database: str
    table_name: str
    branch: str
    name: str
    next_snapshot: int
    latest: int
    updated_at: dt.datetime

    @property
    def behind(self) -> int:
        """Snapshots it has not read."""
        return self.latest - self.next_snapshot + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRow:
    """What tells a catalog from others."""

    catalog_id: UUID | None
    """None where its row is gone."""
    revision: str
    """Of its schema."""
    has_tables: bool
    """Whether it holds a table, or keeps a dropped one."""
    warehouse: str | None
    """The warehouse that bears its mark, as the server spelled it that wrote the mark; None before the first did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRow:
    """The time, by Postgres, and what is on record of earlier times."""

    now: dt.datetime
    seen_at: dt.datetime | None
    """When expiry last ran by a clock that was right."""
    confirmed_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """A server of the catalog."""

    number: int
    name: str
    """Host and process, for people."""
    url: str | None
    """Where the others reach it; None before it serves, and after it has stopped."""
    alive: bool
    """Whether it was seen lately."""
    silent: float
    """For how many seconds it was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerRow:
    """Where a table or branch points, and where it lies."""

    table_id: UUID
    database: str
    table_name: str
    branch: str
    location: str
    body: Mapping[str, Any] | None
    """The snapshot; None where there is none yet."""
    top_schema_id: int
    """The highest number that a version of the table's schema has or had, on whichever branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFilesRow:
    """A table of many small files."""

    database: str
    table_name: str
    file_count: int
    file_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Something somebody did, or tried to do."""

    time: dt.datetime
    principal: str
    protocol: str
    address: str | None
    request_id: str | None
    session: str | None
    statement_id: str | None
    action: str
    outcome: str
    error_class: str | None
    millis: int
    id: int = 0
    """Its place in the log; the log's to give."""
