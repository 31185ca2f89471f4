"""CALL sys.check_table: every file that a snapshot, tag or branch of a table names, held against what names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from catalog import CatalogStore
from catalog.records import SnapshotRow, TagRow
from lake.register.changed import ChangedFile, changed_schemas, changed_snapshot, changed_tags
from lake.register.unknown_branches import unknown_branches
from lake.tables.handle import LakeTable
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import MAIN_BRANCH
from model.schema.schema import Schema
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.deletions import INDEX_TYPE, index_path, lie_in_turn, wrong_vectors
from table.format.io.storage_errors import refusal, told_by_the_store
from table.format.layout import TableLayout, partition_dirs
from table.format.manifests.avro_name import wrong_name
from table.format.manifests.codec import decode_manifest, decode_manifest_list, manifest_records
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile
from table.format.manifests.lists import goes_back
from table.format.manifests.typed import wrong_entries, wrong_size
from table.format.rows import binary_row
from table.format.store import TableFiles
from table.index.container import SUFFIX
from table.index.owner import is_anothers
from table.retention.check import MISSING, ExpectedFile, fault_of

T = TypeVar("T")
Checked = Callable[[int, int], None]
"""Told of so many files, and their bytes, that have been looked at; may raise to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file that is not what names it says."""

    branch: str
    snapshot_id: int | None
    """The newest snapshot found to need it."""
    partition: str
    file: str
    rows: int | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of history: a branch's snapshots, or the snapshot of a tag."""

    branch: str
    snapshots: Sequence[Snapshot]
    published: frozenset[int] = frozenset()
    """Of these the files are to be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMetadata:
    """What the catalog has of a branch, each in a file of its own."""

    branch: str
    schemas: Sequence[tuple[int, Mapping[str, Any]]]
    snapshots: Sequence[SnapshotRow]
    tags: Sequence[TagRow]


def lines_of(catalog: CatalogStore, table: LakeTable) -> tuple[list[Line], list[BranchMetadata]]:
    """All lines of a table as the catalog has them, and what each branch has of files of its own."""
    lines, metadata = [], []
    with catalog.consistent() as tx:
        for branch in [MAIN_BRANCH, *tx.branches.names(table.table_id)]:
            rows = tx.snapshots.history(table.table_id, branch)
            published = frozenset(row.snapshot_id for row in rows if row.published)
            lines.append(Line(branch=branch, snapshots=[Snapshot.from_json(row.body) for row in rows], published=published))
            tags = tx.tags.all(table.table_id, branch)
            lines += [Line(branch=branch, snapshots=[Snapshot.from_json(row.snapshot)]) for row in tags]
            row = tx.tables.find(replace(table.identifier, branch=branch))
            written = -1 if row is None else row.published_schema_id  # those of a new branch are written when it is first opened
            schemas = [(schema_id, body) for schema_id, body in tx.tables.schemas(table.table_id, branch) if schema_id <= written]
            metadata.append(BranchMetadata(branch=branch, schemas=schemas, snapshots=rows, tags=tags))
    return lines, metadata


def of_unknown_branches(catalog: CatalogStore, table: LakeTable) -> Iterator[Fault]:
    """Branches that only the files have: the catalog is older than they are."""
    with catalog.reading() as tx:
        names = unknown_branches(tx, table.files.io, table.table_id, table.location)
    for name in names:
        path = TableLayout(table.location, name).branch_dir
        problem = f"is a branch that the catalog does not have; CALL sys.repair_table({literal(table.identifier.written())}) registers it"
        yield Fault(branch=name, snapshot_id=None, partition="", file=path, rows=None, problem=problem)


def refused(problem: Unavailable) -> str:
    """What a store says of a file or directory that it does not give; raises the problem where the store itself cannot be used."""
    if (text := refusal(problem)) is None:
        raise problem
    return text


def unreadable(branch: str, problem: Unavailable) -> Fault:
    """The fault of a file or directory that its store does not give; raises the problem where the store itself cannot be used."""
    return Fault(branch=branch, snapshot_id=None, partition="", file=problem.place or "", rows=None, problem=refused(problem))


def refusals_too(branch: str, faults: Iterator[Fault]) -> Iterator[Fault]:
    """The faults, and as the last one what their store does not give."""
    try:
        yield from faults
    except Unavailable as problem:
        yield unreadable(branch, problem)


def once(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Each fault once, though several snapshots and branches need its file."""
    seen: set[tuple[str, str]] = set()
    for fault in faults:
        if (key := (fault.file, fault.problem)) not in seen:
            seen.add(key)
            yield fault


