"""CALL sys.check_table: every file that a snapshot, tag or branch of a table names, held against what names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from lake.register.changed import ChangedFile, changed_schemas, changed_snapshot, changed_tags
from lake.register.looks.contradictions import Contradictions
from lake.register.looks.faults import Fault, refusals_too, refused, unreadable
from lake.register.looks.file_faults import decoded, deep_fault, fault_of_entry, fault_of_index_file, index_fault, out_of_turn, shown
from lake.register.looks.in_catalog import BranchMetadata
from lake.register.looks.needed import Line, NeededByLine, Wanted, goes_on_from
from lake.register.looks.side_by_side import SideBySide
from lake.tables.handle import LakeTable
from model.damage import MISSING
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import MAIN_BRANCH
from model.options.deletion_vectors import ENABLED as DELETION_VECTORS
from model.options.table import is_on
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.deletions import INDEX_TYPE, index_path, lie_in_turn
from table.format.io.storage_errors import told_by_the_store
from table.format.manifests.avro_name import wrong_name
from table.format.manifests.codec import decode_manifest_list
from table.format.manifests.entries import ManifestEntry, ManifestFile
from table.format.manifests.lists import goes_back, way_out_of
from table.format.manifests.typed import entries_in, index_records, wrong_entries, wrong_size
from table.format.statistics_file import statistics_in
from table.format.store import TableFiles

Checked = Callable[[int, int], None]
"""Told of so many files, and their bytes, that have been looked at; may raise to stop. Called by whoever takes the faults."""
Planned = Callable[[int, int], None]
"""Told how many data files, and bytes, are looked at from now on: all metadata has been."""


_Told = tuple[str, int, int, int, int | None, int | None, bytes, bytes]
"""A manifest's name, and what a list tells of it: where one list is damaged, the manifest is as another tells."""


def _told_of(meta: ManifestFile) -> _Told:
    stats = meta.partition_stats
    counts = (meta.file_size, meta.num_added_files, meta.num_deleted_files, meta.min_bucket, meta.max_bucket)
    return meta.file_name, *counts, stats.min_values, stats.max_values


