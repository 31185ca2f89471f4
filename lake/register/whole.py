"""Whether a snapshot can still be read, asked before history goes on from it or keeps it for long."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

from lake.register.looks.file_faults import fault_of_index_file
from lake.register.looks.side_by_side import SideBySide
from lake.tables.handle import LakeTable
from model.damage import MISSING
from model.errors import LakeError, TableDamaged
from model.identifier import MAIN_BRANCH
from model.snapshot import Snapshot
from model.text.file_name import file_name
from model.text.sql_text import literal
from table.format.io.patience import carried
from table.format.io.storage_errors import told_by_the_store
from table.format.manifests.avro_name import wrong_name
from table.format.manifests.codec import decode_manifest_list
from table.format.store import TableFiles
from table.retention.check import ExpectedFile, size_fault

_THREADS = 8
"""Sizes asked for at once: each is a request where a store holds the files."""
_DATA_THREADS = 32
"""Of data files, which may be many."""
_LISTED_FROM = 16
"""A directory of so many files that are looked for is listed, which is a request for a thousand."""


def require_whole(table: LakeTable, snapshot: Snapshot, *, data: bool = False) -> None:
    """Raise `TableDamaged` for a snapshot that nobody could read: a list or manifest of it is missing, cut off or none.

    Nothing is taken from what this process remembers, which hides damage. With ``data`` its data files and what tells their deleted rows
    are there, too, of the size its manifests tell; that is for what takes later snapshots away.
    """
    files = table.files
    manifests = {name: size for path, size in _lists(snapshot) for name, size in _listed(table, snapshot, path, size)}
    if snapshot.index_manifest is not None:
        manifests[snapshot.index_manifest] = None

    def look(name: str) -> str | None:
        try:
            size, expected_size = files.io.size(files.layout.manifest(name)), manifests[name]
        except FileNotFoundError:
            return MISSING
        return None if expected_size is None or size == expected_size else f"has {size:,} bytes where its list tells {expected_size:,}"

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="whole") as pool:
        for name, problem in zip(manifests, pool.map(carried(look), manifests), strict=True):
            if problem is not None:
                raise files.damaged(files.layout.manifest(name), problem, snapshot_id=snapshot.id)
    if data:
        _require_data(table.at(snapshot.schema_id), snapshot)


def _require_data(table: LakeTable, snapshot: Snapshot) -> None:
    """Raise `TableDamaged` for a data file that is missing or cut off, or an index file of deleted rows."""
    files = table.files.apart()
    by_directory: dict[str, list[ExpectedFile]] = {}
    for entry in files.live_entries(snapshot):
        path = files.data_path(table.schema, entry)
        expected = ExpectedFile(path=path, size=entry.file.file_size, rows=entry.file.row_count)
        by_directory.setdefault(path.rpartition("/")[0], []).append(expected)
    looks = SideBySide(_DATA_THREADS)
    wrong: Iterable[tuple[str, str] | None] = (fault for _, fault in looks.each(lambda one: _wrong_in(files, *one), by_directory.items()))
    if snapshot.index_manifest is not None:
        records = files.index_manifest(snapshot.index_manifest)
        wrong = chain(wrong, (fault for _, fault in looks.each(lambda record: fault_of_index_file(table, record, deep=False), records)))
    file, problem = next((fault for fault in wrong if fault is not None), (None, ""))
    if file is not None:
        raise files.damaged(
            file,
            f"{problem}; nothing was changed, as later snapshots would be lost for one that cannot be read",
            snapshot_id=snapshot.id,
            way_out=_way_to_the_rest(table, snapshot),
        )


def _wrong_in(files: TableFiles, directory: str, expected: Sequence[ExpectedFile]) -> tuple[str, str] | None:
    """The first file of a directory that is not there, or of another size, with what is wrong with it."""
    listed: dict[str, int] = {}
    if len(expected) >= _LISTED_FROM:
        with contextlib.suppress(TableDamaged):  # a place that was recorded for the table may be one that is not listed
            listed = {file_name(status.path): status.size for status in files.io.list(directory)}
    for one in expected:  # each that is not as it should be is asked for by itself, whatever the listing had
        if listed.get(file_name(one.path)) != one.size and (problem := size_fault(files.io, one)) is not None:
            return one.path, problem
    return None


def _way_to_the_rest(table: LakeTable, snapshot: Snapshot) -> str | None:
    """What makes what is left of an older snapshot the latest, and takes nothing away before that can be read."""
    if table.identifier.branch != MAIN_BRANCH:
        return None
    name, branch = table.identifier.written(), replace(table.identifier, branch="rest").written()
    calls = (
        f"create_tag({literal(name)}, 'rest', {snapshot.id})",
        f"create_branch({literal(name)}, 'rest', 'rest')",
        f"remove_unexisting_files({literal(branch)}, dry_run => false)",
        f"fast_forward({literal(name)}, 'rest')",
    )
    return f"{'; '.join(f'CALL sys.{call}' for call in calls)} go to what is left of the snapshot"


def require_newest_readable(table: LakeTable) -> None:
    """Raise `TableDamaged` where the newest snapshot cannot be read: what is older may be all that `sys.repair_table` can go back to.

    Lists and sizes are looked at anew, so that nothing this process remembers hides damage; what manifests hold is decoded once.
    """
    newest = table.latest()
    if newest is None:
        return
    try:
        require_whole(table, newest)
        files = table.files.apart()
        for meta in files.manifests_of(newest):
            for _ in files.partitions_in(meta):
                pass
    except TableDamaged as damage:
        repair = f"CALL sys.repair_table({literal(table.identifier.written())}, true)"
        raise table.files.damaged(
            damage.file,
            f"{damage.problem}, and the newest snapshot needs it: nothing expires meanwhile, as what is older may be all that can be read; "
            f"{repair} tells where it would go back to",
            snapshot_id=newest.id,
        ) from damage


def is_readable(files: TableFiles, snapshot: Snapshot, *, deletions: bool = True, contradictions: bool = False) -> bool:
    """Whether all metadata of a snapshot is there; data files that are lost alone are no reason to go back in time.

    Without its index manifest nothing tells which of its rows are ``deletions``; where that is not asked, its files are told all the same.
    With ``contradictions`` its manifests may contradict each other: nothing is lost by that, and it is mended without going back.
    Raises what a store says that does not give a file: whether it is there is not known then, and nothing may follow from it.
    """
    try:
        require_readable(files, snapshot, deletions=deletions, contradictions=contradictions)
    except LakeError as problem:
        if told_by_the_store(problem):
            raise
        return False
    return True


def require_readable(files: TableFiles, snapshot: Snapshot, *, deletions: bool = True, contradictions: bool = False) -> None:
    """Raise `TableDamaged`, or what else is wrong, for a snapshot of which not `is_readable`."""
    fresh = TableFiles(files.io, files.location, files.layout.branch, name=files.name)
    fresh.partition_types = files.partition_types

    def require(name: str) -> None:
        if not fresh.io.file_exists(path := fresh.layout.manifest(name)):
            raise fresh.damaged(path, MISSING, snapshot_id=snapshot.id)

    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        require(name)
    for meta in fresh.manifests_of(snapshot):
        require(meta.file_name)
    if contradictions:
        for meta in fresh.manifests_of(snapshot):
            fresh.manifest(meta)
    else:
        for _ in fresh.live_entries(snapshot):
            pass
    if deletions and snapshot.index_manifest is not None:
        fresh.index_manifest(snapshot.index_manifest)


def _lists(snapshot: Snapshot) -> Iterator[tuple[str, int | None]]:
    yield snapshot.base_manifest_list, snapshot.base_manifest_list_size
    yield snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    if snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list, None


def _listed(table: LakeTable, snapshot: Snapshot, name: str, size: int | None) -> list[tuple[str, int | None]]:
    """The manifests a list names and their sizes."""
    files, path = table.files, table.files.layout.manifest(name)
    try:
        data = files.io.read(path)
    except FileNotFoundError:
        raise files.damaged(path, MISSING, snapshot_id=snapshot.id) from None
    if size is not None and len(data) != size:
        raise files.damaged(path, f"has {len(data):,} bytes where its snapshot tells {size:,}", snapshot_id=snapshot.id)
    if (problem := wrong_name(data, name)) is not None:
        raise files.damaged(path, problem, snapshot_id=snapshot.id)
    try:
        return [(meta.file_name, meta.file_size) for meta in decode_manifest_list(data)]
    except Exception as failure:  # bytes that were changed make a decoder fail in any way
        raise files.damaged(path, f"cannot be decoded: {failure}", snapshot_id=snapshot.id) from failure