class TableCheck:
    """One look at a table; nothing of it is taken from what this process remembers."""

    def __init__(
        self, table: LakeTable, *, deep: bool, threads: int, checked: Checked, branches: Mapping[str, LakeTable] | None = None
    ) -> None:
        """``branches`` are the table's by name: files are read by the schemas of the branch that names them."""
        self._table = table
        self._branches = branches or {}
        self._io = table.files.io
        self._deep = deep
        self._threads = threads
        self._checked = checked
        self._lists: dict[str, Sequence[ManifestFile] | str] = {}
        self._manifests: dict[str, Sequence[ManifestEntry] | str] = {}
        self._indexes: set[str] = set()

    def faults(self, lines: Sequence[Line], branches: Sequence[BranchMetadata]) -> Iterator[Fault]:
        """All that is wrong, metadata first; what cannot be read is told as that, and the rest is looked at all the same."""
        for metadata in branches:
            yield from refusals_too(metadata.branch, self._small_files(metadata))
        wanted: dict[str, tuple[Line, int, ManifestEntry]] = {}
        reported: set[str] = set()
        for line in lines:
            yield from refusals_too(line.branch, self._snapshot_files(line))
            for fault in self._metadata(line, wanted):
                if fault.file not in reported:
                    reported.add(fault.file)
                    yield fault
        yield from self._data(wanted)

    def named(self, lines: Sequence[Line], faults: Callable[[Fault], object]) -> Iterator[str]:
        """Every file that snapshots name, by path, with those beside it; ``faults`` is told of metadata that cannot be read."""
        wanted: dict[str, tuple[Line, int, ManifestEntry]] = {}
        files = self._table.files
        for line in lines:
            for fault in self._metadata(line, wanted):
                faults(fault)
        for name in (*self._lists, *self._manifests):
            yield files.layout.manifest(name)
        for snapshot in {snapshot.key: snapshot for line in lines for snapshot in line.snapshots}.values():
            if snapshot.statistics is not None:
                yield files.layout.statistics_file(snapshot.statistics)
        for index in sorted({s.index_manifest for line in lines for s in line.snapshots if s.index_manifest is not None}):
            yield files.layout.manifest(index)
            for record in files.index_manifest(index):
                yield index_path(files, self._table.schema, record)
        for _, _, entry in wanted.values():
            yield files.data_path(self._table.schema, entry)
            yield from files.extra_paths(self._table.schema, entry)

    def _snapshot_files(self, line: Line) -> Iterator[Fault]:
        """Files of snapshots in a hole: a missing beginning is what a client expired."""
        files = TableFiles(self._io, self._table.location, line.branch)
        there = set(files.snapshot_ids()) if line.published else set()
        first = min(there, default=None)
        for snapshot_id in sorted(line.published - there):
            if first is None or snapshot_id > first:
                path, problem = files.layout.snapshot_file(snapshot_id), f"is missing; {self._repair(line.branch)}"
                yield Fault(branch=line.branch, snapshot_id=snapshot_id, partition="", file=path, rows=None, problem=problem)

    def _small_files(self, metadata: BranchMetadata) -> Iterator[Fault]:
        """Files of schemas, snapshots and tags that are not what the catalog has, and schemas that are missing."""
        files, branch = TableFiles(self._io, self._table.location, metadata.branch), metadata.branch
        for schema_id, body in metadata.schemas:
            yield from refusals_too(branch, self._missing_schema(files, branch, schema_id))
            yield from refusals_too(branch, self._changed(branch, changed_schemas(files, [(schema_id, body)])))
        yield from refusals_too(branch, self._changed_snapshots(files, metadata))
        for tag in metadata.tags:
            yield from refusals_too(branch, self._changed(branch, changed_tags(files, [tag])))

    def _missing_schema(self, files: TableFiles, branch: str, schema_id: int) -> Iterator[Fault]:
        if not self._io.exists(path := files.layout.schema_file(schema_id)):
            yield Fault(branch=branch, snapshot_id=None, partition="", file=path, rows=None, problem=f"is missing; {self._repair(branch)}")

    def _changed_snapshots(self, files: TableFiles, metadata: BranchMetadata) -> Iterator[Fault]:
        there = set(files.snapshot_ids())
        for row in metadata.snapshots:
            if row.published and row.snapshot_id in there:
                yield from refusals_too(metadata.branch, self._changed(metadata.branch, changed_snapshot(files, row)))

    def _changed(self, branch: str, files: Iterable[ChangedFile]) -> Iterator[Fault]:
        for changed in files:
            problem = f"{changed.problem}; {self._repair(branch)}"
            yield Fault(branch=branch, snapshot_id=changed.snapshot_id, partition="", file=changed.path, rows=None, problem=problem)
            self._checked(1, 0)

    def _repair(self, branch: str) -> str:
        """What writes a branch's file again."""
        return f"CALL sys.repair_table({literal(self._written(branch))}) writes it again from the catalog"

    def _written(self, branch: str) -> str:
        return replace(self._table.identifier, branch=branch).written()

    def _metadata(self, line: Line, wanted: dict[str, tuple[Line, int, ManifestEntry]]) -> Iterator[Fault]:
        """Faults of lists and manifests; the data files they add are put into ``wanted``."""
        layout, before = self._table.files.layout, None
        for snapshot in line.snapshots:
            # What a snapshot has is what the one before it had and what it added itself; the first has all its base tells.
            follows = before is not None and snapshot.id == before.id + 1
            before = snapshot
            for name, size in self._named_lists(snapshot):
                metas = self._list(name, size)
                if isinstance(metas, str):
                    newest = line.published and snapshot is line.snapshots[-1]
                    problem = f"{metas}; {goes_back(self._written(line.branch))}" if newest else metas
                    path = layout.manifest(name)
                    yield Fault(branch=line.branch, snapshot_id=snapshot.id, partition="", file=path, rows=None, problem=problem)
                    continue
                for meta in metas:
                    entries = self._manifest(meta)
                    if isinstance(entries, str):
                        path = layout.manifest(meta.file_name)
                        yield Fault(branch=line.branch, snapshot_id=snapshot.id, partition="", file=path, rows=None, problem=entries)
                        continue
                    if not follows or name == snapshot.delta_manifest_list:
                        self._want(line, snapshot, entries, wanted)
            yield from self._index(line, snapshot)
            self._checked(1, 0)

    def _index(self, line: Line, snapshot: Snapshot) -> Iterator[Fault]:
        """Faults of a snapshot's index manifest and of the files it names: with them the rows that they say are deleted come back."""
        name, files = snapshot.index_manifest, self._table.files
        newest = bool(line.published) and snapshot is line.snapshots[-1] and self._table.schema.bucket > 0
        if name is None or (name in self._indexes and not newest):
            return
        self._indexes.add(name)

        def fault(path: str, problem: str) -> Fault:
            return Fault(branch=line.branch, snapshot_id=snapshot.id, partition="", file=path, rows=None, problem=problem)

        entries = self._read(name, None)
        records = entries if isinstance(entries, str) else decoded(lambda: list(manifest_records(entries)))
        if isinstance(records, str):
            yield fault(files.layout.manifest(name), records)
            return
        for record in records:
            try:
                problem_of_file = fault_of_index_file(self._table, record, deep=self._deep)
            except Unavailable as away:
                problem_of_file = (away.place or str(record["_FILE_NAME"]), refused(away))
            if problem_of_file is None and newest and record["_INDEX_TYPE"] == INDEX_TYPE and not lie_in_turn(record):
                problem_of_file = index_path(files, self._table.schema, record), _out_of_turn(self._written(line.branch))
            if problem_of_file is not None:
                yield fault(*problem_of_file)

    def _want(
        self, line: Line, snapshot: Snapshot, entries: Sequence[ManifestEntry], wanted: dict[str, tuple[Line, int, ManifestEntry]]
    ) -> None:
        first = line.snapshots[0].id
        for entry in entries:
            if entry.kind is EntryKind.ADD:
                wanted[entry.file.file_name] = (line, snapshot.id, entry)
            elif snapshot.id == first and (wanted_before := wanted.get(entry.file.file_name)) is not None and wanted_before[0] is line:
                del wanted[entry.file.file_name]  # gone before the first snapshot that is kept

    @staticmethod
    def _named_lists(snapshot: Snapshot) -> list[tuple[str, int | None]]:
        return [
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]

    def _list(self, name: str, size: int | None) -> Sequence[ManifestFile] | str:
        if name not in self._lists:
            manifests = self._read(name, size)
            self._lists[name] = manifests if isinstance(manifests, str) else decoded(lambda: decode_manifest_list(manifests))
        return self._lists[name]

    def _manifest(self, meta: ManifestFile) -> Sequence[ManifestEntry] | str:
        name = meta.file_name
        if name not in self._manifests:
            data = self._read(name, meta.file_size)
            entries = data if isinstance(data, str) else decoded(lambda: decode_manifest(data))
            problem = None if isinstance(entries, str) else wrong_entries(meta, entries, self._table.files.partition_types)
            self._manifests[name] = problem or entries
        return self._manifests[name]

    def _read(self, name: str, size: int | None) -> bytes | str:
        try:
            data = self._io.read(self._table.files.layout.manifest(name))
        except FileNotFoundError:
            return MISSING
        except TableDamaged as damage:  # such as a link that leads out of the table
            return damage.problem
        except Unavailable as problem:
            return refused(problem)
        self._checked(1, len(data))
        return wrong_size(len(data), size) or wrong_name(data, name) or data

    def _data(self, wanted: dict[str, tuple[Line, int, ManifestEntry]]) -> Iterator[Fault]:
        with ThreadPoolExecutor(max(1, self._threads), thread_name_prefix="check") as pool:
            jobs = list(wanted.values())
            for (line, snapshot_id, entry), fault in zip(jobs, pool.map(self._fault, jobs), strict=True):
                self._checked(1, entry.file.file_size)
                if fault is not None:
                    path, problem = fault
                    partition = self._partition(entry)
                    yield Fault(branch=line.branch, snapshot_id=snapshot_id, partition=partition, file=path, rows=entry.file.row_count,
                                problem=problem)  # fmt: skip

    def _fault(self, job: tuple[Line, int, ManifestEntry]) -> tuple[str, str] | None:
        line, _, entry = job
        table = self._branches.get(line.branch, self._table)
        try:
            return fault_of_entry(table, entry, deep=self._deep) or index_fault(table, entry, deep=self._deep)
        except Unavailable as problem:
            return problem.place or entry.file.file_name, refused(problem)

    def _partition(self, entry: ManifestEntry) -> str:
        return shown(self._table.schema, entry)


