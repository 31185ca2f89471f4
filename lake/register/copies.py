"""A copy of the warehouse's files beside a backup of the catalog: made while nothing goes, and put back, all of it or single tables.

What is copied is what the backup's snapshots, tags and branches name, so that both are of one moment whatever is written meanwhile. A copy
has the warehouse's own shape, ``<place>/<database>.db/<table>/…``; files that never change and are there already are not copied again.
Files of snapshots, schemas and tags are in it for readers of files; put back are those that the catalog writes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from catalog.backup.archive_parts import PartTable
from lake.register.check import Line, TableCheck, once
from lake.tables.handle import LakeTable
from model.errors import LakeError
from model.identifier import MAIN_BRANCH
from model.location import Location
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from model.snapshot import Snapshot
from model.text.file_name import file_name
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


def copy_to(tables: Iterable[PartTable], *, warehouse: str, place: str, verify: bool = False) -> WarehouseCopy:
    """Copy what tables of a backup name to a place, with the files of their metadata; with ``verify`` all of it is read there then.

    What was there already is taken for the same file by its size alone, without.
    """
    done = WarehouseCopy()
    for table in tables:
        below = relative(table.location, warehouse)
        if below is None:
            done.troubles.append((str(table.name), f"lies at {table.location}, outside the warehouse: its files were not copied"))
            continue
        target = f"{place.rstrip('/')}/{below}"
        if _copy(table, table.location, target, done, metadata=True) and verify:
            _verify(table, target, done, deep=True, way_out="; delete it there, and the next backup copies it again")
    return done


def copy_back(tables: Iterable[tuple[PartTable, str, str]], done: WarehouseCopy, *, verify: bool = False) -> None:
    """Copy what each table names from one directory to another, but for what the catalog writes anew, and look at it there.

    Sizes and footers are looked at; with ``verify`` all of it is read.
    """
    for table, source, target in tables:
        if _copy(table, source, target, done, metadata=False):
            _verify(table, target, done, deep=verify, way_out="")


def _copy(table: PartTable, source: str, target: str, done: WarehouseCopy, *, metadata: bool) -> bool:
    """Whether it could be done; what could not is among the troubles."""
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
        return False
    done.tables += 1
    done.files, done.size, done.there = done.files + copied.files, done.size + copied.size, done.there + copied.there
    done.troubles += [(name, f"{path} is missing") for path in copied.missing]
    return True


def _verify(table: PartTable, location: str, done: WarehouseCopy, *, deep: bool, way_out: str) -> None:
    """Hold what a table's history names against what lies at a place; a file that is among the troubles already is not told again."""
    if _is_directory_table(table):
        return
    name = str(table.name)
    told = " ".join(what for of, what in done.troubles if of == name)
    branches = {branch: _opened(table, location, branch) for branch in table.schemas}
    check = TableCheck(branches[MAIN_BRANCH], deep=deep, threads=_PARALLEL, checked=lambda *_: None, branches=branches)
    try:
        for fault in once(check.faults(_lines(table), ())):
            if file_name(fault.file) not in told:
                done.troubles.append((name, f"{fault.file} {fault.problem}{way_out}"))
    except LakeError as problem:
        done.troubles.append((name, f"could not be looked at where it was copied to: {problem.message}"))


def _is_directory_table(table: PartTable) -> bool:
    """Whether its rows are files of other kinds, which nothing names."""
    return other_kind(_schemas(table, MAIN_BRANCH)[-1].options) in DIRECTORY_KINDS


def _schemas(table: PartTable, branch: str) -> Sequence[Schema]:
    return [Schema.from_json(body) for _, body in sorted(table.schemas[branch].items())]


def _opened(table: PartTable, location: str, branch: str) -> LakeTable:
    """A table of a backup, or a branch of it, as its files lie at a place."""
    schemas, identifier = _schemas(table, branch), replace(table.name, branch=branch)
    files = TableFiles(
        file_io_for(location), location, branch, name=identifier.written(), known_schemas=lambda: {one.id: one for one in schemas}
    )
    return LakeTable(
        identifier=identifier, table_id=table.table_id, schema=schemas[-1], location=location, files=files, read_latest=lambda *_: None
    )


def _named(table: PartTable, location: str, io: FileIO, done: WarehouseCopy) -> Iterator[tuple[str, bool]]:
    """Each file that the table's history names, and whether its name may come to mean another file."""
    if _is_directory_table(table):
        yield from ((path, True) for path in _all_below(io, location))
        return
    check = TableCheck(_opened(table, location, MAIN_BRANCH), deep=False, threads=1, checked=lambda *_: None)
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
