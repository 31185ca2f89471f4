"""The sides of one table that people look at: its schemas, snapshots, files of a bucket, readers and merges."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from catalog.records import CompactionRunRow
from lake.inspect.browse import shown_partition
from lake.streams.snapshot_steps import TableStream
from lake.tables.handle import LakeTable
from model.access import Access, table_resource
from model.options.masking import masked_all
from model.schema.schema import Schema
from model.schema.types import Field
from model.snapshot import Snapshot
from model.wall_clock import epoch_of_wall, utc_of
from table.format.consumers import read_consumers
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.rows.stats import column_stats
from table.write.snapshot_builder import COMMITTED_BY

if TYPE_CHECKING:
    from lake.lake import Lake

# Schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing a version of a schema changed."""

    kind: str
    """``add``, ``remove`` or ``change``."""
    what: str
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """A version of a schema, and what it changed."""

    id: int
    time_millis: int
    changes: tuple[Change, ...]


def schema_history(lake: Lake, table: LakeTable) -> list[SchemaVersion]:
    """Every version, newest first; the first one adds what it has."""
    with lake.catalog.reading() as tx:
        schemas = [Schema.from_json(body) for _, body in tx.tables.schemas(table.table_id, table.identifier.branch)]
    versions = [
        SchemaVersion(id=new.id, time_millis=new.time_millis, changes=tuple(_changes(old, new)))
        for old, new in zip([None, *schemas], schemas, strict=False)
    ]
    return versions[::-1]


def _changes(old: Schema | None, new: Schema) -> list[Change]:
    before = {} if old is None else {f.id: f for f in old.fields}
    after = {f.id: f for f in new.fields}
    changes = [Change(kind="remove", what=f"column {f.name}", old=f.type.sql()) for id_, f in before.items() if id_ not in after]
    for id_, column in after.items():
        if id_ not in before:
            changes.append(Change(kind="add", what=f"column {column.name}", new=column.type.sql()))
        else:
            changes += _column_changes(before[id_], column)
    common = [id_ for id_ in before if id_ in after]
    if common != [id_ for id_ in after if id_ in before]:
        changes.append(Change(kind="change", what="order of columns", new=", ".join(f.name for f in new.fields)))
    if old is not None and old.comment != new.comment:
        changes.append(Change(kind="change", what="comment", old=old.comment, new=new.comment))
    return changes + _option_changes({} if old is None else masked_all(old.options), masked_all(new.options))


def _column_changes(old: Field, new: Field) -> list[Change]:
    changes = []
    if old.name != new.name:
        changes.append(Change(kind="change", what="name of a column", old=old.name, new=new.name))
    if old.type != new.type:
        changes.append(Change(kind="change", what=f"type of {new.name}", old=old.type.sql(), new=new.type.sql()))
    if old.description != new.description:
        changes.append(Change(kind="change", what=f"comment of {new.name}", old=old.description, new=new.description))
    return changes


def _option_changes(old: dict[str, str], new: dict[str, str]) -> list[Change]:
    changes = []
    for key in sorted({*old, *new}):
        was, is_ = old.get(key), new.get(key)
        if was != is_:
            kind = "add" if was is None else "remove" if is_ is None else "change"
            changes.append(Change(kind=kind, what=f"option {key}", old=was, new=is_))
    return changes


# Snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLine:
    """A snapshot with what its own commit added and removed."""

    snapshot: Snapshot
    added_files: int
    removed_files: int
    added_bytes: int
    removed_bytes: int
    added_rows: int
    """In the files it added; a merge adds the rows it removes."""
    who: str | None
    """Who was logged in; None where nobody has to, and for writers that came by other protocols."""
    tags: tuple[str, ...] = ()


def snapshot_page(lake: Lake, table: LakeTable, *, below: int | None, limit: int) -> list[SnapshotLine]:
    """Snapshots below an id, newest first."""
    tags: dict[int, list[str]] = {}
    for row in lake.tags.all(table):
        tags.setdefault(int(row.snapshot["id"]), []).append(row.name)
    return [_line(table, s, tuple(tags.get(s.id, ()))) for s in lake.history.page(table, below=below, limit=limit)]


def _line(table: LakeTable, snapshot: Snapshot, tags: tuple[str, ...]) -> SnapshotLine:
    files, sizes, rows = {EntryKind.ADD: 0, EntryKind.DELETE: 0}, {EntryKind.ADD: 0, EntryKind.DELETE: 0}, 0
    try:
        for entry in table.files.delta_entries(snapshot):
            files[entry.kind] += 1
            sizes[entry.kind] += entry.file.file_size
            rows += entry.file.row_count if entry.kind is EntryKind.ADD else 0
    except FileNotFoundError:  # expired while it was looked at
        pass
    return SnapshotLine(
        snapshot=snapshot,
        added_files=files[EntryKind.ADD],
        removed_files=files[EntryKind.DELETE],
        added_bytes=sizes[EntryKind.ADD],
        removed_bytes=sizes[EntryKind.DELETE],
        added_rows=rows,
        who=snapshot.properties.get(COMMITTED_BY),
        tags=tags,
    )


# Files of a bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """A data file with the statistics of its columns."""

    name: str
    rows: int
    size: int
    level: int
    created_millis: int
    schema_id: int
    source: str | None
    columns: tuple[tuple[str, Any, Any, int | None], ...] = field(default=())
    """Name, smallest, largest value and the number of NULLs."""