def fault_of_entry(table: LakeTable, entry: ManifestEntry, *, deep: bool) -> tuple[str, str] | None:
    """The data file of an entry where it is not as it was written, with what is wrong with it.

    Raises what a store says that does not give the file, which may be whole.
    """
    files, schema = table.files, table.schema
    try:
        path = files.data_path(schema, entry)
        written = table.schema_at(entry.file.schema_id) if deep else None
        expected = ExpectedFile(path=path, size=entry.file.file_size, rows=entry.file.row_count, file=entry.file, schema=written)
        fault = fault_of(files.io, expected, deep=deep)
    except LakeError as problem:
        if told_by_the_store(problem):
            raise
        return entry.file.file_name, problem.message
    return None if fault is None else (path, fault)


def _out_of_turn(table: str) -> str:
    return (
        "holds deletion vectors with gaps between them: clients with Paimon before 2.0 that write to the bucket fail, or take one file's "
        f"deleted rows for another's; CALL sys.compact(`table` => {literal(table)}, compact_strategy => 'full') merges them"
    )


def fault_of_index_file(table: LakeTable, record: Mapping[str, Any], *, deep: bool) -> tuple[str, str] | None:
    """The index file of a line of an index manifest where it is not as it was written, with what is wrong with it.

    Raises what a store says that does not give the file, which may be whole.
    """
    files, path = table.files, str(record["_FILE_NAME"])
    try:
        path = index_path(files, table.schema, record)
        if (size := files.io.size(path)) != record["_FILE_SIZE"]:
            return path, f"has {size:,} bytes where its manifest tells {record['_FILE_SIZE']:,}"
        problems = wrong_vectors(files, path, record) if deep and record["_INDEX_TYPE"] == INDEX_TYPE else ()
        return next(((path, problem) for problem in problems), None)
    except FileNotFoundError:
        return path, MISSING
    except LakeError as problem:
        if told_by_the_store(problem):
            raise
        return path, problem.message