class TableCheck:
    """One look at a table; nothing of it is taken from what this process remembers."""

    def __init__(
        self, table: LakeTable, *, deep: bool, threads: int | SideBySide, checked: Checked, planned: Planned = lambda *_: None,
        branches: Mapping[str, LakeTable] | None = None,
    ) -> None:  # fmt: skip
        """``branches`` are the table's by name: files are read by the schemas of the branch that names them."""
        self._table = table
        self._branches = branches or {}
        self._io = table.files.io
        self._deep = deep
        self._looks = SideBySide.of(threads)
        self._checked, self._planned = checked, planned
        self._lists: dict[str, Sequence[ManifestFile] | str] = {}
        self._manifests: dict[_Told, Sequence[ManifestEntry] | str] = {}
        self._index_manifests: set[str] = set()
        self._whole: dict[str, bool] = {}
        """Lines of index manifests, and whether the index file of each is as the line tells."""

    def faults(self, lines: Sequence[Line], branches: Sequence[BranchMetadata], *, contradictions: bool = True) -> Iterator[Fault]:
        """All that is wrong, metadata first; what cannot be read is told as that, and the rest is looked at all the same.

        Without ``contradictions`` files are whole that do not fit together, an index and its rows among them, as in a copy of them.
        """
        for metadata in branches:
            yield from refusals_too(metadata.branch, self._small_files(metadata))
        wanted: Wanted = {}
        reported: set[str] = set()
        fitting = Contradictions(
            lambda name: None if isinstance(listed := self._lists[name], str) else listed,
            lambda meta: None if isinstance(entries := self._manifests[_told_of(meta)], str) else entries,
        )
        for line in lines:
            yield from refusals_too(line.branch, self._snapshot_files(line))
            newest = {fault.file: fault for fault in self._metadata(line, wanted)}  # of the newest snapshot that needs each
            for fault in chain(newest.values(), self._contradictions(line, fitting) if contradictions else ()):
                if fault.file not in reported:
                    reported.add(fault.file)
                    yield fault
        yield from self._data(wanted, indexes=contradictions)

    def named(self, lines: Sequence[Line], faults: Callable[[Fault], object]) -> Iterator[str]:
        """Every file that snapshots name, by path, with those beside it.

        ``faults`` is told once of each piece of metadata that cannot be read and of each file whose place is not the table's; all else
        is named all the same.
        """
        wanted: Wanted = {}
        files, schema = self._table.files, self._table.schema
        reported: set[tuple[str, str]] = set()

        def tell(fault: Fault) -> None:
            if (key := (fault.file, fault.problem)) not in reported:
                reported.add(key)
                faults(fault)

        for line in lines:
            for fault in self._metadata(line, wanted):
                tell(fault)
        names = (*self._lists, *(name for name, *_ in self._manifests))
        yield from self._places(tell, ((name, partial(self._manifest_path, name)) for name in dict.fromkeys(names)))
        snapshots = {snapshot.key: snapshot for line in lines for snapshot in line.snapshots}.values()
        statistics = {snapshot.statistics for snapshot in snapshots if snapshot.statistics is not None}
        yield from self._places(tell, ((name, partial(files.layout.statistics_file, name)) for name in sorted(statistics)))
        for index, snapshot in sorted({one.index_manifest: one for one in snapshots if one.index_manifest is not None}.items()):
            yield from self._places(tell, [(index, partial(self._manifest_path, index))])
            _, records = self._index_records(snapshot)
            if isinstance(records, str):
                tell(self._fault_of(MAIN_BRANCH, snapshot, index, records))
                continue
            looks = ((str(record["_FILE_NAME"]), partial(index_path, files, schema, record)) for record in records)
            yield from self._places(tell, looks)
        for _, _, entry in wanted.values():
            name = entry.file.file_name
            yield from self._places(tell, [(name, partial(files.data_path, schema, entry))])
            yield from self._places(tell, [(name, partial(files.extra_paths, schema, entry))])

    @staticmethod
    def _places(tell: Callable[[Fault], object], looks: Iterable[tuple[str, Callable[[], str | list[str]]]]) -> Iterator[str]:
        """Where named files lie; of a place that cannot be told is told instead, unless the store itself is away."""
        for name, look in looks:
            try:
                checked = look()
            except Unavailable as problem:
                tell(unreadable(MAIN_BRANCH, problem))
            except LakeError as problem:
                file, what = (problem.file, problem.problem) if isinstance(problem, TableDamaged) else (name, problem.message)
                tell(Fault(branch=MAIN_BRANCH, snapshot_id=None, partition="", file=file, rows=None, problem=what))
            else:
                yield from [checked] if isinstance(checked, str) else checked

    def _manifest_path(self, name: str) -> str:
        return self._table.files.layout.manifest(name)

    def _fault_of(self, branch: str, snapshot: Snapshot, name: str, problem: str) -> Fault:
        """The fault of a list or manifest; one whose name leads out of the table is told by that name."""
        try:
            path = self._manifest_path(name)
        except TableDamaged as damage:
            path = damage.file
        return Fault(branch=branch, snapshot_id=snapshot.id, partition="", file=path, rows=None, problem=problem)

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
        looks = list[Iterator[Fault]]()
        for schema_id, body in metadata.schemas:
            changed = self._changed(branch, changed_schemas(files, [(schema_id, body)]))
            looks.append(chain(self._missing_schema(files, branch, schema_id), changed))
        there = set[int]()
        try:
            there.update(files.snapshot_ids() if metadata.snapshots else ())
        except Unavailable as problem:
            yield unreadable(branch, problem)
        for row in metadata.snapshots:
            if row.published and row.snapshot_id in there:
                looks.append(self._changed(branch, changed_snapshot(files, row)))
        looks += [self._changed(branch, changed_tags(files, [tag])) for tag in metadata.tags]
        for _, faults in self._looks.each(lambda look: list(refusals_too(branch, look)), looks):
            self._checked(1, 0)
            yield from faults

    def _missing_schema(self, files: TableFiles, branch: str, schema_id: int) -> Iterator[Fault]:
        if not self._io.exists(path := files.layout.schema_file(schema_id)):
            yield Fault(branch=branch, snapshot_id=None, partition="", file=path, rows=None, problem=f"is missing; {self._repair(branch)}")

    def _changed(self, branch: str, files: Iterable[ChangedFile]) -> Iterator[Fault]:
        for changed in files:
            problem = f"{changed.problem}; {self._repair(branch)}"
            yield Fault(branch=branch, snapshot_id=changed.snapshot_id, partition="", file=changed.path, rows=None, problem=problem)

    def _repair(self, branch: str) -> str:
        """What writes a branch's file again."""
        return f"CALL sys.repair_table({literal(self._written(branch))}) writes it again from the catalog"

    def _written(self, branch: str) -> str:
        return replace(self._table.identifier, branch=branch).written()

    def _metadata(self, line: Line, wanted: Wanted) -> Iterator[Fault]:
        """Faults of lists and manifests; the data files that any snapshot of the line needs are put into ``wanted``."""
        self._read_ahead(line)
        of_line = NeededByLine(line)
        before: tuple[int, list[str]] | None = None
        for snapshot in line.snapshots:
            base, delta = (self._lists[name] for name, _ in self._named_lists(snapshot))
            # What a snapshot has is what the one before it had and what it added itself, where its base names what that one left. Else
            # it is what its own base and delta leave of each other: another snapshot or line may need what they take away.
            follows = not isinstance(base, str) and goes_on_from(before, snapshot, [meta.file_name for meta in base])
            names, entries_of = list[str](), list[Sequence[ManifestEntry]]()
            for (name, _), metas in zip(self._named_lists(snapshot), (base, delta), strict=True):
                if isinstance(metas, str):
                    newest = line.published and snapshot is line.snapshots[-1]
                    problem = f"{metas}; {goes_back(self._written(line.branch))}" if newest else metas
                    yield self._fault_of(line.branch, snapshot, name, problem)
                    continue
                for meta in metas:
                    names.append(meta.file_name)
                    entries = self._manifests[_told_of(meta)]
                    if isinstance(entries, str):
                        yield self._fault_of(line.branch, snapshot, meta.file_name, entries)
                    elif not follows or metas is delta:
                        entries_of.append(entries)
            before = snapshot.id, names
            of_line.add(snapshot.id, chain.from_iterable(entries_of), follows=follows)
            self._checked(1, 0)
        of_line.into(wanted)
        yield from self._statistics(line)
        yield from self._indexes(line)

    def _contradictions(self, line: Line, contradictions: Contradictions) -> Iterator[Fault]:
        """Where manifests do not fit together, once all of the line are read."""
        files = TableFiles(self._io, self._table.location, line.branch)
        for one in contradictions.of(line, table=self._written(line.branch)):
            if one.manifest is not None:
                yield self._fault_of(line.branch, one.snapshot, one.manifest, one.problem)
                continue
            path, number = files.layout.snapshot_file(one.snapshot.id), one.snapshot.id
            yield Fault(branch=line.branch, snapshot_id=number, partition="", file=path, rows=None, problem=one.problem)

    def _statistics(self, line: Line) -> Iterator[Fault]:
        """Faults of files of statistics, which cost no row."""
        named = {snapshot.statistics: snapshot for snapshot in line.snapshots if snapshot.statistics is not None}
        for name, snapshot in named.items():
            path = self._table.files.layout.statistics_file(name)
            data = self._read_at(path)
            problem = data if isinstance(data, str) else decoded(partial(statistics_in, data))
            if isinstance(problem, str):
                problem = f"{problem}; {way_out_of(path, self._written(line.branch))}"
                yield Fault(branch=line.branch, snapshot_id=snapshot.id, partition="", file=path, rows=None, problem=problem)

    def _indexes(self, line: Line) -> Iterator[Fault]:
        """Faults of index manifests and of the files they name: with them the rows that they say are deleted come back."""
        wanted: list[Snapshot] = []
        for snapshot in line.snapshots:
            name = snapshot.index_manifest
            if name is not None and (name not in self._index_manifests or self._has_turns(line, snapshot)):
                self._index_manifests.add(name)
                wanted.append(snapshot)
        for snapshot, (length, records) in self._looks.each(self._index_records, wanted):
            self._checked(1, length)
            if isinstance(records, str):
                yield self._fault_of(line.branch, snapshot, snapshot.index_manifest or "", records)
                continue
            for path, problem in chain(self._index_files(line, snapshot, records), self._unheeded(line, snapshot, records)):
                yield Fault(branch=line.branch, snapshot_id=snapshot.id, partition="", file=path, rows=None, problem=problem)

    def _unheeded(self, line: Line, snapshot: Snapshot, records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        """The index manifest of a branch's newest snapshot that other clients do not look at: rows deleted by it are there for them."""
        name, options = snapshot.index_manifest or "", self._branches.get(line.branch, self._table).schema.options
        newest = bool(line.published) and name == line.snapshots[-1].index_manifest
        if newest and not is_on(options, DELETION_VECTORS) and any(record["_INDEX_TYPE"] == INDEX_TYPE for record in records):
            yield (
                self._table.files.layout.manifest(name),
                (
                    f"marks rows as deleted, and the table's option '{DELETION_VECTORS}' is not on: other Paimon clients read these rows. "
                    "Have one of them set it to 'true'"
                ),
            )

    def _has_turns(self, line: Line, snapshot: Snapshot) -> bool:
        """Whether the order of a snapshot's index files matters: that of what is written to."""
        return bool(line.published) and snapshot is line.snapshots[-1] and self._table.schema.bucket > 0

    def _index_records(self, snapshot: Snapshot) -> tuple[int, list[dict[str, Any]] | str]:
        """How many bytes a snapshot's index manifest has, and what it tells, or what is wrong with it."""
        data = self._read(snapshot.index_manifest or "", None)
        return (0, data) if isinstance(data, str) else (len(data), decoded(lambda: index_records(data, self._table.files.partition_types)))

    def _index_files(self, line: Line, snapshot: Snapshot, records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        """Index files that are not as an index manifest tells, each looked at once however many manifests name it alike."""
        keys = {repr(record): record for record in records}
        for (key, _), fault in self._looks.each(self._index_file, [item for item in keys.items() if item[0] not in self._whole]):
            self._whole[key] = fault is None
            if fault is not None:
                yield fault
        for key, record in keys.items() if self._has_turns(line, snapshot) else ():
            if self._whole[key] and record["_INDEX_TYPE"] == INDEX_TYPE and not lie_in_turn(record):
                yield index_path(self._table.files, self._table.schema, record), out_of_turn(self._written(line.branch))

    def _index_file(self, line: tuple[str, dict[str, Any]]) -> tuple[str, str] | None:
        _, record = line
        try:
            return fault_of_index_file(self._table, record, deep=self._deep)
        except Unavailable as problem:
            return problem.place or str(record["_FILE_NAME"]), refused(problem)

    @staticmethod
    def _named_lists(snapshot: Snapshot) -> list[tuple[str, int | None]]:
        return [
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]

    def _read_ahead(self, line: Line) -> None:
        """Read the lists of a line that were not read yet, and then their manifests, several at once."""
        sizes: dict[str, int | None] = {}
        for name, size in (named for snapshot in line.snapshots for named in self._named_lists(snapshot)):
            if name not in self._lists:
                sizes.setdefault(name, size)
        for (name, _), (length, content) in self._looks.each(lambda named: self._list(*named), sizes.items()):
            self._lists[name] = content
            self._checked(1, length)
        metas: dict[_Told, ManifestFile] = {}
        for name in dict.fromkeys(name for snapshot in line.snapshots for name, _ in self._named_lists(snapshot)):
            listed = self._lists[name]
            for meta in () if isinstance(listed, str) else listed:
                if (key := _told_of(meta)) not in self._manifests:
                    metas.setdefault(key, meta)
        for meta, (length, entries) in self._looks.each(self._manifest, metas.values()):
            self._manifests[_told_of(meta)] = entries
            self._checked(1, length)

    def _list(self, name: str, size: int | None) -> tuple[int, Sequence[ManifestFile] | str]:
        """How many bytes a list has, and what it tells, or what is wrong with it."""
        data = self._read(name, size)
        return (0, data) if isinstance(data, str) else (len(data), decoded(lambda: decode_manifest_list(data)))

    def _manifest(self, meta: ManifestFile) -> tuple[int, Sequence[ManifestEntry] | str]:
        """The same of a manifest."""
        data = self._read(meta.file_name, meta.file_size)
        if isinstance(data, str):
            return 0, data
        types = self._table.files.partition_types
        entries = decoded(lambda: entries_in(data, types))
        if isinstance(entries, str):
            return len(data), entries
        return len(data), decoded(lambda: wrong_entries(meta, entries, types)) or entries

    def _read(self, name: str, size: int | None) -> bytes | str:
        try:
            data = self._read_at(self._table.files.layout.manifest(name))
        except TableDamaged as damage:  # a name that leads out of the table
            return damage.problem
        return data if isinstance(data, str) else wrong_size(len(data), size) or wrong_name(data, name) or data

    def _read_at(self, path: str) -> bytes | str:
        try:
            return self._io.read(path)
        except FileNotFoundError:
            return MISSING
        except TableDamaged as damage:  # such as a link that leads out of the table
            return damage.problem
        except Unavailable as problem:
            return refused(problem)

    def _data(self, wanted: Wanted, *, indexes: bool) -> Iterator[Fault]:
        self._planned(len(wanted), sum(entry.file.file_size for _, _, entry in wanted.values()))
        for (line, snapshot_id, entry), fault in self._looks.each(partial(self._fault, indexes=indexes), wanted.values()):
            self._checked(1, entry.file.file_size)
            if fault is not None:
                path, problem = fault
                partition = self._partition(entry)
                yield Fault(branch=line.branch, snapshot_id=snapshot_id, partition=partition, file=path, rows=entry.file.row_count,
                            problem=problem)  # fmt: skip

    def _fault(self, job: tuple[Line, int, ManifestEntry], *, indexes: bool) -> tuple[str, str] | None:
        """What is wrong with a data file, or with what lies beside it; ``indexes`` are held against the rows in a deep look."""
        line, _, entry = job
        table = self._branches.get(line.branch, self._table)
        try:
            if not self._deep:
                return fault_of_entry(table, entry, deep=False) or index_fault(table, entry, None)
            return deep_fault(table, entry, contradictions=indexes)
        except Unavailable as problem:
            if problem.place is not None and not told_by_the_store(problem):  # of this file alone: a decoder that did not come to its end
                return problem.place, f"could not be looked at: {problem.message}"
            return problem.place or entry.file.file_name, refused(problem)

    def _partition(self, entry: ManifestEntry) -> str:
        return shown(self._table.schema, entry)
