"""Which snapshots may go, and which files nothing needs once they are gone (`paimon-append.md` §6.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from model.snapshot import MIGRATE, Snapshot
from model.text.file_name import file_name
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.store import TableFiles
from table.retention.named_again import KeptBeside, named_again
from table.retention.named_files import metadata_of, paths_of
from table.scan.skipping.partition_filter import BucketFilter


def _option(schema: Schema, key: str) -> Any:
    return TABLE_OPTIONS.read(schema.options, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRules:
    """How many snapshots are kept, and how long."""

    at_least: int
    at_most: int | None
    retained: timedelta
    per_run: int | None
    """Snapshots that go in one run at most; None for no limit."""
    keeps_shared: bool = True
    """Whether of a branch the newest snapshot stays that main has, too, and all after it: a fast-forward goes on from there."""

    @classmethod
    def of(cls, schema: Schema) -> ExpiryRules:
        """What a table's options say."""
        return cls(
            at_least=_option(schema, "snapshot.num-retained.min"),
            at_most=_option(schema, "snapshot.num-retained.max"),
            retained=_option(schema, "snapshot.time-retained"),
            per_run=_option(schema, "snapshot.expire.limit"),
        )


def expired_before(
    made_millis: Mapping[int, int], rules: ExpiryRules, *, first_unread: int | None, now_millis: int, latest: int | None = None
) -> int:
    """The id below which snapshots go; the first kept id where none does.

    ``made_millis`` has the ids of the history, and since when there is each. A snapshot is too old only when its successor is: the one
    that was current at the age limit stays. The history may be cut off behind what one run takes and its successor; ``latest`` then says
    where it really ends.
    """
    if not made_millis:
        return 0
    earliest = min(made_millis)
    latest = max(made_millis) if latest is None else latest
    end = latest - rules.at_least + 1
    if first_unread is not None:
        end = min(end, first_unread)
    if rules.per_run is not None:
        end = min(end, earliest + rules.per_run)
    begin = earliest if rules.at_most is None else max(latest - rules.at_most + 1, earliest)
    if begin >= end:
        return max(end, earliest)
    limit = now_millis - int(rules.retained.total_seconds() * 1000)
    for snapshot_id in range(begin, end):
        succeeded = made_millis.get(snapshot_id + 1)
        if succeeded is None or succeeded >= limit:
            return snapshot_id
    return end


@dataclass(slots=True)
class Garbage:
    """Paths nothing needs any more, in the order they may be deleted."""

    data: dict[str, int] = field(default_factory=dict)
    """Data files and what lies beside them, with their bytes."""
    metadata: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return sum(self.data.values()) + sum(self.metadata.values())

    def without(self, names: Set[str]) -> Garbage:
        """What of it has none of some names."""
        data, metadata = ({p: size for p, size in of.items() if file_name(p) not in names} for of in (self.data, self.metadata))
        return Garbage(data=data, metadata=metadata)


CameBack = Callable[[], Sequence[Snapshot]]
"""The snapshots after another that tell of what was there again: those that may take files away, and at last the latest."""


def left_by_expiry(
    files: TableFiles, schema: Schema, expired: Sequence[Snapshot], kept: Sequence[Snapshot], first: Snapshot, came_back: CameBack
) -> Garbage:
    """What only the expired snapshots needed.

    ``first`` is the earliest snapshot that stays; ``kept`` are tags and branches, which keep what they need. ``came_back`` is asked for
    the snapshots after the first, where something is to go: what went may be there again.
    """
    gone: dict[str, _Candidate] = {}
    extra = False
    for snapshot in [*expired[1:], first]:
        entries = list(files.delta_entries(snapshot))
        for entry in entries:
            if entry.kind is EntryKind.DELETE:
                gone.update(_candidates(files, schema, entry))
                extra |= bool(entry.file.extra_files)
        for entry in entries:  # a file that got another index is removed and added in one snapshot
            if entry.kind is EntryKind.ADD:
                for path in _candidates(files, schema, entry):
                    gone.pop(path, None)
    beside = {(snapshot.index_manifest, snapshot.statistics) for snapshot in expired} - {(first.index_manifest, first.statistics)}
    again = came_back() if gone or beside else ()
    if extra and not again:  # what lies beside a file may be called as a live one: commits that earlier versions took said so
        again = [first]
    return _garbage(files, schema, gone, expired, [first], [*kept, *again[-1:]], again[:-1])


def _added(files: TableFiles, schema: Schema, snapshots: Iterable[Snapshot]) -> dict[str, _Candidate]:
    """The files that the deltas of some snapshots add."""
    added: dict[str, _Candidate] = {}
    for snapshot in snapshots:
        for entry in files.delta_entries(snapshot):
            if entry.kind is EntryKind.ADD:
                added.update(_candidates(files, schema, entry))
    return added


