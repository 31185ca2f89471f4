"""Commits that clients built, decoded and judged by what they do: who may only add rows adds rows and does nothing else.

A client writes manifests past the server, so its snapshot is believed in nothing: its lists hold all that was live, what it merged
is what it merged, its counts are those of its entries, its times are near, its names stay inside the table.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from lake.commit.clients.added_files import fault_of_added
from lake.commit.clients.claimed_records import fault_of_records, name_fault, stats_fault, time_fault
from lake.commit.clients.index_lines import IndexChange, index_change
from lake.commit.clients.kept_rows import Place, same_counts, same_row_ids
from lake.commit.clients.live_digests import BYTES_A_FILE, Live, data_paths, live_in, path_digest
from lake.commit.clients.marks import Marks, WrongMarks
from lake.commit.clients.merged import dated_otherwise, renumbered_rows, same_manifest, told
from lake.commit.clients.rights import Rights
from lake.inspect.counts import sums_of_entries
from model.catalog_errors import InvalidCommit
from model.errors import LakeError, StorageFull, Unavailable
from model.identifier import Identifier
from model.options.table import is_on
from model.partition import PartitionStatistics
from model.schema.schema import Schema
from model.snapshot import CommitKind, Snapshot
from model.snapshot_numbers import CLOCK_SKEW_MILLIS, fault_of_numbers, fault_of_times
from table.format.cache import ByteCache
from table.format.manifests.codec import manifest_records
from table.format.manifests.columns import digest_of
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile, bounds_of, partition_stats
from table.format.manifests.typed import Look, wrong_entries
from table.format.statistics_file import statistics_in
from table.format.store import TableFiles
from table.scan.planning.live import merge_entries

_MOST_LIST_BYTES = 256 << 20
_CACHED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChanged:
    """Rows of the files that a commit adds, and of those that it takes away."""

    added: int
    taken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a commit does, as its manifests tell it."""

    statistics: tuple[PartitionStatistics, ...]
    rows: RowsChanged
    live: Live
    """What is live after it."""
    versions: frozenset[int]
    """The versions of the schema by which the files that it adds were written."""


class Judge:
    """Looks at clients' commits; remembers what is live where it has looked, so that a commit costs what it changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: ByteCache[tuple[UUID, str], _Known] = ByteCache(_CACHED_BYTES, lambda known: 200 + BYTES_A_FILE * len(known.live))

    def judge(  # noqa: PLR0913 - a commit and what it is held against
        self,
        table: Identifier,
        table_id: UUID,
        files: TableFiles,
        schema: Schema,
        base: Snapshot | None,
        snapshot: Snapshot,
        rights: Rights,
    ) -> Judged:
        """What the commit does; raises `InvalidCommit` for what no commit may do.

        Of ``rights`` what it takes is called, which raises for a caller who may not add rows, or take them away.
        """
        case = _Case(table, files, schema, base, snapshot)
        try:
            case.check_times()
            case.check_names()
            merged_away, merged = case.check_base()
            changes = case.changes()
            gone = case.deleted_already(changes)
        except (InvalidCommit, StorageFull, Unavailable):
            raise
        except LakeError as problem:  # a name that leads elsewhere, a file that is no manifest
            raise case.fault(problem.message) from problem
        except Exception as problem:  # hostile bytes make a decoder fail in any way
            raise case.fault(f"its manifests cannot be read: {problem or type(problem).__name__}") from problem
        case.check_merged(merged_away, merged, alone=not changes)
        live = case.check_changes(changes, self._known(table_id, table.branch, files, schema, base))
        case.check_counts(changes, gone)
        case.check_row_ids(changes)
        takes_away = case.takes_away(changes)
        if takes_away or case.goes_back():
            rights.delete()
        if snapshot.commit_kind is CommitKind.COMPACT and changes:
            rights.replace(table_id)
        if case.index.adds_index and not takes_away:
            rights.index(table_id)
        if not takes_away or any(entry.kind is EntryKind.ADD for entry in changes):
            rights.insert()
        versions = frozenset(entry.file.schema_id for entry in changes if entry.kind is EntryKind.ADD)
        rows = RowsChanged(
            added=sum(entry.file.row_count for entry in changes if entry.kind is EntryKind.ADD),
            taken=sum(entry.file.row_count for entry in changes if entry.kind is EntryKind.DELETE),
        )
        return Judged(statistics=tuple(sums_of_entries(schema, changes)), live=live, versions=versions, rows=rows)

    def decided(self, table_id: UUID, branch: str, files: TableFiles, snapshot: Snapshot, judged: Judged) -> None:
        """Remember what is live after a commit that was decided."""
        self._live.put((table_id, branch), _Known(snapshot.key, files.location, judged.live))

    def _known(self, table_id: UUID, branch: str, files: TableFiles, schema: Schema, base: Snapshot | None) -> Live:
        if base is None:
            return Live()
        known = self._live.get((table_id, branch))
        if known is not None and (known.key, known.location) == (base.key, files.location):
            return known.live
        return live_in(files, schema, base)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is live in a snapshot, while its table lies where it lay."""

    key: str
    location: str
    live: Live


