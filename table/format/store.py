"""One table's files: its schemas, snapshots, hints, manifest lists and manifests, with caches of what never changes."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Self, TypeVar
from uuid import uuid4

from model.damage import MISSING
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import MAIN_BRANCH
from model.schema.schema import Schema
from model.schema.types import DataType
from model.snapshot import Snapshot
from model.text.file_name import file_name
from model.text.whole_number import whole_number
from table.format.cache import IDLE_SECONDS, ByteCache
from table.format.io.deleting import delete_all
from table.format.io.directory import Directory
from table.format.io.file_io import FileIO
from table.format.io.guarded_io import GuardedFileIO
from table.format.io.reach import Reach
from table.format.json_document import parse_to_keep
from table.format.layout import EARLIEST, LATEST, TableLayout
from table.format.manifests.avro_name import wrong_name
from table.format.manifests.codec import decode_manifest_list, encode_manifest_list, encode_manifests, entry_record
from table.format.manifests.columns import ManifestColumns, entry_count, many_entries
from table.format.manifests.entries import ManifestEntry, ManifestFile, entries_bytes, list_bytes, manifest_file
from table.format.manifests.lists import LIST_PREFIX, way_out_of
from table.format.manifests.typed import Look, claimed_index, claimed_list, columns_in, entries_in, index_records, wrong_entries, wrong_size
from table.format.rows import binary_row
from table.format.schema_file import publish_schema
from table.format.schemas import KnownSchemas, Schemas
from table.format.snapshot_file import Published as Published
from table.format.snapshot_file import publish, snapshot_bytes, stored_snapshot
from table.format.statistics_file import statistics_in
from table.format.table_directory import opened_in, require_there
from table.scan.planning.column_cache import COLUMNS
from table.scan.planning.live import Irregular, merge_entries, never_added, only_added
from table.scan.planning.live_files import BucketSums, ColumnFiles, ListedFiles, LiveFiles
from table.scan.skipping.partition_filter import BucketFilter

T = TypeVar("T")
E = TypeVar("E", Sequence[ManifestEntry], ManifestColumns)
PartitionFilter = Callable[[bytes], bool]
NamedBy = Callable[[str], int | None]
"""The live snapshot that names a file, 0 where the table does in another way; None where nothing of it does any more."""

# One cache each for all tables of the process, so that the bounds hold however many tables are open.
_MANIFESTS_BYTES, _LISTS_BYTES = 192 << 20, 64 << 20
_MANIFESTS: ByteCache[str, Sequence[ManifestEntry]] = ByteCache(_MANIFESTS_BYTES, entries_bytes, idle_seconds=IDLE_SECONDS)
_LISTS: ByteCache[str, Sequence[ManifestFile]] = ByteCache(_LISTS_BYTES, list_bytes, idle_seconds=IDLE_SECONDS)

_KEPT_ENTRIES = 256
"""Entries from which the columns of a manifest are worth a file."""


class TableFiles:
    """Reads and writes the metadata files of the table at ``location``, or of a branch of it."""

    _lists, _manifests = _LISTS, _MANIFESTS
    """Where what is read stays: with the process, or with a copy that is made to read what nobody reads again."""

    def __init__(  # noqa: PLR0913 - the table, and what is asked of a catalog
        self,
        file_io: FileIO,
        location: str,
        branch: str = MAIN_BRANCH,
        *,
        name: str | None = None,
        named_by: NamedBy | None = None,
        known_schemas: KnownSchemas | None = None,
        allowed: Sequence[str] | None = (),
    ) -> None:
        self.reach = Reach(location, name=name, allowed=allowed)
        self.io: FileIO = GuardedFileIO(file_io, self.reach)
        self.layout = TableLayout(location, branch, reach=self.reach)
        self.name = self.reach.name
        """What errors call the table: as SQL writes it, or by its directory where no catalog is asked."""
        self._named_by = named_by
        self.partition_types: Sequence[DataType] | None = None
        """Of the partition's columns, which never change; where they are known, each manifest is held to them as it is read."""
        self._schemas = Schemas(known_schemas)

    def __getstate__(self) -> dict[str, Any]:
        """Without the catalog: on another machine nobody is asked."""
        return {**self.__dict__, "_named_by": None}

    def apart(self) -> Self:
        """The same table, for work that reads what nobody reads again: nothing of it stays in the caches that serve everybody."""
        other = copy.copy(self)
        other._lists = ByteCache(_LISTS_BYTES, list_bytes)
        other._manifests = ByteCache(_MANIFESTS_BYTES, entries_bytes)
        return other

    @property
    def location(self) -> str:
        """The table's directory."""
        return self.layout.location

    def missing(self, path: str) -> LakeError:
        """What it means that a file of the table is not there: damage where something live names it, else its snapshot has expired."""
        snapshot_id = None if self._named_by is None else self._named_by(path)
        if snapshot_id is None:
            gone = f"{file_name(path)} of table {self.name} is not there any more"
            ask = "; CALL sys.check_table tells whether it is lost" if self._named_by is None else ""
            return Unavailable(f"{gone}: the snapshot that named it may have expired while it was read{ask}.", place=path)
        return self.damaged(path, MISSING, snapshot_id=snapshot_id or None)

    def damaged(self, path: str, problem: str, *, snapshot_id: int | None = None, way_out: str | None = None) -> TableDamaged:
        """The failure of a file that is there and is not what was written: files never change, so reading it again does not help.

        ``way_out`` as `TableDamaged` has it.
        """
        if snapshot_id is None and self._named_by is not None:
            with contextlib.suppress(LakeError):  # where the catalog cannot be asked the damage is told all the same
                snapshot_id = self._named_by(path) or None
        way_out = way_out_of(path, self.name) if way_out is None else way_out
        return TableDamaged(self.name, file=path, problem=problem, snapshot_id=snapshot_id, way_out=way_out)

    def read_schema(self, schema_id: int) -> Schema:
        """The schema of that version; see `Schemas.read`."""
        return self._schemas.read(schema_id, self)

    def write_schema(self, schema: Schema) -> Published:
        """Put the schema's file there (`schema_file.publish_schema`)."""
        return publish_schema(schema, self.layout.schema_file(schema.id), self.io)

    def read_snapshot(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot's file, or None where there is none; raises `TableDamaged` where it is no snapshot."""
        return self.snapshot_at(self.layout.snapshot_file(snapshot_id), snapshot_id)

    def snapshot_at(self, path: str, snapshot_id: int) -> Snapshot | None:
        """The same of a snapshot's file that lies elsewhere."""
        try:
            return stored_snapshot(parse_to_keep(self.io.read(path)))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise self.damaged(path, f"is no snapshot: {problem}", snapshot_id=snapshot_id) from problem

    def snapshots(self, *, make: bool = True) -> AbstractContextManager[Directory]:
        """A hand on the directory of snapshots, for `publish_snapshot` and `write_hints`; see `table_directory.opened_in`."""
        return opened_in(self.io, self.location, self.layout.snapshot_dir(), make=make)

    def require_there(self) -> None:
        """Raise `Unavailable` where the table's directory is not there; see `table.format.table_directory`."""
        require_there(self.io, self.location, self.name)

    def publish_snapshot(self, snapshot: Snapshot, place: Directory, *, free: bool = False) -> Published:
        """Put the decided snapshot's file there (`snapshot_file.publish`)."""
        return publish(snapshot, self.layout.snapshot_name(snapshot.id), place, free=free)

    def write_snapshot_anew(self, snapshot: Snapshot) -> None:
        """Put another copy of a decided snapshot's file in its place, durably."""
        self.io.write(self.layout.snapshot_file(snapshot.id), snapshot_bytes(snapshot))

    def write_hints(self, latest: int, place: Directory, *, earliest: int | None = None) -> None:
        """Tell readers where to look first; hints may lag, they are never believed unchecked."""
        place.update(LATEST, str(latest).encode())
        if earliest is not None:
            place.write(EARLIEST, str(earliest).encode())

    def read_hint(self, path: str) -> int | None:
        """The id a hint file holds, or None."""
        try:
            return int(self.io.read(path).decode().strip())
        except (FileNotFoundError, ValueError):
            return None

    def latest_on_disk(self) -> int | None:
        """The newest snapshot id as a reader of files finds it: the hint where it holds, else the largest listed."""
        hint, there = self.read_hint(self.layout.latest_hint()) or 0, self.io.file_exists
        if hint > 0 and not there(self.layout.snapshot_file(hint + 1)) and there(self.layout.snapshot_file(hint)):
            return hint
        return max(self.snapshot_ids(), default=None)

    def snapshot_ids(self) -> list[int]:
        """The ids of all snapshot files, ascending."""
        return self._ids(self.layout.snapshot_dir(), "/snapshot-")

    def schema_ids(self) -> list[int]:
        """The ids of all schema files, ascending."""
        return self._ids(self.layout.schema_dir(), "/schema-")

    def changelog_ids(self) -> list[int]:
        """The ids of the snapshots that Java's expiry has kept as changelogs, ascending."""
        return self._ids(self.layout.changelog_dir(), "/changelog-")

    def _ids(self, directory: str, prefix: str) -> list[int]:
        names = (status.path.rpartition(prefix)[2] for status in self.io.list(directory))
        numbers = ((name, whole_number(name)) for name in names)
        return sorted(number for name, number in numbers if number is not None and str(number) == name)

    def is_expired(self, snapshot: Snapshot) -> bool:
        """Whether somebody has expired a snapshot: its file and what it names are gone, and a later snapshot is there."""
        lists = map(self.layout.manifest, (snapshot.base_manifest_list, snapshot.delta_manifest_list))
        gone = (self.layout.snapshot_file(snapshot.id), *lists)
        return not any(map(self.io.file_exists, gone)) and (self.latest_on_disk() or 0) > snapshot.id

    def manifest_list(self, name: str, size: int | None = None) -> Sequence[ManifestFile]:
        """The manifests a list names, held to the size its snapshot tells; lists never change, so they are read once."""
        path = self.layout.manifest(name)
        return self._lists.or_load(path, lambda: _LISTS.get(path) or tuple(self._decoded(path, decode_manifest_list, size)))

    def claimed_list(self, name: str, carried: Collection[str] = ()) -> Sequence[ManifestFile]:
        """The same of a list that a client hands in, as `typed.claimed_list` holds it, also where it is kept."""
        manifests = tuple(self._decoded(path := self.layout.manifest(name), lambda data: claimed_list(data, carried)))
        self._lists.put(path, manifests)
        return manifests

    def base_manifests(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of what was before a snapshot."""
        return self.manifest_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)

    def delta_manifests(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of what a snapshot changed."""
        return self.manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def manifest(self, meta: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of a manifest, held to what its list tells of it: another in its place is damage.

        Manifests never change, so they are read once, by whoever can tell a partition from other bytes.
        """
        return self._entries(self.layout.manifest(meta.file_name), meta)

    def claimed_entries(self, meta: ManifestFile, *, look: Look | None = None) -> Sequence[ManifestEntry]:
        """The same of a manifest that a client hands in: what its list tells of it is judged by the caller.

        ``look`` gets the records as they lie in the file.
        """
        path = self.layout.manifest(meta.file_name)
        if look is None:
            return self._entries(path, None)

        # Also where it is kept: whoever read it first may not have looked so closely.
        entries = tuple(self._read(path, None, lambda data: entries_in(data, self.partition_types, look=look)))
        self._manifests.put(path, entries)
        return entries

    def _entries(self, path: str, meta: ManifestFile | None) -> Sequence[ManifestEntry]:
        def read() -> Sequence[ManifestEntry]:
            return self._read(path, meta, lambda data: entries_in(data, self.partition_types))

        if self.partition_types is None:
            return _MANIFESTS.get(path) or read()
        return self._manifests.or_load(path, lambda: _MANIFESTS.get(path) or tuple(read()))

    def _read(self, path: str, meta: ManifestFile | None, decode: Callable[[bytes], E]) -> E:
        entries = self._decoded(path, decode, None if meta is None else meta.file_size)
        if meta is not None and (problem := wrong_entries(meta, entries, self.partition_types)) is not None:
            raise self.damaged(path, problem)
        return entries

    def columns(self, meta: ManifestFile) -> ManifestColumns:
        """The entries of a manifest as columns; kept in the process's column cache."""
        path = self.layout.manifest(meta.file_name)

        def load() -> ManifestColumns:
            known = _MANIFESTS.get(path)
            if known is not None:
                return ManifestColumns.of(map(entry_record, known))
            return self._read(path, meta, lambda data: columns_in(data, self.partition_types))

        if self.partition_types is None:
            return load()
        return COLUMNS.columns(path, meta.file_size, load, persist=entry_count([meta]) >= _KEPT_ENTRIES)

    def partitions_in(self, meta: ManifestFile) -> Iterable[bytes]:
        """The partitions of a manifest's entries, in the order these are first seen; some may come again."""
        if entry_count([meta]) < _KEPT_ENTRIES:
            return (entry.partition for entry in self.manifest(meta))
        return self.columns(meta).partitions.to_pylist()  # type: ignore[no-any-return]

    def newest_sizes(self, meta: ManifestFile, most: int) -> Iterable[tuple[int, int]]:
        """Bytes and rows of the files a manifest speaks of, the last ones first."""
        if entry_count([meta]) < _KEPT_ENTRIES:
            return ((entry.file.file_size, entry.file.row_count) for entry in reversed(self.manifest(meta)[-most:]))
        columns = self.columns(meta)
        sizes, rows = (columns.numbers(name)[-most:][::-1].tolist() for name in ("file_size", "row_count"))
        return zip(sizes, rows, strict=True)

    def live(self, manifests: Sequence[ManifestFile]) -> LiveFiles:
        """What is live in some manifests: by their columns where they are many, else entry by entry."""
        columns = self.column_files(manifests) if many_entries(manifests) else None
        return columns or ListedFiles(lambda: self._merged(manifests), has_deletes=any(meta.num_deleted_files for meta in manifests))

    def column_files(self, manifests: Sequence[ManifestFile]) -> ColumnFiles | None:
        """What is live in some manifests, by their columns; None where they tell a history that only the plain rule tells."""
        names = [self.layout.manifest(meta.file_name) for meta in manifests]
        try:
            return ColumnFiles(names, [self.columns(meta) for meta in manifests])
        except Irregular:
            return None

    def live_of(self, snapshot: Snapshot | None) -> LiveFiles:
        """The files of a snapshot.

        Raises `TableDamaged` where a file is removed without having been added: over a whole snapshot that means corrupt metadata,
        however common it is in a part of one.
        """
        if snapshot is None:
            return ListedFiles(lambda: (), has_deletes=False)
        live = self.live(self.manifests_of(snapshot))
        if orphan := next(live.orphans(), None):
            raise never_added(self.name, snapshot, orphan)
        return live

    def bucket_sums(self, snapshot: Snapshot | None) -> list[BucketSums]:
        """The live files of a snapshot by partition and bucket, in the order these are first seen; raises what `live_entries` raises."""
        return self.live_of(snapshot).sums()

    def live_among(self, snapshot: Snapshot | None, keep: Callable[[ManifestFile], bool]) -> LiveFiles:
        """The files of a snapshot that lie in the manifests ``keep`` leaves.

        It must be a rule about partitions or buckets, so that an ADD and its DELETE are left out together.
        """
        return self.live([meta for meta in self.manifests_of(snapshot) if keep(meta)] if snapshot else [])

    def touched_entries(self, snapshot: Snapshot | None, touched: BucketFilter) -> Iterator[ManifestEntry]:
        """The live files of a snapshot in some partitions and buckets, in manifest order."""
        yield from self.live_among(snapshot, touched.may_hold).within(touched.partitions, touched.buckets)

    def data_path(self, schema: Schema, entry: ManifestEntry) -> str:
        """Where an entry's data file lies."""
        if entry.file.external_path is not None:
            return self.reach.external(entry.file.external_path)
        values = binary_row.decode([field.type for field in schema.partition_fields], entry.partition)
        return self.data_file(schema, values, entry.bucket, entry.file.file_name)

    def data_file(self, schema: Schema, partition: Sequence[object], bucket: int, name: str) -> str:
        """Where a file of a partition's bucket lies that was written, by this release or an earlier one."""
        return self.layout.written_file(schema, partition, bucket, name, self.io.exists)

    def extra_paths(self, schema: Schema, entry: ManifestEntry) -> list[str]:
        """Where the files beside an entry's data file lie: its index."""
        directory = self.data_path(schema, entry).rpartition("/")[0]
        return [self.reach.named(directory, name) for name in entry.file.extra_files]

    def delete(self, *groups: Iterable[str]) -> None:
        """Remove files of the table, a group after the one before it; none of them where one is not the table's. See `delete_all`."""
        ordered = [list(paths) for paths in groups]
        for path in chain.from_iterable(ordered):
            self.reach.check(path)
        for paths in ordered:
            delete_all(self.io, paths)

    def index_manifest(self, name: str, *, claimed: bool = False) -> list[dict[str, Any]]:
        """The entries of an index manifest, as Avro holds them; a ``claimed`` one is held to what other readers can read."""
        decode = claimed_index if claimed else index_records
        return self._decoded(self.layout.manifest(name), lambda data: decode(data, self.partition_types))

    def statistics(self, name: str) -> Mapping[str, Any]:
        """What was found of a snapshot by ANALYZE; raises as what reads manifests."""
        return self._decoded(self.layout.statistics_file(name), statistics_in)

    def _decoded(self, path: str, decode: Callable[[bytes], T], size: int | None = None) -> T:
        """What a metadata file holds; raises what `missing` tells, and `TableDamaged` for one of another size or that cannot be decoded."""
        try:
            data = self.io.read(path)
        except FileNotFoundError:
            raise self.missing(path) from None
        if (problem := wrong_size(len(data), size) or wrong_name(data, file_name(path))) is not None:
            raise self.damaged(path, problem)
        try:
            return decode(data)
        except Exception as problem:  # bytes that were changed make a decoder fail in any way
            raise self.damaged(path, f"cannot be decoded ({type(problem).__name__}: {problem})") from problem

    def new_manifests(self, entries: Iterable[ManifestEntry], partition_types: Sequence[DataType], *, target: int) -> list[ManifestFile]:
        """Write the entries, in their order, as manifests of about ``target`` encoded bytes under fresh names; none make no file."""
        metas = []
        for name, part, data in encode_manifests(entries, target=target, new_name=lambda: f"manifest-{uuid4()}-0"):
            path = self.layout.manifest(name)
            self.io.add(path, data)
            _MANIFESTS.put(path, tuple(part))
            metas.append(manifest_file(name, len(data), part, partition_types))
        return metas

    def new_manifest_list(self, files: Sequence[ManifestFile]) -> tuple[str, int]:
        """Write the list under a fresh name; returns the name and its exact size, which Java trusts."""
        name = f"{LIST_PREFIX}{uuid4()}-0"
        data = encode_manifest_list(files, name=name)
        path = self.layout.manifest(name)
        self.io.add(path, data)
        _LISTS.put(path, tuple(files))
        return name, len(data)

    def manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """All manifests of a snapshot: what was before it, then what it changed."""
        return [*self.base_manifests(snapshot), *self.delta_manifests(snapshot)]

    def delta_entries(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        """What a snapshot changed, in manifest order."""
        for meta in self.delta_manifests(snapshot):
            yield from self.manifest(meta)

    def _merged(self, manifests: Sequence[ManifestFile]) -> Iterator[ManifestEntry]:
        """What is left of the manifests' entries, in their order: a DELETE, too, where they do not have its ADD."""
        if any(meta.num_deleted_files for meta in manifests):
            return merge_entries((entry for meta in manifests for entry in self.manifest(meta)), table=self.name)
        return only_added((self.manifest(meta) for meta in manifests), table=self.name)

    def live_entries(self, snapshot: Snapshot | None) -> Iterator[ManifestEntry]:
        """The files of a snapshot, each an ADD, in manifest order; raises what `live_of` raises before the first is given."""
        yield from self.live_of(snapshot).entries()
