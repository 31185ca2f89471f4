"""Which part of a table's past a batch read covers (`paimon-append.md` §8.1, batch column, and 8.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from model.errors import InvalidOption, SnapshotNotExist, TagNotExist
from model.options.scan import parse_time
from model.options.scan_mode import SNAPSHOT_OPTIONS, scan_mode
from model.options.table import TABLE_OPTIONS
from model.partition import partition_name
from model.predicate import Predicate
from model.schema.schema import Schema
from model.snapshot import CommitKind, Snapshot
from model.text.whole_number import signed_number, whole_number
from model.wall_clock import epoch_of_wall, utc_of
from table.format.layout import partition_spec
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.rows import binary_row
from table.format.store import TableFiles
from table.retention.tag_periods import TagPeriods
from table.scan.compacted import last_compacted
from table.scan.planning.entry_scan import ScanPlan, check_alone, plan_entries, plan_scan


class Versions(ABC):
    """A table's snapshots and tags, wherever they are known from."""

    table: str
    """The table's name, for messages."""

    @abstractmethod
    def latest(self) -> Snapshot | None:
        """The newest snapshot."""

    @abstractmethod
    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id, where it is left."""

    @abstractmethod
    def history(self) -> Sequence[Snapshot]:
        """All that are left, oldest first."""

    @abstractmethod
    def tags(self) -> Mapping[str, Snapshot]:
        """The snapshots tags keep, by the tags' names."""

    def find_tag(self, name: str) -> Snapshot | None:
        """The snapshot a tag keeps; None where there is no such tag."""
        return self.tags().get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScan:
    """What is read: all of a snapshot, or a part of it."""

    snapshot: Snapshot | None
    """None for nothing."""
    created_since: int | None = None
    """Only files made at this time (milliseconds) or later."""
    added_by: tuple[Snapshot, ...] | None = None
    """Only what these snapshots added, each an APPEND."""
    without: Snapshot | None = None
    """Only what was not there by then."""
    schema_id: int | None = None
    """The version of the schema it is read by, where the options name a snapshot; the table's present one without it."""

    @property
    def whole(self) -> bool:
        """Whether it is all of the snapshot."""
        return self.created_since is None and self.added_by is None and self.without is None


NOTHING = BatchScan(snapshot=None)


def plan_batch(files: TableFiles, schema: Schema, scan: BatchScan, predicate: Predicate | None = None) -> ScanPlan:
    """The files of a batch read, in order; raises what `plan_scan` and `check_alone` raise."""
    check_alone(files, schema)
    if scan.whole:
        return plan_scan(files, schema, scan.snapshot, predicate)
    if scan.added_by is None:
        return plan_entries(files, schema, scan.snapshot, _entries(files, schema, scan), predicate)
    # Snapshot by snapshot: an overwrite starts a bucket's sequence numbers anew.
    plans = [plan_entries(files, schema, snapshot, _added(files, snapshot), predicate) for snapshot in scan.added_by]
    first_seen: dict[tuple[object, ...], int] = {}
    for planned in (planned for plan in plans for planned in plan.files):
        first_seen.setdefault(planned.partition, len(first_seen))
    return ScanPlan(
        snapshot_id=scan.snapshot.id if scan.snapshot else None,
        files=tuple(sorted((p for plan in plans for p in plan.files), key=lambda p: (first_seen[p.partition], max(p.bucket, 0)))),
        total_files=sum(plan.total_files for plan in plans),
        count_bytes=lambda: sum(plan.total_bytes for plan in plans),
        predicate=predicate,
        deleted=any(plan.deleted for plan in plans),
    )


