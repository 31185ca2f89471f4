"""Compacting a table: what to merge at its latest snapshot, the merging, and the commit that may only lose a race."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import uuid4

from lake.commit.write_context import Write
from lake.rewrite.partition_expiry import PartitionExpiry, old_partitions
from lake.tables.handle import LakeTable
from lake.tables.partitions import by_row
from lake.tables.partitions import partitions as all_partitions
from model.errors import LakeError, RewriteConflict, UnsupportedType
from model.options.map_layout import shredded_maps
from model.options.table import TABLE_OPTIONS, is_on
from model.snapshot import CommitKind, Snapshot
from model.work.deciding import to_the_end
from table.compaction.candidates import BucketKey, CompactionRules, CompactionTask, choose
from table.compaction.rewrite import rewrite
from table.format.deletions import with_vectors
from table.format.formats import FileFormat
from table.format.io.patience import carried
from table.format.manifests.columns import many_entries
from table.format.manifests.entries import ManifestEntry, NewFile
from table.scan.going_on import Check, go_on
from table.scan.skipping.partition_filter import BucketFilter, among
from table.write.snapshot_builder import CommitRequest, check_writable

_log = logging.getLogger(__name__)
_QUICKLY_ORDERED = 256 << 10
"""Bytes of manifests, some two thousand files, that are rewritten in a hundredth of a second or two: writers wait meanwhile."""
Commit = Callable[[LakeTable, CommitRequest], Snapshot]
Rewriter = Callable[[LakeTable, Write, Sequence[CompactionTask], Check], list[list[NewFile]]]
"""Does the merging of some tasks; gives each one's new files, in the tasks' order, and all it has written to the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did, or would do."""

    tasks: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0
    conflicts: int = 0
    """Tasks whose files somebody else replaced meanwhile; nothing was changed for them."""
    snapshots: tuple[int, ...] = field(default=())

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(
            tasks=self.tasks + other.tasks,
            files_before=self.files_before + other.files_before,
            files_after=self.files_after + other.files_after,
            bytes_before=self.bytes_before + other.bytes_before,
            bytes_after=self.bytes_after + other.bytes_after,
            rows=self.rows + other.rows,
            conflicts=self.conflicts + other.conflicts,
            snapshots=self.snapshots + other.snapshots,
        )


def check_mergeable(table: LakeTable) -> None:
    """Raise `UnsupportedType` for a table whose files are not merged here: before they are, not after."""
    check_rewritable(table, "compacted")
    if shredded := shredded_maps(table.schema.options):
        raise UnsupportedType(
            f"Table {table.identifier} is not compacted here: its column {shredded[0]} has the layout 'shared-shredding', in which no MAP "
            "is read here."
        )


def check_rewritable(table: LakeTable, what: str) -> None:
    """Raise `UnsupportedType` for a table whose files are not written here.

    MAPs in a layout that is not read are told by the file: one of this server has none, whatever the option says.
    """
    try:
        check_writable(table.schema)
        if is_on(table.schema.options, "row-tracking.enabled"):
            raise UnsupportedType("it has 'row-tracking.enabled' = 'true', and merged files would have to tell the ids of their rows.")
        FileFormat.of(table.schema)
    except UnsupportedType as refusal:
        raise UnsupportedType(f"Table {table.identifier} is not {what} here: {refusal.message}") from None


def live_files(
    table: LakeTable, partitions: Collection[bytes] | None = None, buckets: Collection[int] | None = None
) -> list[ManifestEntry]:
    """The live files of the latest snapshot, of some partitions and buckets or of all, with the rows that are deleted of each."""
    latest = table.latest()
    if partitions is None:
        entries: Iterable[ManifestEntry] = table.files.live_entries(latest)
        if buckets is not None:
            entries = [entry for entry in entries if entry.bucket in buckets]
    else:
        entries = table.files.touched_entries(latest, BucketFilter([f.type for f in table.schema.partition_fields], partitions, buckets))
    return with_vectors(table.files, table.schema, latest, entries)


def _candidates(
    table: LakeTable, partitions: Collection[bytes] | None, buckets: Collection[int] | None, rules: CompactionRules
) -> list[ManifestEntry]:
    """The live files a merge may take; of a table of very many files without order only the small ones it would take first."""
    latest = table.latest()
    if latest is None or latest.index_manifest is not None or table.schema.bucket > 0 or rules.every_file:
        return live_files(table, partitions, buckets)
    manifests = table.files.manifests_of(latest)
    if partitions is not None:
        touched = BucketFilter([f.type for f in table.schema.partition_fields], partitions, buckets)
        manifests = [meta for meta in manifests if touched.may_hold(meta)]
    if not many_entries(manifests):
        return live_files(table, partitions, buckets)
    return list(
        table.files.live(manifests).smallest(partitions, buckets, below=rules.small_bytes, total_buckets=-1, most=rules.most_candidates)
    )


def plan(  # noqa: PLR0913 - what a procedure is asked for
    table: LakeTable,
    *,
    full: bool,
    partitions: Collection[bytes] | None = None,
    buckets: Collection[int] | None = None,
    all_of_them: bool = False,
    task_bytes: int | None = None,
    rules: CompactionRules | None = None,
) -> list[CompactionTask]:
    """The merges worth doing at the latest snapshot, by the table's rules or others; see `table.compaction.candidates`."""
    rules = rules or CompactionRules.of(table.schema, task_bytes=task_bytes)
    expired = _expired(table)
    candidates = [entry for entry in _candidates(table, partitions, buckets, rules) if not expired(entry.partition)]
    return choose(table.schema, candidates, rules, full=full, all_of_them=all_of_them)


