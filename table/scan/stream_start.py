"""Where a stream begins (`paimon-append.md` §8.1, streaming column)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from model.errors import InvalidOption, SnapshotNotExist
from model.options.scan import parse_time
from model.options.scan_mode import SNAPSHOT_OPTIONS_OF_BATCHES, scan_mode
from model.options.table import TABLE_OPTIONS
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.scan.compacted import last_compacted
from table.scan.stream import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A table's snapshots as far as they are there, oldest first."""

    table: str
    snapshots: Sequence[Snapshot]

    @property
    def earliest_id(self) -> int:
        """The oldest snapshot's id; 1 for a table without any."""
        return self.snapshots[0].id if self.snapshots else 1

    @property
    def next_id(self) -> int:
        """The id the next commit will get."""
        return self.snapshots[-1].id + 1 if self.snapshots else 1

    def known_at(self, cursor: Cursor) -> Cursor:
        """A start with the key of the snapshot on which it builds, so that a rollback is noticed also before anything is read.

        What is read whole is known itself, as is the oldest one, before which only the rollback to a tag goes. A start that waits for
        an id beyond the next one knows nothing.
        """
        keys = {snapshot.id: snapshot.key for snapshot in self.snapshots}
        before = None if cursor.whole else keys.get(cursor.next_snapshot_id - 1)
        return replace(cursor, before_key=before, own_key=keys.get(cursor.next_snapshot_id) if before is None else None)

    def shown(self) -> str:
        """What is there, for messages."""
        if not self.snapshots:
            return "the table has no snapshots"
        return f"the snapshots {self.earliest_id} to {self.snapshots[-1].id} are there"


def start_of(past: Past, options: Mapping[str, str], *, zone: str = "UTC") -> Cursor:
    """The cursor the scan options ask for; raises `InvalidOption` for options that contradict each other or belong to batch reads."""
    return past.known_at(_start_of(past, options, zone))


def _start_of(past: Past, options: Mapping[str, str], zone: str) -> Cursor:
    mode, key = _mode(options)
    latest = past.snapshots[-1] if past.snapshots else None
    if mode == "latest-full":
        return _whole(latest)
    if mode == "latest":
        return Cursor(next_snapshot_id=past.next_id)
    if mode == "compacted-full":
        return _whole(last_compacted(past.snapshots, options) or latest)
    assert key is not None
    number = parse_time(options[key], zone) if key == "scan.timestamp" else int(TABLE_OPTIONS.read(options, key))
    match mode:
        case "from-snapshot" | "from-snapshot-full":
            return Cursor(next_snapshot_id=max(number, past.earliest_id), whole=mode == "from-snapshot-full")
        case "from-creation-timestamp" if latest is not None and past.snapshots[0].time_millis < number:
            return _from_time(past, number)
        case "from-file-creation-time" | "from-creation-timestamp":
            return _whole(latest, created_since=number)
    return _from_time(past, number)


def resumed(past: Past, consumer: str, next_snapshot: int) -> Cursor:
    """The cursor of a consumer's progress; raises `SnapshotNotExist` where what it has not read is gone, or what it has read."""
    if next_snapshot < past.earliest_id:
        raise expired(past, next_snapshot, f"Consumer {consumer} of table {past.table}")
    if next_snapshot > past.next_id:
        raise SnapshotNotExist(
            f"Consumer {consumer} of table {past.table} would go on at snapshot {next_snapshot}, and {past.shown()}: the table was rolled "
            f"back or put back from a backup, or the consumer was set beyond it. CALL sys.reset_consumer({literal(past.table)}, "
            f"{literal(consumer)}, {past.next_id}) lets it go on with what comes next, an earlier snapshot's id with that one.",
            resource_name=past.table,
        )
    return past.known_at(Cursor(next_snapshot_id=next_snapshot))


def rolled_back(table: str, cursor: Cursor, way_out: str) -> SnapshotNotExist:
    """The failure of a stream that builds on a snapshot which is none of the table's past any more; it knows one."""
    assert cursor.known is not None
    which = "with which" if cursor.own_key is not None else "after which"
    return SnapshotNotExist(
        f"Table {table} was rolled back to before snapshot {cursor.known[0]}, {which} this stream goes on{way_out}", resource_name=table
    )


def expired(past: Past, wanted: int, who: str) -> SnapshotNotExist:
    """The failure of a stream whose next snapshot is no more."""
    return SnapshotNotExist(
        f"{who} would go on at snapshot {wanted}, which has expired; {past.shown()}. Start there with "
        f"'scan.snapshot-id' = '{past.earliest_id}', with 'consumer.ignore-progress' = 'true' where a consumer is named, and read with a "
        "'consumer-id' or keep snapshots longer ('snapshot.time-retained') so that nothing is missed again.",
        resource_name=past.table,
    )


def _whole(snapshot: Snapshot | None, created_since: int | None = None) -> Cursor:
    # Paimon asks for the starting snapshot again until there is one: the first is read whole then, an OVERWRITE, too.
    first = 1 if snapshot is None else snapshot.id
    return Cursor(next_snapshot_id=first, whole=True, created_since=created_since)


def _from_time(past: Past, millis: int) -> Cursor:
    later = next((s.id for s in past.snapshots if s.time_millis >= millis), past.next_id)
    return Cursor(next_snapshot_id=later)


def _mode(options: Mapping[str, str]) -> tuple[str, str | None]:
    mode, key = scan_mode(options)
    if mode in ("incremental", "latest-delta") or key in SNAPSHOT_OPTIONS_OF_BATCHES:
        raise InvalidOption(f"{_named(mode, key)} belongs to batch reads; a stream cannot start there.")
    return mode, key


def _named(mode: str, key: str | None) -> str:
    return f"Option '{key}'" if key else f"Option 'scan.mode' = '{mode}'"
