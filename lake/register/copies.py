"""A copy of the warehouse's files beside a backup of the catalog: made while nothing goes, and put back, all of it or single tables.

What is copied is what the backup's snapshots, tags and branches name, so that both are of one moment whatever is written meanwhile. A copy
has the warehouse's own shape, ``<place>/<database>.db/<table>/…``; files that never change and are there already are not copied again.
Files of snapshots, schemas and tags are in it for readers of files; put back are those that the catalog writes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from catalog.backup.archive_parts import PartTable
from lake.register.check import Line, TableCheck
from lake.tables.handle import LakeTable
from model.errors import LakeError
from model.identifier import MAIN_BRANCH
from model.location import Location
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from model.snapshot import Snapshot
from table.format.io.copying import Copy, copy_files
from table.format.io.file_io import FileIO, file_io_for
from table.format.layout import TableLayout
from table.format.store import TableFiles

_PARALLEL = 8


@dataclass(slots=True, kw_only=True)
class WarehouseCopy:
    """What was copied of all tables."""

    tables: int = 0
    files: int = 0
    size: int = 0
    there: int = 0
    """Files that had been copied before."""
    troubles: list[tuple[str, str]] = field(default_factory=list)
    """Table and what of it could not be copied, and why."""


def relative(location: str, warehouse: str) -> str | None:
    """Where a table lies below its warehouse; None for one that lies elsewhere."""
    root, lies = Location.parse(warehouse), Location.parse(location)
    return "/".join(lies.below(root)) if root != lies and root.contains(lies) else None


def copy_to(tables: Iterable[PartTable], *, warehouse: str, place: str) -> WarehouseCopy:
    """Copy what tables of a backup name to a place, with the files of their metadata."""
    done = WarehouseCopy()
    for table in tables:
        below = relative(table.location, warehouse)
        if below is None:
            done.troubles.append((str(table.name), f"lies at {table.location}, outside the warehouse: its files were not copied"))
            continue
        _copy(table, table.location, f"{place.rstrip('/')}/{below}", done, metadata=True)
    return done


def copy_back(tables: Iterable[tuple[PartTable, str, str]], done: WarehouseCopy) -> None:
    """Copy what each table names from one directory to another, but for what the catalog writes anew."""
    for table, source, target in tables:
        _copy(table, source, target, done, metadata=False)


def _copy(table: PartTable, source: str, target: str, done: WarehouseCopy, *, metadata: bool) -> None:
    from_io, to_io = file_io_for(source), file_io_for(target)
    name = str(table.name)
    try:
        copies = list(_named(table, source, from_io, done))
        if metadata:
            copies += _metadata(table, source, from_io)
        made = [Copy(path, f"{target}/{path.removeprefix(f'{source}/')}", changes) for path, changes in copies]
        copied = copy_files(made, source=from_io, target=to_io, threads=_PARALLEL)
    except LakeError as problem:
        done.troubles.append((name, f"could not be copied: {problem.message}"))
        return
    done.tables += 1
    done.files, done.size, done.there = done.files + copied.files, done.size + copied.size, done.there + copied.there
    done.troubles += [(name, f"{path} is missing") for path in copied.missing]


def _named(table: PartTable, location: str, io: FileIO, done: WarehouseCopy) -> Iterator[tuple[str, bool]]:
    """Each file that the table's history names, and whether its name may come to mean another file."""
    schemas = table.schemas[MAIN_BRANCH]
    schema = Schema.from_json(schemas[max(schemas)])
    if other_kind(schema.options) in DIRECTORY_KINDS:
        yield from ((path, True) for path in _all_below(io, location))
        return
    files = TableFiles(io, location, name=table.name.written())
    opened = LakeTable(
        identifier=table.name, table_id=table.table_id, schema=schema, location=location, files=files, read_latest=lambda *_: None
    )
    check = TableCheck(opened, deep=False, threads=1, checked=lambda *_: None)
    names = set()
    for path in check.named(_lines(table), lambda fault: done.troubles.append((str(table.name), f"{fault.file} {fault.problem}"))):
        if path not in names:
            names.add(path)
            yield path, False


def _lines(table: PartTable) -> Sequence[Line]:
    lines = [Line(branch=branch, snapshots=[Snapshot.from_json(body) for body in bodies]) for branch, bodies in table.snapshots.items()]
    return [*lines, *(Line(branch=branch, snapshots=[Snapshot.from_json(body)]) for branch, body in table.tags)]


def _metadata(table: PartTable, location: str, io: FileIO) -> list[tuple[str, bool]]:
    """Files of schemas, snapshots, tags and consumers, as far as they are there; without the hints, which may tell of later snapshots."""
    paths = []
    for branch in table.schemas:
        layout = TableLayout(location, branch)
        known = {layout.schema_file(schema_id) for schema_id in table.schemas[branch]}
        known |= {layout.snapshot_file(int(body["id"])) for body in table.snapshots.get(branch, ())}
        for directory in (layout.schema_dir(), layout.snapshot_dir()):
            paths += [status.path for status in io.list(directory) if status.path in known]
        for directory in (layout.tag_dir(), layout.consumer_dir()):
            paths += [status.path for status in io.list(directory) if not status.is_dir]
    return [(path, True) for path in paths]


def _all_below(io: FileIO, directory: str) -> Iterator[str]:
    for status in io.list(directory):
        if status.is_dir:
            yield from _all_below(io, status.path)
        else:
            yield status.path