def _expired(table: LakeTable) -> Callable[[bytes], bool]:
    """Whether a partition goes soon, so that its files are merged no more, where `compaction.skip-expired-partitions` says so."""
    types = [field.type for field in table.schema.partition_fields]
    rules = PartitionExpiry.of(table, {}) if TABLE_OPTIONS.read(table.schema.options, "compaction.skip-expired-partitions") else None
    old = [] if rules is None else old_partitions(table, all_partitions(table, table.latest()), rules)
    return among(types, by_row(table.schema, old))


Told = Callable[[CompactionTask], None]
"""Hears of each task whose merging has ended."""


def in_this_process(table: LakeTable, write: Write, tasks: Sequence[CompactionTask], check: Check = go_on) -> list[list[NewFile]]:
    """Merge the tasks one after another."""
    done: list[list[NewFile]] = []
    for task in tasks:
        check()
        done.append(write.add(rewrite(table.files, table.schema, task, check)))
    return done


def in_threads(workers: int, told: Told = lambda task: None) -> Rewriter:
    """A rewriter that merges several tasks at once in this process; reading and writing leave Python's lock alone."""

    def run(table: LakeTable, write: Write, tasks: Sequence[CompactionTask], check: Check) -> list[list[NewFile]]:
        def merge(task: CompactionTask) -> list[NewFile]:
            check()
            written = write.add(rewrite(table.files, table.schema, task, check))
            told(task)
            return written

        with ThreadPoolExecutor(min(workers, len(tasks)), thread_name_prefix="compaction") as threads:
            running = [threads.submit(carried(merge), task) for task in tasks]
            wait(running, return_when=FIRST_EXCEPTION)
            failed = next((future for future in running if future.done() and not future.cancelled() and future.exception()), None)
            if failed is None:
                return [future.result() for future in running]
            for future in running:
                future.cancel()
            wait(running)
        problem = failed.exception()
        assert problem is not None
        raise problem

    return run


def compact(
    commit: Commit, table: LakeTable, tasks: Sequence[CompactionTask], *, rewriter: Rewriter = in_this_process, check: Check = go_on
) -> Compacted:
    """Merge the tasks and commit them as one snapshot; where that loses a race, one by one, and the losers are dropped.

    Tasks that may have exchanged rows are committed together or not at all.
    """
    if not tasks:
        return Compacted()
    user = str(uuid4())
    with table.write() as write:
        written = rewriter(table, write, tasks, check)
        check()
        try:
            return _commit(commit, table, write, tasks, written, user)
        except RewriteConflict as lost:
            _log.info("A compaction of %s lost a race: %s", table.identifier, lost.message)
            groups = _apart(table, tasks, written)
            if len(groups) == 1:
                return Compacted(conflicts=len(tasks))
        done = Compacted()
        for group in groups:
            try:
                done += _commit(commit, table, write, [tasks[at] for at in group], [written[at] for at in group], user)
            except RewriteConflict:
                for at in group:
                    write.drop(written[at])
                done += Compacted(conflicts=len(group))
        return done


