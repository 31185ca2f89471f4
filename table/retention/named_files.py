"""The files that a snapshot or an entry of a manifest names."""

from __future__ import annotations

from collections.abc import Iterator

from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.manifests.entries import ManifestEntry
from table.format.store import TableFiles


def lost_changelog(files: TableFiles, snapshot: Snapshot) -> bool:
    """Whether a snapshot's list of changelogs is gone since it expired: Java's expiry leaves a tag of it all else."""
    name, layout = snapshot.changelog_manifest_list, files.layout
    return name is not None and not any(map(files.io.file_exists, (layout.manifest(name), layout.snapshot_file(snapshot.id))))


def metadata_of(files: TableFiles, snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    """Paths of a snapshot's manifests, manifest lists, index files and statistics, with the bytes that are known."""
    layout = files.layout
    lists = [
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
    ]
    for name, size in lists:
        if name is None or (name == snapshot.changelog_manifest_list and lost_changelog(files, snapshot)):
            continue
        yield from ((layout.manifest(meta.file_name), meta.file_size) for meta in files.manifest_list(name))
        yield layout.manifest(name), size or 0
    if snapshot.index_manifest is not None:
        for entry in files.index_manifest(snapshot.index_manifest):
            yield layout.index_file(str(entry["_FILE_NAME"])), entry["_FILE_SIZE"]
        yield layout.manifest(snapshot.index_manifest), 0
    if snapshot.statistics is not None:
        yield layout.statistics_file(snapshot.statistics), 0


def paths_of(files: TableFiles, schema: Schema, entry: ManifestEntry) -> Iterator[str]:
    """Where an entry's data file lies, and what lies beside it."""
    yield files.data_path(schema, entry)
    yield from files.extra_paths(schema, entry)