def index_fault(table: LakeTable, entry: ManifestEntry, *, deep: bool) -> tuple[str, str] | None:
    """The index beside a data file that is missing or another's: its rows can be read without, by this server if by nobody else."""
    again = f"CALL sys.rewrite_file_index({literal(table.identifier.written())}) makes it anew"
    try:
        for path in table.files.extra_paths(table.schema, entry):
            if not table.files.io.file_exists(path):
                return path, f"{MISSING}; {again}" if path.endswith(SUFFIX) else MISSING
            if deep and path.endswith(SUFFIX) and is_anothers(table.files.io.read(path), path.rpartition("/")[2], entry.file):
                return path, f"is another file's index; {again}"
    except FileNotFoundError:
        return None  # removed in this moment
    except LakeError as problem:
        if told_by_the_store(problem):
            raise
        return entry.file.file_name, problem.message
    return None


def shown(schema: Schema, entry: ManifestEntry) -> str:
    """An entry's partition as its directory is named; empty without partitions."""
    return "/".join(partition_dirs(schema, binary_row.decode([f.type for f in schema.partition_fields], entry.partition)))


def decoded(decode: Callable[[], T]) -> T | str:
    """What a decoder makes of bytes, or what is wrong with them."""
    try:
        return decode()
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        return f"cannot be decoded ({type(problem).__name__}: {problem})"