def _commit(
    commit: Commit, table: LakeTable, write: Write, tasks: Sequence[CompactionTask], written: Sequence[Sequence[NewFile]], user: str
) -> Compacted:
    adds = tuple(new for files in written for new in files)
    deletes = tuple(entry for task in tasks for entry in task.inputs)
    check_rows(table, deletes, adds)
    request = write.request(CommitKind.COMPACT, adds=adds, deletes=deletes, commit_user=user, operation="COMPACT")
    snapshot = in_order(commit, table, commit(table, request), deletes)
    return Compacted(
        tasks=len(tasks),
        files_before=len(deletes),
        files_after=len(adds),
        bytes_before=sum(entry.file.file_size for entry in deletes),
        bytes_after=sum(new.file.file_size for new in adds),
        rows=sum(new.file.row_count for new in adds),
        snapshots=(snapshot.id,),
    )


def check_rows(table: LakeTable, inputs: Sequence[ManifestEntry], written: Sequence[NewFile]) -> None:
    """Raise `AssertionError` where files are not as many rows as those they replace: nothing that rewrites rows may lose or double any."""
    rows, count = _rows_of(inputs), sum(new.file.row_count for new in written)
    if rows is not None and count != rows:
        raise AssertionError(f"A compaction of {table.identifier} made {count:,} rows of {rows:,}; nothing was changed.")


def _rows_of(entries: Sequence[ManifestEntry]) -> int | None:
    """The rows of the files that are not deleted; None where nobody counted those that are."""
    deleted = [0 if entry.vector is None else entry.vector.cardinality for entry in entries]
    counted = [count for count in deleted if count is not None]
    return None if len(counted) < len(deleted) else sum(entry.file.row_count for entry in entries) - sum(counted)


def _apart(table: LakeTable, tasks: Sequence[CompactionTask], written: Sequence[Sequence[NewFile]]) -> list[list[int]]:
    """The tasks, by their places, in groups whose new files surely hold the rows of the group's own inputs; each may be committed alone.

    Tasks that are sorted together exchange rows where earlier versions put some into other buckets or partitions than theirs. Two buckets
    may give each other equally many, which no count shows; among partitions rows only leave those that no stored value has.
    """
    merged = all(task.level is None for task in tasks)  # each by itself, so that rows nobody counted are its own
    groups = defaultdict[object, list[int]](list)
    for at, task in enumerate(tasks):
        groups[task.partition if table.schema.bucket > 0 and not merged else at].append(at)
    for group in groups.values():
        rows = _rows_of([entry for at in group for entry in tasks[at].inputs])
        if rows != sum(new.file.row_count for at in group for new in written[at]) and not (merged and rows is None):
            return [[*range(len(tasks))]]
    return list(groups.values())


def in_order(
    commit: Commit, table: LakeTable, snapshot: Snapshot, replaced: Sequence[ManifestEntry], *, in_place: bool = False
) -> Snapshot:
    """Let the manifests name a queue's files in its order again: what was merged is named last, also where it comes first.

    We and Java Paimon sort by sequence number; pypaimon reads files as manifests name them. Only where that is quickly done,
    and never at the cost of the rewrite, which is in. ``in_place``: it was no compaction, but for who may delete.
    """
    try:
        if not _out_of_order(table, snapshot, replaced):
            return snapshot
        with to_the_end():
            request = CommitRequest(
                kind=CommitKind.COMPACT, commit_user=str(uuid4()), operation="COMPACT", merge_manifests=True, in_place=in_place
            )
            return commit(table, request)
    except (LakeError, OSError) as problem:  # also of the manifests' reading: the rewrite is decided, and not to be repeated
        _log.info("The manifests of %s stay as they are: %s", table.identifier, problem)
        return snapshot


def _out_of_order(table: LakeTable, snapshot: Snapshot, replaced: Sequence[ManifestEntry]) -> bool:
    """Whether the manifests name files of the buckets out of the order of their sequence numbers, where that is quickly seen."""
    if table.schema.bucket <= 0 or sum(m.file_size for m in table.files.manifests_of(snapshot)) > _QUICKLY_ORDERED:
        return False
    types = [f.type for f in table.schema.partition_fields]
    touched = BucketFilter(types, {entry.partition for entry in replaced}, {entry.bucket for entry in replaced})
    last: dict[BucketKey, int] = {}
    for entry in table.files.live_among(snapshot, touched.may_hold).entries():
        key = (entry.partition, entry.bucket)
        if entry.file.min_sequence_number < last.get(key, -1):
            return True
        last[key] = entry.file.min_sequence_number
    return False
