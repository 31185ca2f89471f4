"""CALL sys.remove_unexisting_files: what of a table is lost is told, then the rest is made readable by a commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lake.commit.built import BuiltCommit
from lake.register.check import Checked, Planned
from lake.register.looks.contradictions import REMOVED_FILES, rows_of, told_of, wrong_total
from lake.register.looks.faults import Fault
from lake.register.looks.file_faults import decoded, fault_of_entry, fault_of_index_file, shown
from lake.register.looks.side_by_side import SideBySide
from lake.tables.handle import LakeTable
from model.access import Access, table_resource
from model.damage import MISSING
from model.errors import TableDamaged
from model.options.table import TABLE_OPTIONS
from model.schema.types import DataType
from model.snapshot import BATCH_COMMIT_IDENTIFIER, OPERATION, CommitKind, Snapshot
from model.text.sql_text import literal
from table.format.deletions import INDEX_TYPE, index_after, index_written, key_of
from table.format.manifests.avro_name import wrong_name
from table.format.manifests.codec import decode_manifest, decode_manifest_list
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile
from table.format.manifests.lists import LIST_PREFIX
from table.format.manifests.typed import wrong_size
from table.format.store import TableFiles
from table.scan.planning.live import Key, settle
from table.scan.skipping.partition_filter import BucketFilter

if TYPE_CHECKING:
    from lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What the latest snapshot of a table names and cannot be read."""

    snapshot: Snapshot
    faults: tuple[Fault, ...]
    left: tuple[ManifestEntry, ...]
    """The live files that manifests still tell of, those that are lost among them."""
    gone: tuple[ManifestEntry, ...]
    metadata: bool
    """Whether manifests are lost, and with them the names of the files they told of."""
    undeleted: Fault | None = None
    """A manifest that is lost, and with it which files or rows are deleted, as nothing else tells: they would come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hears:
    """Who is told how far a look is; what it calls may raise to stop it."""

    checked: Checked = lambda *_: None
    planned: Planned = lambda *_: None


def what_is_lost(
    table: LakeTable, *, deep: bool, threads: int, check: Callable[[], None], hears: Hears | None = None, whole: set[object] | None = None
) -> Lost | None:
    """Look at the latest snapshot's lists, manifests, data files and what tells their deleted rows; None for a table without any.

    ``whole`` are those found whole in an earlier look, which are not looked at again; what this one finds is added.
    What a lost list or manifest told is not lost where this process knows it still. Raises `TableDamaged` for a list of which it does
    not: nothing tells then what the snapshot holds.
    """
    latest = table.latest()
    if latest is None:
        return None
    files, branch, faults = table.files, table.identifier.branch, []
    known: list[Sequence[ManifestEntry]] = []
    """By manifest; nothing of those that are lost."""
    lost: list[tuple[int, int]] = []
    """Places of a manifest that is lost and of its fault."""
    whole, hears = set() if whole is None else whole, hears or Hears()

    def known_still(name: str, size: int | None) -> None:
        if name in whole:
            return
        if (problem := _problem_on_disk(files, name, size, deep=deep)) is not None:
            path, problem = files.layout.manifest(name), f"{problem}; what it told is known still and written anew"
            faults.append(Fault(branch=branch, snapshot_id=latest.id, partition="", file=path, rows=None, problem=problem))
        else:
            whole.add(name)

    metas = files.manifests_of(latest)
    known_still(latest.base_manifest_list, latest.base_manifest_list_size)
    known_still(latest.delta_manifest_list, latest.delta_manifest_list_size)
    for at, meta in enumerate(metas):
        check()
        hears.checked(1, meta.file_size)
        try:
            known.append(files.manifest(meta))
            known_still(meta.file_name, meta.file_size)
        except TableDamaged as damage:
            known.append(())
            lost.append((at, len(faults)))
            entry_count = meta.num_added_files + meta.num_deleted_files
            problem = f"{damage.problem}; {entry_count:,} files it told of are lost"
            faults.append(Fault(branch=branch, snapshot_id=latest.id, partition="", file=damage.file, rows=None, problem=problem))
    metadata = bool(faults)
    left, wrong = _settled(table, latest, metas, known, complete=not lost)
    faults += wrong
    gone = []
    open_ones = [entry for entry in left if entry.key() not in whole]
    hears.planned(len(open_ones), sum(entry.file.file_size for entry in open_ones))
    for entry, fault in SideBySide(threads).each(lambda one: fault_of_entry(table, one, deep=deep), open_ones):
        check()
        hears.checked(1, entry.file.file_size)
        if fault is not None:
            gone.append(entry)
            rows, partition = entry.file.row_count, shown(table.schema, entry)
            path, problem = fault
            faults.append(Fault(branch=branch, snapshot_id=latest.id, partition=partition, file=path, rows=rows, problem=problem))
        else:
            whole.add(entry.key())
    undeleted, more, bare = _lost_deletions(table, latest, left, deep=deep, check=check, whole=whole)
    known_gone = {key_of(entry) for entry in gone}
    gone += [entry for entry in bare if key_of(entry) not in known_gone]
    faults += more
    stay = {entry.key() for entry in left} - {entry.key() for entry in gone}
    for place in (place for at, place in lost if _may_come_back(table, metas[at], known[:at], stay)):
        lost_manifest = faults[place]
        undeleted = faults[place] = replace(lost_manifest, problem=f"{lost_manifest.problem}, and which files it deleted {_untold(table)}")
    return Lost(snapshot=latest, faults=tuple(faults), left=left, gone=tuple(gone), metadata=metadata, undeleted=undeleted)


def _settled(
    table: LakeTable, latest: Snapshot, metas: Sequence[ManifestFile], known: Sequence[Sequence[ManifestEntry]], *, complete: bool
) -> tuple[tuple[ManifestEntry, ...], list[Fault]]:
    """The files that manifests leave of each other, and where they contradict each other or the snapshot's count; no row is lost by it.

    Where not all are ``complete``, what seems to contradict the others may follow from what is lost.
    """
    live: dict[Key, ManifestEntry] = {}
    settled = [(meta.file_name, settle(live, entries)) for meta, entries in zip(metas, known, strict=True)]
    left = tuple(live.values())
    if not complete:
        return left, []
    layout, branch, anew = table.files.layout, table.identifier.branch, "it is written anew, and no row is lost"
    problems = [(layout.manifest(name), told_of(wrong)) for name, wrong in settled if wrong]
    if latest.total_record_count != (rows := rows_of(left)):
        problems.append((layout.snapshot_file(latest.id), wrong_total(latest, rows)))
    return left, [
        Fault(branch=branch, snapshot_id=latest.id, partition="", file=path, rows=None, problem=f"{problem}; {anew}")
        for path, problem in problems
    ]


def _may_come_back(table: LakeTable, lost: ManifestFile, before: Iterable[Sequence[ManifestEntry]], stay: Set[object]) -> bool:
    """Whether a manifest that is lost may have deleted one of the files that ``stay``: such as came ``before`` it, where it deleted any.

    Its line in the list tells of which partitions and buckets it was.
    """
    if not lost.num_deleted_files:
        return False
    partitions = {entry.partition for entries in before for entry in entries if entry.key() in stay}
    return bool(partitions) and BucketFilter([field.type for field in table.schema.partition_fields], partitions).may_hold(lost)


def _untold(table: LakeTable) -> str:
    repair = f"CALL sys.repair_table({literal(table.identifier.written())})"
    return f"is told by nothing else: {repair} goes back to the newest snapshot that tells it"


def _lost_deletions(
    table: LakeTable, latest: Snapshot, left: Sequence[ManifestEntry], *, deep: bool, check: Callable[[], None], whole: set[object]
) -> tuple[Fault | None, list[Fault], list[ManifestEntry]]:
    """The index manifest where it is lost, all that is lost of it and of its files, and the data files whose deleted rows are not told.

    Those cannot be read any more, as their deleted rows would come back.
    """
    name, files, branch = latest.index_manifest, table.files, table.identifier.branch
    if name is None:
        return None, [], []
    try:
        records = files.index_manifest(name)
    except TableDamaged as damage:
        problem = f"{damage.problem}; which rows are deleted {_untold(table)}"
        path = files.layout.manifest(name)
        fault = Fault(branch=branch, snapshot_id=latest.id, partition="", file=path, rows=None, problem=problem)
        return fault, [fault], []
    faults, bare, live = [], list[ManifestEntry](), {key_of(entry): entry for entry in left}
    deep = deep or table.schema.bucket > 0  # what stays of an index file there is copied
    for record in records:
        check()
        if record["_INDEX_TYPE"] != INDEX_TYPE or (line := _judged_by(record)) in whole:
            continue
        if (problem_of_file := fault_of_index_file(table, record, deep=deep)) is None:
            whole.add(line)
            continue
        ranges = record["_DELETIONS_VECTORS_RANGES"] or ()
        keys = [(record["_PARTITION"], record["_BUCKET"], vector_range["f0"]) for vector_range in ranges]
        untold = [live[key] for key in keys if key in live]
        rows = sum(entry.file.row_count for entry in untold)
        problem = f"{problem_of_file[1]}; it told the deleted rows of {len(untold):,} data files, which are lost with it"
        partition = shown(table.schema, untold[0]) if untold else ""
        faults.append(Fault(branch=branch, snapshot_id=latest.id, partition=partition, file=problem_of_file[0], rows=rows, problem=problem))
        bare += untold
    return None, faults, bare


def _judged_by(record: Mapping[str, Any]) -> object:
    """All by which a line of an index manifest is judged: another line may tell otherwise of the same file."""
    ranges = tuple(tuple(vector_range.values()) for vector_range in record["_DELETIONS_VECTORS_RANGES"] or ())
    return record["_PARTITION"], record["_BUCKET"], record.get("_EXTERNAL_PATH"), record["_FILE_NAME"], record["_FILE_SIZE"], ranges


def _problem_on_disk(files: TableFiles, name: str, size: int | None, *, deep: bool) -> str | None:
    """What is wrong with a list or manifest, whatever this process remembers of it: of its size, and where it is looked at deep, of all."""
    path = files.layout.manifest(name)
    try:
        problem = wrong_size(files.io.size(path), size)
        data = files.io.read(path) if deep and problem is None else None
    except FileNotFoundError:
        return MISSING
    except TableDamaged as damage:
        return damage.problem
    if data is not None:
        decode = decode_manifest_list if name.startswith(LIST_PREFIX) else decode_manifest
        content = decoded(lambda: decode(data))
        problem = content if isinstance(content, str) else wrong_name(data, name)
    return problem


def remove_unexisting_files(  # noqa: PLR0913 - what is looked at, and who hears of it
    lake: Lake, table: LakeTable, *, dry_run: bool, deep: bool, threads: int, check: Callable[[], None], hears: Hears | None = None
) -> Sequence[Fault]:
    """Tell what is lost and, unless it is a dry run, commit a snapshot without it, which takes rows away; no file is deleted.

    Raises `TableDamaged` where nothing tells any more which files or rows are deleted: they would come back.
    """
    lake.caller.require(Access.UPDATE, table_resource(table.identifier))
    if not dry_run:
        lake.caller.require(Access.DELETE, table_resource(table.identifier))
    if not lake.tells_counts(table):
        lake.require_whole(table, "files")
    whole: set[object] = set()
    faults_by_list: dict[str, Sequence[Fault]] = {}
    """What is lost, by the key of the snapshot's list."""
    written: list[ManifestFile] = []

    def look() -> Lost | None:
        lost = what_is_lost(table, deep=deep, threads=threads, check=check, hears=hears, whole=whole)
        return lost if lost is not None and lost.faults else None

    def build(key: str) -> BuiltCommit | None:
        lost = look()
        if lost is None:
            return None
        _require_deletions(table, lost)
        built = _built(table, lost, key, written)
        faults_by_list[built.snapshot.delta_manifest_list] = lost.faults
        return built

    lost = look()
    if lost is None or dry_run:
        return () if lost is None else lost.faults
    _require_deletions(table, lost)
    decided = lake.decide_repaired(table, build)
    return () if decided is None else faults_by_list[decided.snapshot.delta_manifest_list]