def _elsewhere(files: TableFiles, schema: Schema, snapshots: Sequence[Snapshot]) -> set[str]:
    """The data files elsewhere that some snapshots made the table's, or found and added again: an index beside may be new, they are not.

    Who made the table's what was found may have expired, so that nobody can tell whether there is another copy.
    """
    made: set[str] = set()
    stay: set[str] = set()
    for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.id):
        external = [entry for entry in files.delta_entries(snapshot) if entry.file.external_path is not None]
        added = {files.data_path(schema, entry) for entry in external if entry.kind is EntryKind.ADD}
        removed = {files.data_path(schema, entry) for entry in external if entry.kind is EntryKind.DELETE} - made
        stay |= added if snapshot.done == MIGRATE else removed
        made |= added - stay
    return stay


def left_by_rollback(
    files: TableFiles, schema: Schema, removed: Sequence[Snapshot], before: Sequence[Snapshot], kept: Sequence[Snapshot]
) -> Garbage:
    """What only the snapshots after those ``before`` needed, which are rolled back: the files they added and none before had.

    Files that were migrated stay where they lie: they are as they were, and there may be no other copy of them.
    """
    to = before[-1]
    added = _added(files, schema, removed)
    for path in _elsewhere(files, schema, removed):
        added.pop(path, None)
    named = {name: snapshot for snapshot in before for name in (snapshot.index_manifest, snapshot.statistics) if name is not None}
    same = [named[name] for snapshot in removed for name in (snapshot.index_manifest, snapshot.statistics) if name in named]
    takers = [snapshot for snapshot in before if snapshot.may_take_files] if added else []  # what was there and came back, see `CameBack`
    return _garbage(files, schema, added, removed, same, [to, *kept], takers)


def left_by_branch(files: TableFiles, schema: Schema, gone: Sequence[Snapshot], kept: Sequence[Snapshot]) -> Garbage:
    """What only snapshots at the end of a line of history needed: the files they added."""
    return _garbage(files, schema, _added(files, schema, gone), gone, [], kept)


def left_by_tag(files: TableFiles, schema: Schema, tagged: Snapshot, beside: KeptBeside) -> Garbage:
    """What only a dropped tag needed, whose snapshot has expired."""
    live: dict[str, _Candidate] = {}
    for entry in files.live_entries(tagged):
        live.update(_candidates(files, schema, entry))
    return _garbage(files, schema, live, [tagged], [], beside.kept, beside.takers)


_Candidate = tuple[bytes, int]
"""The partition of a file that may go, and its bytes where they are known."""


def _candidates(files: TableFiles, schema: Schema, entry: ManifestEntry) -> dict[str, _Candidate]:
    """An entry's data file and what lies beside it, by path."""
    data, *beside = paths_of(files, schema, entry)
    return {data: (entry.partition, entry.file.file_size), **dict.fromkeys(beside, (entry.partition, 0))}


def _garbage(  # noqa: PLR0913 - who keeps what in which way
    files: TableFiles,
    schema: Schema,
    candidates: Mapping[str, _Candidate],
    gone: Iterable[Snapshot],
    stay: Iterable[Snapshot],
    kept: Sequence[Snapshot],
    takers: Sequence[Snapshot] = (),
) -> Garbage:
    garbage = Garbage()
    used = _names_used(files, schema, candidates, kept)
    for path, (_, size) in candidates.items():
        if path.rpartition("/")[2] not in used:
            garbage.data[path] = size
    needed = {path for snapshot in (*stay, *kept) for path, _ in metadata_of(files, snapshot)}
    for snapshot in gone:
        garbage.metadata.update((path, size) for path, size in metadata_of(files, snapshot) if path not in needed)
    names = {file_name(path) for path in (*garbage.data, *garbage.metadata)}
    return garbage.without(named_again(files, schema, takers, names)) if takers and names else garbage


def _names_used(files: TableFiles, schema: Schema, candidates: Mapping[str, _Candidate], kept: Sequence[Snapshot]) -> set[str]:
    """Names, of the candidates' partitions' files and of what lies beside them, that something kept needs."""
    partitions = {partition for partition, _ in candidates.values()}
    if not partitions or not kept:
        return set()
    touched = BucketFilter([f.type for f in schema.partition_fields], partitions)
    names = {path.rpartition("/")[2] for path in candidates}
    used: set[str] = set()
    for snapshot in kept:
        used |= files.live_among(snapshot, touched.may_hold).names_among(names, partitions)
    return used


def without_limit(rules: ExpiryRules) -> ExpiryRules:
    """The same rules for a run that does all at once."""
    return replace(rules, per_run=None)
