"""Files of schemas, snapshots and tags that are not what the catalog has under their names: cut off, changed, replaced, or missing.

SQL does not need them, whoever reads the files past the catalog does. A repair writes them again, and moves away what is in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.records import SnapshotRow, TagRow
from lake.register.whole import is_readable
from lake.tables.tag_files import tag_bytes, tag_in
from model.damage import MISSING
from model.errors import TableDamaged
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json
from table.format.schema_file import NO_SCHEMA, schema_bytes
from table.format.snapshot_file import same_snapshot, snapshot_bytes
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that holds something else, or nothing, and what it held."""

    path: str
    data: bytes
    problem: str
    number: int
    """Of the schema or snapshot that it told."""
    snapshot_id: int | None = None
    """The snapshot that it is the file of."""


def changed_schemas(files: TableFiles, schemas: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[ChangedFile]:
    """Of a branch's schemas those whose files tell another one, or none."""
    for schema_id, body in schemas:
        path = files.layout.schema_file(schema_id)
        try:
            same = Schema.from_json(parse_json(files.io.read(path))) == Schema.from_json(body)
        except (FileNotFoundError, TableDamaged):
            if not files.io.exists(path):
                continue  # also a link that leads in a circle
            same = False  # a directory, or a link out of the table
        except NO_SCHEMA:
            same = False
        if not same:
            yield ChangedFile(path=path, data=schema_bytes(body), problem="is not the catalog's schema", number=schema_id)


def changed_snapshots(files: TableFiles, history: Sequence[SnapshotRow], aside: Sequence[int] = ()) -> Iterator[ChangedFile]:
    """Of a branch's snapshots, as far as they are published or set ``aside``, those in whose place another one or none lies."""
    there = set(files.snapshot_ids())
    for row in history:
        if row.snapshot_id in there and (row.published or row.snapshot_id in aside):
            yield from changed_snapshot(files, row)


def changed_snapshot(files: TableFiles, row: SnapshotRow) -> Iterator[ChangedFile]:
    """The file in a snapshot's place, where it is another one's or none."""
    snapshot, problem = Snapshot.from_json(row.body), "is no snapshot"
    try:
        stored = files.read_snapshot(row.snapshot_id)
        if stored == snapshot:
            return
        if stored is not None:
            problem = "is not as the catalog has it" if same_snapshot(stored, snapshot) else "is another snapshot than the catalog's"
    except TableDamaged:
        pass
    path = files.layout.snapshot_file(row.snapshot_id)
    yield ChangedFile(path=path, data=snapshot_bytes(snapshot), problem=problem, number=snapshot.id, snapshot_id=snapshot.id)


def changed_tags(files: TableFiles, tags: Sequence[TagRow], *, pending: bool = False) -> Iterator[ChangedFile]:
    """Of a branch's tags those whose files are none or missing; another snapshot in one is a client's change.

    Those that clients removed are the catalog's no more once `lake.tables.tags` has taken that in. ``pending``: with those whose files
    are still to be written.
    """
    for tag in tags:
        path = files.layout.tag_file(tag.name)
        if not _is_tag(files, tag.name) if tag.published else pending and not files.io.exists(path):
            number, problem = int(tag.snapshot["id"]), "is no tag" if files.io.exists(path) else MISSING
            yield ChangedFile(path=path, data=tag_bytes(tag), problem=problem, number=number, snapshot_id=number)


def _is_tag(files: TableFiles, name: str) -> bool:
    try:
        return tag_in(files, name) is not None
    except TableDamaged:  # such as a link that leads out of the table
        return False


def missing_files(files: TableFiles, history: Sequence[SnapshotRow], schemas: Mapping[int, Mapping[str, Any]]) -> list[ChangedFile]:
    """Files of schemas and snapshots that are gone, with what they held; of a snapshot only where its manifests are there.

    A missing beginning is what a client expired.
    """
    missing = []
    for schema_id, body in schemas.items():
        if not files.io.file_exists(path := files.layout.schema_file(schema_id)):
            missing.append(ChangedFile(path=path, data=schema_bytes(body), problem=MISSING, number=schema_id))
    there = set(files.snapshot_ids())
    for row in history:
        snapshot = Snapshot.from_json(row.body)
        hole = row.published and row.snapshot_id not in there and (row is history[-1] or row.snapshot_id > min(there, default=0))
        if hole and is_readable(files, snapshot, contradictions=True):
            path, data = files.layout.snapshot_file(snapshot.id), snapshot_bytes(snapshot)
            missing.append(ChangedFile(path=path, data=data, problem=MISSING, number=snapshot.id, snapshot_id=snapshot.id))
    return missing


def changed_files(
    files: TableFiles, history: Sequence[SnapshotRow], schemas: Mapping[int, Mapping[str, Any]], aside: Sequence[int]
) -> list[ChangedFile]:
    """Files in whose place another or none lies, of a snapshot only where its manifests are there.

    A snapshot among those that are set aside is ours all the same: what contradicts it goes, and it comes back. That it was published may
    come on record only later, by whoever did it, and nobody would write it again then.
    """
    changed = list(changed_schemas(files, schemas.items()))
    rows = {row.snapshot_id: row for row in history}
    for one in changed_snapshots(files, history, aside):
        assert one.snapshot_id is not None
        if is_readable(files, Snapshot.from_json(rows[one.snapshot_id].body), contradictions=True):
            changed.append(one)
    return changed


def put_back(files: TableFiles, moved: Mapping[int, str]) -> None:
    """Move snapshots to their own places, by id, that a repair which was cut off had moved away; it is on disk then."""
    for snapshot_id, path in moved.items():
        files.io.rename(path, files.layout.snapshot_file(snapshot_id))
    if moved:
        files.io.sync([files.layout.snapshot_dir(), *{path.rpartition("/")[0] for path in moved.values()}])


def put_aside(
    files: TableFiles, aside: Sequence[int], changed: Sequence[ChangedFile], torn_tags: Sequence[ChangedFile], directory: str
) -> None:
    """Move what is in the way into the directory, and write what was there; all of it is on disk before the repair is on record.

    The newest snapshots are moved first: wherever that is cut off, those left go on without a gap, as if they had been all.
    """
    moved = [files.layout.snapshot_file(snapshot_id) for snapshot_id in sorted(aside, reverse=True)]
    if aside:
        files.io.delete(files.layout.latest_hint())  # readers believe it, and find the newest by themselves where there is none
    for path in moved:
        files.io.rename(path, f"{directory}/{path.rpartition('/')[2]}")
    for one in changed:
        if one.path not in moved:
            files.io.rename(one.path, f"{directory}/{one.path.rpartition('/')[2]}")
        files.io.create(one.path, one.data)  # after a crash before this line it is missing, and a second repair writes it
    for tag in torn_tags:
        _replace_tag(files, tag, directory)
    touched = [*moved, *(one.path for one in (*changed, *torn_tags))]
    if touched:
        # A power cut that brought a file back where it lay would make the table diverged, or tell of a snapshot that is none.
        directories = {path.rpartition("/")[0] for path in touched}
        files.io.sync([*directories, *([directory] if files.io.exists(directory) else [])])


def put_anew(io: FileIO, path: str, data: bytes) -> None:
    """Write a file where none is, also in the place of a link that leads nowhere, which keeps another from being made."""
    if not io.create(path, data) and not io.exists(path):
        io.write(path, data)


def _replace_tag(files: TableFiles, tag: ChangedFile, directory: str) -> None:
    """Write a tag's file again; never without one, as who removes a tag's file removes the tag."""
    aside = f"{directory}/{tag.path.rpartition('/')[2]}"
    if not files.io.exists(tag.path):
        put_anew(files.io, tag.path, tag.data)
        return
    try:
        files.io.create(aside, files.io.read(tag.path))
    except (FileNotFoundError, TableDamaged):  # a directory lies there, or a link out of the table: nothing readers could take for a tag
        files.io.rename(tag.path, aside)
    files.io.write(tag.path, tag.data)