def _require_deletions(table: LakeTable, lost: Lost) -> None:
    """Raise `TableDamaged` where nothing tells which files or rows are deleted: they would come back."""
    if lost.undeleted is not None:
        # The problem says what helps, which this is not.
        raise table.files.damaged(lost.undeleted.file, lost.undeleted.problem, snapshot_id=lost.snapshot.id, way_out="")


def _built(table: LakeTable, lost: Lost, key: str, written: list[ManifestFile]) -> BuiltCommit:
    """A snapshot of the files that are left: what is lost is taken away, so that readers of changes see it, too.

    ``written`` are the manifests of an earlier attempt, and then of this one.
    """
    files, types = table.files, [field.type for field in table.schema.partition_fields]
    target = TABLE_OPTIONS.read(table.schema.options, "manifest.target-file-size")
    removed = [replace(entry, kind=EntryKind.DELETE) for entry in lost.gone]
    written[:] = _manifests(files, lost.left, types, target, written)
    base = files.new_manifest_list(written)
    delta = files.new_manifest_list(files.new_manifests(removed, types, target=target))
    rows = sum(entry.file.row_count for entry in lost.left) - sum(entry.file.row_count for entry in lost.gone)
    made = replace(
        lost.snapshot.with_lists(base, delta),
        id=lost.snapshot.id + 1,
        uuid=key,
        schema_id=max(table.schema.id, lost.snapshot.schema_id),  # of another session's ALTER since the table was opened
        index_manifest=index_after(files, table.schema, lost.snapshot, map(key_of, lost.gone)),
        commit_user=str(uuid4()),
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=CommitKind.OVERWRITE,
        time_millis=max(time.time_ns() // 1_000_000, lost.snapshot.time_millis),
        total_record_count=rows,
        delta_record_count=rows - lost.snapshot.total_record_count,
        statistics=None,
        properties={OPERATION: REMOVED_FILES},
        operation=None,
    )
    paths = [files.layout.manifest(name) for name in (made.base_manifest_list, made.delta_manifest_list)]
    paths += index_written(files, table.schema, lost.snapshot.index_manifest, made.index_manifest)
    paths += [files.layout.manifest(meta.file_name) for name, _ in (base, delta) for meta in files.manifest_list(name)]
    return BuiltCommit(table=table, base=lost.snapshot, snapshot=made, sync=paths)


def _manifests(
    files: TableFiles, entries: Sequence[ManifestEntry], types: Sequence[DataType], target: int, written: Sequence[ManifestFile]
) -> list[ManifestFile]:
    """Manifests of the entries: those already written that tell of nothing else, and new ones of the others."""
    others = {entry.key(): entry for entry in entries}
    unchanged = []
    for meta in written:
        listed = files.manifest(meta)
        if all(others.get(entry.key()) == entry for entry in listed):
            unchanged.append(meta)
            for entry in listed:
                del others[entry.key()]
    return [*unchanged, *files.new_manifests(others.values(), types, target=target)]