def _added(files: TableFiles, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    return (entry for entry in files.delta_entries(snapshot) if entry.kind is EntryKind.ADD)


def _entries(files: TableFiles, schema: Schema, scan: BatchScan) -> Iterator[ManifestEntry]:
    earlier = list(files.live_entries(scan.without))
    before = {entry.key() for entry in earlier}
    buckets = {entry.partition: entry.total_buckets for entry in earlier} if schema.bucket != -1 else {}
    since = scan.created_since
    for entry in files.live_entries(scan.snapshot):
        if buckets.get(entry.partition, entry.total_buckets) != entry.total_buckets:
            _refuse_rescaled(schema, scan, entry, buckets[entry.partition])
        if entry.key() not in before and (since is None or epoch_of_wall(entry.file.creation_time_millis) >= since):
            yield entry


def _refuse_rescaled(schema: Schema, scan: BatchScan, entry: ManifestEntry, before: int) -> None:
    """Raise `InvalidOption`: all rows of a partition that was rescaled lie in new files, as if all had come anew."""
    assert scan.without is not None
    assert scan.snapshot is not None
    spec = partition_spec(schema, binary_row.decode([field.type for field in schema.partition_fields], entry.partition))
    name = partition_name(spec, schema.partition_keys)
    raise InvalidOption(
        f"Snapshots {scan.without.id} and {scan.snapshot.id} cannot be told apart: {f'partition {name}' if name else 'the table'} had "
        f"{before} buckets and has {entry.total_buckets}, so that all its rows lie in new files. Read from a tag that was made after it "
        f"was rescaled, or what was added since ('incremental-between' = '{scan.without.id},{scan.snapshot.id}')."
    )


def resolve(versions: Versions, options: Mapping[str, str], schema: Schema, *, zone: str = "UTC") -> BatchScan:
    """What the options ask for, those stored with the table under them; the latest snapshot where they say nothing.

    Raises `InvalidOption` for options that contradict each other, `SnapshotNotExist` or `TagNotExist` saying what exists.
    """
    return _Travel(versions, {**schema.options, **options}, schema, zone).scan()


class _Travel:
    def __init__(self, versions: Versions, options: Mapping[str, str], schema: Schema, zone: str) -> None:
        self._versions = versions
        self._options = options
        self._schema = schema
        self._zone = zone

    def scan(self) -> BatchScan:
        mode, key = scan_mode(self._options)
        latest = self._versions.latest()
        match mode:
            case "latest-full" | "latest":
                return BatchScan(snapshot=latest)
            case "latest-delta":
                return BatchScan(snapshot=latest, added_by=_appends([latest] if latest else []))
            case "compacted-full":
                return BatchScan(snapshot=last_compacted(self._versions.history(), self._options) or latest)
        assert key is not None
        if mode == "incremental":
            return self._incremental(key)
        start = self._from(mode, key, latest)
        return replace(start, schema_id=start.snapshot.schema_id) if key in SNAPSHOT_OPTIONS and start.snapshot else start

    def _from(self, mode: str, key: str, latest: Snapshot | None) -> BatchScan:
        if key == "scan.tag-name":
            return BatchScan(snapshot=self._by_tag(self._options[key].strip()))
        if key == "scan.version":
            return BatchScan(snapshot=self._by_version(self._options[key].strip()))
        number = parse_time(self._options[key].strip(), self._zone) if key == "scan.timestamp" else int(self._read(key))
        match mode, key:
            case _, "scan.watermark":
                return BatchScan(snapshot=self._by_watermark(number))
            case "from-snapshot-full", _:
                return BatchScan(snapshot=self._by_id(max(number, self._history[0].id if self._history else number)))
            case "from-snapshot", _:
                return BatchScan(snapshot=self._by_id(number))
            case "from-creation-timestamp", _ if self._history and self._history[0].time_millis < number:
                later = next((s for s in self._history if s.time_millis >= number), None)
                if later is not None:
                    return BatchScan(snapshot=later)
            case "from-timestamp", _:
                return BatchScan(snapshot=self._by_time(number))
        return BatchScan(snapshot=latest, created_since=number)

    def _read(self, key: str) -> int:
        value = TABLE_OPTIONS.read(self._options, key)
        assert isinstance(value, int)
        return value

    @cached_property
    def _history(self) -> Sequence[Snapshot]:
        return self._versions.history()

    @cached_property
    def _tags(self) -> Mapping[str, Snapshot]:
        return self._versions.tags()

    def _by_version(self, value: str) -> Snapshot:
        if (tagged := self._versions.find_tag(value)) is not None:
            return tagged
        if (watermark := whole_number(value.removeprefix("watermark-"))) is None:
            raise TagNotExist(value, self._versions.table)
        return self._by_id(watermark) if value.isdecimal() else self._by_watermark(watermark)

    def _by_id(self, snapshot_id: int) -> Snapshot:
        return self._versions.find(snapshot_id) or self._missing(f"Snapshot {snapshot_id}")

    def _by_tag(self, name: str) -> Snapshot:
        if (tagged := self._versions.find_tag(name)) is None:
            raise TagNotExist(name, self._versions.table)
        return tagged

    def _by_time(self, millis: int) -> Snapshot:
        return _last_until(self._history, millis) or self._missing(f"A snapshot from {_shown(millis)} or before")

    def _by_watermark(self, watermark: int) -> Snapshot:
        reached = (s for s in self._history if s.watermark is not None and s.watermark >= watermark)
        return next(reached, None) or self._missing(f"A snapshot with a watermark of at least {watermark}")

    def _missing(self, what: str) -> Snapshot:
        name = self._versions.table
        if not self._history:
            raise SnapshotNotExist(f"{what} of table {name} does not exist: the table has no snapshots yet.", resource_name=name)
        first, last = self._history[0], self._history[-1]
        raise SnapshotNotExist(
            f"{what} of table {name} does not exist. It has the snapshots {first.id} ({_shown(first.time_millis)}) "
            f"to {last.id} ({_shown(last.time_millis)}).",
            resource_name=name,
        )

    def _incremental(self, key: str) -> BatchScan:
        how = str(TABLE_OPTIONS.read(self._options, "incremental-between-scan-mode"))
        if how == "changelog":
            raise InvalidOption("Option 'incremental-between-scan-mode' = 'changelog': append tables have no changelog; 'delta' works.")
        if key == "incremental-to-auto-tag":
            return self._to_auto_tag(self._options[key].strip())
        start, comma, end = (part.strip() for part in self._options[key].partition(","))
        if not (comma and start and end) or "," in end:
            raise InvalidOption(f"Option '{key}' = '{self._options[key]}': two values with a comma between them are expected.")
        if key == "incremental-between-timestamp":
            return self._between_times(_time(start, self._zone), _time(end, self._zone), how)
        return self._between(start, end, how)

    def _between(self, start: str, end: str, how: str) -> BatchScan:
        """Two tags differ by files, unless their snapshots are meant; two ids by what was added between them."""
        if start in self._tags and end in self._tags:
            first, last = self._tags[start], self._tags[end]
            if not TABLE_OPTIONS.read(self._options, "incremental-between-tag-to-snapshot"):
                if first.id > last.id:
                    raise InvalidOption(f"Tag {start} is younger than tag {end}; the older one comes first in 'incremental-between'.")
                return BatchScan(snapshot=last, without=first)
            return self._range(first.id, last.id, how)
        first_id, last_id = whole_number(start), whole_number(end)
        if first_id is None or last_id is None:
            missing = next((name for name in (start, end) if name not in self._tags and whole_number(name) is None), start)
            raise TagNotExist(missing, self._versions.table)
        return self._range(first_id, last_id, how)

    def _range(self, start: int, end: int, how: str) -> BatchScan:
        """What was added after one snapshot, up to and with another."""
        if start > end:
            raise InvalidOption(f"Snapshot {start} is later than {end}; the earlier one comes first in 'incremental-between'.")
        if start == end:
            return NOTHING
        history = {s.id: s for s in self._history}
        earliest, latest = min(history, default=1), max(history, default=0)
        if start < earliest - 1 or end > latest:
            self._missing(f"A snapshot between {start} and {end}" if end > latest else f"Snapshot {start + 1}")
        if how == "diff":
            return BatchScan(snapshot=history[end], without=self._by_id(start) if start else None)
        return BatchScan(snapshot=history[end], added_by=_appends([history[id_] for id_ in range(start + 1, end + 1)]))

    def _between_times(self, start: int, end: int, how: str) -> BatchScan:
        """Times stand for the last snapshots that were there by then; without one the earliest counts, too."""
        if start > end:
            raise InvalidOption("The earlier time comes first in 'incremental-between-timestamp'.")
        history = self._history
        if start == end or not history or start > history[-1].time_millis or end < history[0].time_millis:
            return NOTHING
        first, last = _last_until(history, start), _last_until(history, end)
        assert last is not None
        return self._range(first.id if first else history[0].id - 1, last.id, how)

    def _to_auto_tag(self, name: str) -> BatchScan:
        """From the period before to the one of a tag that was made by itself."""
        if TABLE_OPTIONS.read(self._options, "tag.automatic-creation") == "none":
            raise InvalidOption("Option 'incremental-to-auto-tag' needs a table that makes tags by itself ('tag.automatic-creation').")
        periods = TagPeriods(self._schema)
        begin = periods.parse(name)
        if begin is None:
            raise InvalidOption(f"Option 'incremental-to-auto-tag' = '{name}': that is no name of a tag this table makes by itself.")
        if name not in self._tags:
            return NOTHING
        earlier = [(at, tag) for tag in self._tags if (at := periods.parse(tag)) is not None and at < begin]
        return BatchScan(snapshot=self._tags[name], without=self._tags[max(earlier)[1]]) if earlier else NOTHING


def _appends(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    return tuple(s for s in snapshots if s.commit_kind is CommitKind.APPEND)


def _last_until(history: Sequence[Snapshot], millis: int) -> Snapshot | None:
    return next((s for s in reversed(history) if s.time_millis <= millis), None)


def _time(text: str, zone: str) -> int:
    millis = signed_number(text)
    return millis if millis is not None else parse_time(text, zone, key="incremental-between-timestamp")


def _shown(millis: int) -> str:
    return utc_of(millis).isoformat(sep=" ", timespec="milliseconds")