def files_of(lake: Lake, table: LakeTable, snapshot: Snapshot | None, *, partition: str, bucket: int, limit: int) -> list[FileLine]:
    """The first files of one bucket; raises `Forbidden` where rows are kept from the caller."""
    lake.require_whole(table, "files")
    if snapshot is None:
        return []
    live = table.files.live_of(snapshot)
    names: dict[bytes, str] = {}

    def wanted(row: bytes) -> bool:
        if row not in names:
            names[row] = shown_partition(table, row)
        return names[row] == partition

    entries = live.within([row for row in live.partitions() if wanted(row)], [bucket])
    return [_file(table, entry) for entry in islice(entries, limit)]


def _file(table: LakeTable, entry: ManifestEntry) -> FileLine:
    file = entry.file
    stats = column_stats(file.value_stats, file.value_stats_cols, table.schema_at(file.schema_id))
    return FileLine(
        name=file.file_name,
        rows=file.row_count,
        size=file.file_size,
        level=file.level,
        created_millis=epoch_of_wall(file.creation_time_millis),
        schema_id=file.schema_id,
        source=None if file.file_source is None else file.file_source.name,
        columns=tuple((name, bounds.min, bounds.max, bounds.null_count) for name, bounds in stats.items()),
    )


# Readers and merges


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A consumer and how far it is behind."""

    name: str
    next_snapshot: int
    snapshots_behind: int
    rows_behind: int | None
    """Rows appended since; None where the snapshot it would have read is gone."""
    oldest_unread_millis: int | None
    updated_millis: int


def readers(lake: Lake, table: LakeTable, latest: Snapshot | None) -> list[Reader]:
    """The table's consumers, those furthest behind first."""
    lake.caller.require(Access.SELECT, table_resource(table.identifier))
    known = {s.id: s for s in lake.snapshots(table)}
    return sorted((_reader(entry.name, entry.next_snapshot, entry.updated_millis, known, latest) for entry in read_consumers(table.files)),
                  key=lambda reader: -reader.snapshots_behind)  # fmt: skip


def _reader(name: str, following: int, updated: int, known: dict[int, Snapshot], latest: Snapshot | None) -> Reader:
    unread = [s for s in known.values() if s.id >= following]
    complete = following in known or latest is None or following > latest.id
    return Reader(
        name=name,
        next_snapshot=following,
        snapshots_behind=max(0, latest.id - following + 1) if latest else 0,
        rows_behind=sum(s.delta_record_count for s in unread if s.commit_kind == "APPEND") if complete else None,
        oldest_unread_millis=min((s.time_millis for s in unread), default=None),
        updated_millis=updated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStream:
    """A streaming query that this server follows the table for."""

    who: str
    began: float
    """Seconds since 1970."""
    consumer: str | None
    next_snapshot: int
    snapshots_behind: int
    """Snapshots that added rows, as everywhere where a stream's lag is told in them."""
    rows_behind: int


def streams(lake: Lake, table: LakeTable) -> list[OpenStream]:
    """The caller's open streams of a table, an administrator's are all; the oldest first."""
    open_streams = [
        stream for stream in lake.open_streams.of(table.table_id) if lake.caller.administrator or stream.who == lake.caller.principal
    ]
    added = [s for s in lake.snapshots(table) if s.commit_kind == "APPEND"] if open_streams else []
    return [_stream(stream, [s for s in added if s.id >= stream.cursor.next_snapshot_id]) for stream in open_streams]


def _stream(stream: TableStream, unread: Sequence[Snapshot]) -> OpenStream:
    return OpenStream(
        who=stream.who,
        began=stream.began,
        consumer=stream.consumer,
        next_snapshot=stream.cursor.next_snapshot_id,
        snapshots_behind=len(unread),
        rows_behind=sum(s.delta_record_count for s in unread),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge of small files, with what there was before it and after."""

    started: dt.datetime
    seconds: float | None
    """None for one by hand: its snapshot alone is known."""
    outcome: str
    reason: str
    message: str | None
    snapshot_id: int | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int


def merges(lake: Lake, table: LakeTable, *, limit: int) -> list[Merge]:
    """The newest merges, newest first, also those by hand whose snapshots are kept."""
    with lake.catalog.reading() as tx:
        runs = tx.compactions.of(table.table_id)
        compacted = [
            Snapshot.from_json(row.body) for row in tx.snapshots.newest_of(table.table_id, table.identifier.branch, "COMPACT", most=limit)
        ]
    noted = {run.snapshot_id for run in runs}
    noted_merges = [_noted(run) for run in runs] + [_by_hand(_line(table, s, ())) for s in compacted if s.id not in noted]
    return sorted(noted_merges, key=lambda one: one.started, reverse=True)[:limit]


def _noted(run: CompactionRunRow) -> Merge:
    return Merge(
        started=run.started_at, seconds=(run.ended_at - run.started_at).total_seconds(), outcome=run.outcome, reason=run.reason,
        message=run.message, snapshot_id=run.snapshot_id, files_before=run.files_before, files_after=run.files_after,
        bytes_before=run.bytes_before, bytes_after=run.bytes_after, rows=run.row_count,
    )  # fmt: skip


def _by_hand(line: SnapshotLine) -> Merge:
    return Merge(
        started=utc_of(line.snapshot.time_millis), seconds=None, outcome="done",
        reason="by hand" if line.who is None else f"by {line.who}", message=None, snapshot_id=line.snapshot.id,
        files_before=line.removed_files, files_after=line.added_files, bytes_before=line.removed_bytes, bytes_after=line.added_bytes,
        rows=line.added_rows,
    )  # fmt: skip
