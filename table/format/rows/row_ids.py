"""Row tracking: the ids that a commit gives the rows of new files (`row-tracking.enabled`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from table.format.manifests.entries import DataFile, EntryKind, FileSource, ManifestEntry

_ROW_ID = "_ROW_ID"


def with_row_ids(changes: Iterable[ManifestEntry], *, snapshot_id: int, first: int) -> tuple[list[ManifestEntry], int]:
    """The changes with ids for rows that have none, and the first id that is free after them.

    The sequence number of a row is the snapshot that wrote it, as in Paimon: a file of rows that nobody numbered gets it.
    """
    numbered: list[ManifestEntry] = []
    free = first
    for entry in changes:
        if entry.kind is EntryKind.ADD:
            file = _with_sequence(entry.file, snapshot_id)
            if file.file_source is FileSource.APPEND and file.first_row_id is None and _ROW_ID not in (file.write_cols or ()):
                file = replace(file, first_row_id=free)
                free += file.row_count
            entry = replace(entry, file=file)
        numbered.append(entry)
    return numbered, free


def _with_sequence(file: DataFile, snapshot_id: int) -> DataFile:
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    return replace(file, max_sequence_number=snapshot_id) if file.max_sequence_number == 0 else file