class _Case:
    """One commit, and what it was built on."""

    def __init__(self, table: Identifier, files: TableFiles, schema: Schema, base: Snapshot | None, snapshot: Snapshot) -> None:
        self.table = table
        self.files = files
        self.schema = schema
        self.base = base
        self.snapshot = snapshot
        self._types = [field.type for field in schema.partition_fields]
        self.index = IndexChange()
        self._renumbered = 0
        """How many rows get other ids than they had."""

    def fault(self, problem: str) -> InvalidCommit:
        return InvalidCommit(f"Snapshot {self.snapshot.id} of {self.table} is not taken: {problem}")

    def check_times(self) -> None:
        if (problem := fault_of_numbers(self.snapshot) or fault_of_times(self.snapshot, self.base)) is not None:
            raise self.fault(f"{problem}.")

    def check_names(self) -> None:
        """Every list the snapshot names is there, has the size it says, and lies in the table's own directory."""
        new, base = self.snapshot, self.base
        for name, size in (
            (new.base_manifest_list, new.base_manifest_list_size),
            (new.delta_manifest_list, new.delta_manifest_list_size),
            (new.changelog_manifest_list, new.changelog_manifest_list_size),
        ):
            if name is not None:
                self._check_file(self.files.layout.manifest(name), size, f"the manifest list {name}")
        if new.index_manifest is not None and (base is None or base.index_manifest != new.index_manifest):
            self._check_file(self.files.layout.manifest(new.index_manifest), None, f"the index manifest {new.index_manifest}")
            for entry in self.files.index_manifest(new.index_manifest, claimed=True):
                self.files.layout.index_file(str(entry["_FILE_NAME"]))
        self.index = index_change(self.files, None if base is None else base.index_manifest, new.index_manifest)
        if new.statistics is not None and (base is None or base.statistics != new.statistics):
            self._check_file(path := self.files.layout.statistics_file(new.statistics), None, f"the statistics {new.statistics}")
            statistics_in(self.files.io.read(path), self.files.read_schema(new.schema_id))
        rows = 0
        if new.changelog_manifest_list is not None:
            for meta in self.files.claimed_list(new.changelog_manifest_list):
                entries = self._read(meta, look=lambda records: None)
                self._check_entries(entries)
                rows += sum(entry.file.row_count for entry in entries)
        if (new.changelog_record_count or 0) != rows:
            raise self.fault(f"its changelogRecordCount is {new.changelog_record_count}, and its changelog holds {rows}.")

    def _check_file(self, path: str, size: int | None, what: str) -> None:
        try:
            actual_size = self.files.io.size(path)
        except FileNotFoundError:
            raise self.fault(f"it names {what}, which does not exist.") from None
        if actual_size > _MOST_LIST_BYTES:
            raise self.fault(f"{what} has {actual_size:,} bytes, more than any list.")
        if size is not None and size != actual_size:
            raise self.fault(f"{what} has {actual_size:,} bytes, and the snapshot says {size:,}: readers trust what it says.")

    def check_base(self) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """What of the base's manifests the commit leaves out, and the new ones in their place."""
        before = {} if self.base is None else {meta.file_name: meta for meta in self.files.manifests_of(self.base)}
        left, merged = dict(before), []
        for meta in self.files.claimed_list(self.snapshot.base_manifest_list, before.keys()):
            known = before.get(meta.file_name)
            if known is None:
                merged.append(meta)
                continue
            if left.pop(meta.file_name, None) is None:
                raise self.fault(f"its list names the manifest {meta.file_name} twice.")
            if not same_manifest(known, meta):
                raise self.fault(
                    f"its list describes the manifest {meta.file_name} otherwise than snapshot {known and self.base and self.base.id}."
                )
        return list(left.values()), merged

    def check_merged(self, left: Sequence[ManifestFile], merged: Sequence[ManifestFile], *, alone: bool) -> None:
        """What was merged holds what it replaces, nothing more and nothing less, word for word where readers look.

        But for the ids of rows where a commit ``alone`` does nothing else (Java's `reassign_row_id`).
        """
        if not left and not merged:
            return
        records: list[Mapping[str, Any]] = []
        try:
            new = [entry for meta in merged for entry in self._read(meta, look=records.extend)]
        except (InvalidCommit, StorageFull, Unavailable):
            raise
        except Exception as problem:
            raise self.fault(f"a merged manifest cannot be read: {problem or type(problem).__name__}") from problem
        old = [entry for meta in left for entry in self.files.manifest(meta)]
        if (name := dated_otherwise(old, new)) is not None:
            raise self.fault(f"a merged manifest tells another time at which file {name[:80]} was made.")
        if (unread := fault_of_records(records, self.files, self.schema)) is not None and not self._told_before(left):
            raise self.fault(unread)
        if self._net(old) != self._net(new):
            if alone and self.snapshot.commit_kind is CommitKind.OVERWRITE and (rows := self._count_renumbered()):
                self._renumbered = rows
                return
            raise self.fault(
                "its base does not hold what the snapshot before it holds. Read the latest snapshot again and build the commit on it."
            )

    def _told_before(self, manifests: Iterable[ManifestFile]) -> bool:
        """Whether manifests that are live tell what no reader can decode: earlier versions took such, and whoever merges them copies it."""
        paths = [self.files.layout.manifest(meta.file_name) for meta in manifests]
        records = [record for path in paths for record in manifest_records(self.files.io.read(path))]
        return fault_of_records(records, self.files, self.schema, anew=True) is not None

    def _count_renumbered(self) -> int:
        end = self.snapshot.next_row_id
        if self.base is None or end is None or not is_on(self.schema.options, "data-evolution.enabled"):
            return 0
        claimed = [entry for meta in self.files.manifest_list(self.snapshot.base_manifest_list) for entry in self.files.manifest(meta)]
        after = merge_entries(claimed, table=self.files.name)
        return renumbered_rows(self.files.live_entries(self.base), after, first=self._first_row_id(), end=end)

    def _net(self, entries: Iterable[ManifestEntry]) -> Mapping[object, object]:
        try:
            return Counter((entry.kind, entry.key(), told(entry)) for entry in merge_entries(entries, table=self.files.name))
        except LakeError as problem:
            raise self.fault(problem.message) from problem

    def changes(self) -> list[ManifestEntry]:
        """The entries of the delta."""
        entries: list[ManifestEntry] = []
        names: set[str] = set()
        before = set() if self.base is None else {meta.file_name for meta in self.files.manifests_of(self.base)}
        for meta in self.files.claimed_list(self.snapshot.delta_manifest_list):
            if meta.file_name in before:
                raise self.fault(f"its delta names the manifest {meta.file_name}, which the snapshot before it holds.")
            if meta.file_name in names:
                raise self.fault(f"its delta names the manifest {meta.file_name} twice.")
            names.add(meta.file_name)
            records: list[Mapping[str, Any]] = []
            entries += self._read(meta, look=records.extend)
            if (problem := fault_of_records(records, self.files, self.schema)) is not None:
                raise self.fault(problem)
        return entries

    def _read(self, meta: ManifestFile, *, look: Look | None = None) -> Sequence[ManifestEntry]:
        """A manifest's entries, which are what its line in the list says; ``look`` as `TableFiles.claimed_entries` has it."""
        path = self.files.layout.manifest(meta.file_name)
        self._check_file(path, meta.file_size, f"the manifest {meta.file_name}")
        entries = self.files.claimed_entries(meta, look=look)
        if wrong_entries(meta, entries, self._types) is not None or not self._bounded(meta, entries):
            raise self.fault(f"the line of the manifest {meta.file_name} in its list does not say what is in it.")
        self._check_entries(entries)
        return entries

    def _bounded(self, meta: ManifestFile, entries: Sequence[ManifestEntry]) -> bool:
        """Whether the line tells bounds of the partitions, by which readers leave manifests out, that hold all the entries."""
        if not self._types:
            return stats_fault(meta.partition_stats, ()) is None
        if not entries:
            return True
        own = partition_stats([entry.partition for entry in entries], self._types)
        claimed = meta.partition_stats
        if (claimed.min_values, claimed.max_values, list(claimed.null_counts)) == (own.min_values, own.max_values, list(own.null_counts)):
            return True
        told_bounds, own_bounds = bounds_of(claimed, self._types), bounds_of(own, self._types)
        if told_bounds is None or own_bounds is None or len(own.null_counts) != len(claimed.null_counts):
            return False
        (low, high), (own_low, own_high) = told_bounds, own_bounds
        nulls = all(mine == theirs for mine, theirs in zip(own.null_counts, claimed.null_counts, strict=True))
        # NaN is the largest value of a column; pypaimon's bounds of such a one are what Python's min and max make of it.
        return nulls and all(
            mine_low is None
            or mine_high != mine_high
            or (told_low is not None and told_high is not None and told_low <= mine_low and told_high >= mine_high)  # type: ignore[operator]
            for mine_low, mine_high, told_low, told_high in zip(own_low, own_high, low, high, strict=True)
        )

    def _check_entries(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            file = entry.file
            self.files.data_path(self.schema, entry)
            self.files.extra_paths(self.schema, entry)
            if min(file.row_count, file.file_size, entry.bucket, file.level, file.schema_id) < 0 or file.schema_id > self.schema.id:
                raise self.fault(f"file {file.file_name[:80]} has a count, bucket or schema no file can have.")
            if (self.schema.bucket > 0 >= entry.total_buckets) or 0 < entry.total_buckets <= entry.bucket:
                raise self.fault(
                    f"file {file.file_name[:80]} lies in bucket {entry.bucket} of {entry.total_buckets}, which the table does not have."
                )

    def check_changes(self, changes: Sequence[ManifestEntry], live: Live) -> Live:
        """What is live after the changes: nothing is removed that is not there, nothing added that is."""
        after = live.copy()
        for entry in changes:
            if entry.kind is EntryKind.DELETE:
                if not after.has(key := digest_of(entry)):
                    raise self.fault(
                        "it removes a file that the table does not have (any more). Read the latest snapshot and build the commit anew."
                    )
                after.remove(key)
        if (problem := time_fault(changes)) is not None:
            raise self.fault(problem)
        added = [entry for entry in changes if entry.kind is EntryKind.ADD]
        new: list[tuple[ManifestEntry, str]] = []
        for entry, path in data_paths(self.files, self.schema, added):
            if after.lies_at(digest := path_digest(path)):
                raise self.fault("it adds a file that the table has already, or one of them twice: its rows would be read twice.")
            after.add(digest_of(entry), digest)
            if (problem := name_fault(entry.file)) is not None:
                raise self.fault(problem)
            new.append((entry, path))
        if (problem := fault_of_added(self.files, new)) is not None:
            raise self.fault(problem)
        return after

    def deleted_already(self, changes: Sequence[ManifestEntry]) -> Mapping[Place, int]:
        """How many rows of files that a compaction takes away were deleted, by bucket; raises for marks that do not fit."""
        if self.snapshot.commit_kind is not CommitKind.COMPACT and not self.index.deletions:
            return {}  # which takes nothing that others could have marked, and marks nothing: the marks are not read
        try:
            return Marks.of(self.files, self.schema, self.base, self.snapshot).deleted_already(changes, changed=self.index.deletions)
        except WrongMarks as problem:
            raise self.fault(str(problem)) from problem

    def check_counts(self, changes: Sequence[ManifestEntry], gone: Mapping[Place, int]) -> None:
        rows = sum(entry.file.row_count if entry.kind is EntryKind.ADD else -entry.file.row_count for entry in changes)
        new = self.snapshot
        if new.delta_record_count != rows:
            raise self.fault(f"its deltaRecordCount is {new.delta_record_count}, and its entries hold {rows}.")
        total = (self.base.total_record_count if self.base is not None else 0) + rows
        if new.total_record_count != total:
            raise self.fault(f"its totalRecordCount is {new.total_record_count}, and the table then holds {total}.")
        if new.commit_kind is CommitKind.ANALYZE and changes:
            raise self.fault("an ANALYZE changes no files.")
        if new.commit_kind is CommitKind.COMPACT:
            evolves = is_on(self.schema.options, "data-evolution.enabled")
            types, shrunk = self._types if self.schema.bucket < 0 else (), self.index.deletions
            if not (same_row_ids(changes, types, gone=gone, shrunk=shrunk) if evolves else same_counts(changes, types, gone=gone)):
                raise self.fault("a COMPACT keeps the number of rows of each bucket.")

    def check_row_ids(self, changes: Sequence[ManifestEntry]) -> None:
        """Ids of rows go on where the base ended, by as many as rows are added at most: all later commits count from there."""
        first, end = self._first_row_id(), self.snapshot.next_row_id
        added = [entry.file for entry in changes if entry.kind is EntryKind.ADD]
        if end is None:
            if first and is_on(self.schema.options, "row-tracking.enabled"):
                raise self.fault(f"it has no nextRowId, and the snapshot before it has {first}.")
        elif not first <= end <= first + self._renumbered + sum(file.row_count for file in added):
            raise self.fault(f"its nextRowId is {end}, which is not {first} and the rows it adds.")
        for file in added:
            if file.first_row_id is not None and not 0 <= file.first_row_id <= (end or first) - file.row_count:
                raise self.fault(f"file {file.file_name[:80]} has rows of ids that nobody has given out.")

    def _first_row_id(self) -> int:
        return (self.base.next_row_id or 0) if self.base is not None else 0

    def goes_back(self) -> bool:
        """Whether it is dated before the snapshot it builds on, and not about now: expiry by age would then take that one away early."""
        # Held against now: with an hour before the base, a chain of commits would go back so far as anybody likes.
        limit = time.time_ns() // 1_000_000 - CLOCK_SKEW_MILLIS
        return self.base is not None and self.snapshot.time_millis < min(self.base.time_millis, limit)

    def takes_away(self, changes: Sequence[ManifestEntry]) -> bool:
        """Whether live rows go: files without a compaction's new ones in their place, or rows by other deletion vectors."""
        if self.index.deletions or self._renumbered:  # who knows rows by their ids does not find them any more
            return True
        if self.snapshot.commit_kind is CommitKind.COMPACT:
            return False
        first = self._first_row_id()  # a file of ids that were given out stands for rows there are, to readers of data evolution
        return any(
            entry.kind is EntryKind.DELETE or (entry.file.first_row_id is not None and entry.file.first_row_id < first) for entry in changes
        )
