"""Long-lived changelogs: what Paimon's Java clients make of snapshots that they expire where `changelog.num-retained.max` and its like
keep changes longer than snapshots, so that streams which are behind read on (`ExpireSnapshotsImpl.commitChangelog`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from model.errors import LakeError, TableDamaged
from model.snapshot import Snapshot
from table.format.json_document import parse_json
from table.format.manifests.entries import EntryKind, FileSource, ManifestEntry, ManifestFile
from table.format.store import TableFiles

T = TypeVar("T")


def changelogs_of(files: TableFiles) -> list[Snapshot]:
    """Those of a branch, as the snapshots they were; raises `TableDamaged` for one that cannot be read: what it needs would go."""
    snapshots = []
    for changelog_id in files.changelog_ids():
        path = files.layout.changelog_file(changelog_id)
        try:
            data = files.io.read(path)
        except (FileNotFoundError, TableDamaged):  # expired just now; or no file of the table's, as a link that leads out of it
            continue
        try:
            snapshots.append(Snapshot.from_json(parse_json(data)))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise files.damaged(path, f"is no changelog: {problem}") from problem
    return snapshots


def names_needed(files: TableFiles, changelog: Snapshot) -> set[str]:
    """Names of a changelog's lists, of their manifests, and of the data files that its readers read: those that writers added.

    As Java's expiry goes by it: the files of compactions, indexes and statistics go with the snapshot (`SnapshotDeletion`). Of a list or
    manifest that is gone nothing can be read any more, and nobody needs what it named.
    """
    layout, names = files.layout, set[str]()
    read = (changelog.delta_manifest_list, changelog.changelog_manifest_list)
    for name in (changelog.base_manifest_list, *read):
        if name is None:
            continue
        metas: Sequence[ManifestFile] = _unless_gone(files, layout.manifest(name), partial(files.manifest_list, name))
        names.update((name, *(meta.file_name for meta in metas)))
        for meta in metas if name in read else ():
            entries: Sequence[ManifestEntry] = _unless_gone(files, layout.manifest(meta.file_name), partial(files.manifest, meta))
            for entry in entries:
                if entry.kind is EntryKind.ADD and entry.file.file_source is not FileSource.COMPACT:
                    names.update((entry.file.file_name, *entry.file.extra_files))
    return names


def _unless_gone(files: TableFiles, path: str, read: Callable[[], Sequence[T]]) -> Sequence[T]:
    try:
        return read()
    except LakeError:
        if files.io.file_exists(path):
            raise
        return ()
