"""Which snapshot a batch read sees (`paimon-append.md` §8.1, batch column)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from catalog import CatalogStore
from lake.table import LakeTable
from lake.tags import Tags
from model.errors import InvalidOption, SnapshotNotExist, TagNotExist
from model.scan_options import parse_time
from model.snapshot import Snapshot

_MODES = {
    "scan.snapshot-id": "from-snapshot",
    "scan.tag-name": "from-snapshot",
    "scan.watermark": "from-snapshot",
    "scan.version": "from-snapshot",
    "scan.timestamp-millis": "from-timestamp",
    "scan.timestamp": "from-timestamp",
}
TRAVEL_OPTIONS = frozenset(_MODES) | {"scan.mode"}


def resolve(catalog: CatalogStore, tags: Tags, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> Snapshot | None:
    """The snapshot the options ask for, or the latest; None for a table without snapshots.

    Raises `InvalidOption` for options that contradict each other, `SnapshotNotExist` or `TagNotExist` saying what exists.
    """
    chosen = [key for key in _MODES if key in options]
    mode = options.get("scan.mode", "default").lower()
    if len(chosen) > 1:
        raise InvalidOption(f"The options {' and '.join(repr(key) for key in chosen)} name two starting points; keep one of them.")
    if not chosen:
        if mode not in ("default", "latest-full", "full", "latest"):
            raise InvalidOption(f"Option 'scan.mode' = '{mode}' needs the option that says where to start.")
        return table.latest()
    key = chosen[0]
    if mode != "default" and mode not in (_MODES[key], _MODES[key] + "-full"):
        raise InvalidOption(f"Option 'scan.mode' = '{mode}' does not go with '{key}'.")
    latest = table.latest()  # publishes what is decided, so that the history below is whole
    return _Travel(catalog, tags, table, latest).to(key, options[key].strip(), zone)


class _Travel:
    def __init__(self, catalog: CatalogStore, tags: Tags, table: LakeTable, latest: Snapshot | None) -> None:
        self._catalog = catalog
        self._tags = tags
        self._table = table
        self._latest = latest

    def to(self, key: str, value: str, zone: str) -> Snapshot:
        if key == "scan.snapshot-id":
            return self._by_id(_whole(key, value))
        if key == "scan.tag-name":
            return self._by_tag(value)
        if key == "scan.watermark":
            return self._by_watermark(_whole(key, value))
        if key == "scan.timestamp-millis":
            return self._by_time(_whole(key, value))
        if key == "scan.timestamp":
            return self._by_time(parse_time(value, zone))
        return self._by_version(value)

    def _by_version(self, value: str) -> Snapshot:
        tagged = self._tags.find(self._table, value)
        if tagged is not None:
            return Snapshot.from_json(tagged.snapshot)
        if value.startswith("watermark-") and value[10:].isdigit():
            return self._by_watermark(int(value[10:]))
        if value.isdigit():
            return self._by_id(int(value))
        raise TagNotExist(value, str(self._table.identifier))

    def _by_id(self, snapshot_id: int) -> Snapshot:
        with self._catalog.reading() as tx:
            row = tx.snapshots.get(self._table.table_id, self._table.identifier.branch, snapshot_id)
        if row is None:
            raise self._missing(f"Snapshot {snapshot_id}")
        return Snapshot.from_json(row.body)

    def _by_tag(self, name: str) -> Snapshot:
        return Snapshot.from_json(self._tags.get(self._table, name).snapshot)

    def _by_time(self, millis: int) -> Snapshot:
        before = [s for s in self._history() if s.time_millis <= millis]
        if not before:
            raise self._missing(f"A snapshot from {_shown(millis)} or before")
        return before[-1]

    def _by_watermark(self, watermark: int) -> Snapshot:
        for snapshot in self._history():
            if snapshot.watermark is not None and snapshot.watermark >= watermark:
                return snapshot
        raise self._missing(f"A snapshot with a watermark of at least {watermark}")

    def _history(self) -> Sequence[Snapshot]:
        with self._catalog.reading() as tx:
            rows = tx.snapshots.history(self._table.table_id, self._table.identifier.branch)
        return [Snapshot.from_json(row.body) for row in rows]

    def _missing(self, what: str) -> SnapshotNotExist:
        name = str(self._table.identifier)
        history = self._history()
        if not history:
            return SnapshotNotExist(f"{what} of table {name} does not exist: the table has no snapshots yet.", resource_name=name)
        first, last = history[0], history[-1]
        return SnapshotNotExist(
            f"{what} of table {name} does not exist. It has the snapshots {first.id} ({_shown(first.time_millis)}) "
            f"to {last.id} ({_shown(last.time_millis)}).",
            resource_name=name,
        )


def _whole(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise InvalidOption(f"Option '{key}' = '{value}': a whole number is expected.") from None


def _shown(millis: int) -> str:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC).isoformat(sep=" ", timespec="milliseconds")
