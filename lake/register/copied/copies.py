"""A copy of the warehouse's files beside a backup of the catalog: made while nothing goes, and put back, all of it or single tables.

What is copied is what the backup's snapshots, tags and branches name, so that both are of one moment whatever is written meanwhile. A copy
has the warehouse's own shape, ``<place>/<database>.db/<table>/…``; files that never change and are there already are not copied again.
Files of snapshots, schemas, tags and consumers are in it for readers of files. The catalog writes the first three again itself, and
consumers are put back as the copy's record of the backup has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from catalog.backup.archive_parts import PartTable
from lake.access.allowed_locations import allowed_place
from lake.register.check import Fault, TableCheck, once
from lake.register.copied.places import CopiedReach
from lake.register.copied.record import Consumers, consumers_of, put_back
from lake.register.looks.needed import Line
from lake.tables.handle import LakeTable
from model.errors import IllegalMove, LakeError
from model.identifier import MAIN_BRANCH
from model.location import Location
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from model.snapshot import Snapshot
from table.format.io.copying import Copy, copy_files
from table.format.io.file_io import FileIO, file_io_for, local_path
from table.format.io.storage_errors import UNREADABLE, never_given, never_taken, told_by_the_store
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
    unreadable: list[str] = field(default_factory=list)
    """Of these, what a disk did not give, and may give another time."""
    consumers: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """How far consumers were, by table's id, branch and name."""


def relative(location: str, warehouse: str) -> str | None:
    """Where a table lies below its warehouse; None for one that lies elsewhere."""
    root, lies = Location.parse(warehouse), Location.parse(location)
    return "/".join(lies.below(root)) if root != lies and root.contains(lies) else None


def copy_to(
    tables: Iterable[PartTable], *, warehouse: str, place: str, verify: bool = False, import_dirs: Sequence[str] = ()
) -> WarehouseCopy:
    """Copy what tables of a backup name to a place, with the files of their metadata; with ``verify`` all of it is read there then.

    What was there already is taken for the same file by its size alone, without.
    """
    done = WarehouseCopy()
    for table in tables:
        below = relative(table.location, warehouse)
        if below is None:
            what = f"lies at {table.location}, outside the warehouse: its files were not copied. Copy that directory by other means"
            done.troubles.append((table.told, what))
            continue
        target = f"{place.rstrip('/')}/{below}"
        if _copied_to(table, target, done, import_dirs) and verify:
            way_out = "; delete it there, and the next backup copies it again"
            _verify(table, target, done, import_dirs, deep=True, way_out=way_out)
    return done


def note_left_outside(table: PartTable, done: WarehouseCopy) -> None:
    """Tell of a table outside the warehouse, of which no copy has files, where nothing lies in its place."""
    if not file_io_for(table.location).list(TableLayout(table.location).schema_dir()):
        what = f"lay at {table.location}, outside the warehouse: the copy has no files of it. Put that directory back there by other means"
        done.troubles.append((table.told, what))


def copy_back(
    tables: Iterable[tuple[PartTable, str, str]],
    done: WarehouseCopy,
    *,
    verify: bool = False,
    consumers: Consumers | None = None,
    import_dirs: Sequence[str] = (),
) -> None:
    """Copy what each table names from one directory to another, but for what the catalog writes anew, and look at it there.

    Files outside the table's directory go back to their own place, where that lies in one of ``import_dirs``. ``consumers`` are those of
    the backup, else their files are asked. Sizes and footers are looked at; with ``verify`` all of it is read. What the copy lacks or
    its disk does not give is told in ``done``; raises `StorageFull` or `Unavailable` where files cannot be reached or written, as then
    nothing but a repeat brings them all.
    """
    for table, source, target in tables:
        left: set[str] = set()
        try:
            told = None if consumers is None else consumers.get(str(table.table_id), {})
            told = consumers_of(table, source, file_io_for(source)) if told is None else told
            _copied_back(table, source, target, done, import_dirs, left)
            done.files += put_back(told, target, file_io_for(target))
        except LakeError as problem:
            lost = never_given(problem) and (problem.place or "").startswith(local_path(source))
            if told_by_the_store(problem) and not lost:
                raise _cut_off(table, problem) from problem
            _note(table, f"could not be copied: {problem.message}", done, unreadable=lost)
            continue
        _verify(table, target, done, import_dirs, deep=verify, way_out="", but=left)


def _note(table: PartTable, what: str, done: WarehouseCopy, *, unreadable: bool = True) -> None:
    done.troubles.append((table.told, what))
    if unreadable:
        done.unreadable.append(f"{table.told}: {what}")


def _cut_off(table: PartTable, problem: LakeError) -> LakeError:
    what = f"Files of {table.told} are not all copied, so nothing was changed in the catalog"
    return type(problem)(f"{problem.message} {what}. Repeat the command: what was copied stays.", place=problem.place)


def _copied_to(table: PartTable, target: str, done: WarehouseCopy, import_dirs: Sequence[str]) -> bool:
    """Whether it could be done; what could not is among the troubles."""
    source = table.location
    from_io = file_io_for(source)
    try:
        reach = _reach(table, source, import_dirs)
        in_copy = _reach(table, target, import_dirs)
        copies = [*_named(table, source, from_io, done, reach), *_metadata(table, source, from_io)]
        done.consumers[str(table.table_id)] = consumers_of(table, source, from_io)
        _copy(table, [Copy(path, in_copy.at(path), changes) for path, changes in copies], from_io, file_io_for(target), done)
    except LakeError as problem:
        done.troubles.append((table.told, f"could not be copied: {problem.message}"))
        return False
    return True


def _copied_back(table: PartTable, source: str, target: str, done: WarehouseCopy, import_dirs: Sequence[str], left: set[str]) -> None:
    """Copy the files back; ``left`` gets those that cannot go to their place."""
    from_io, to_io = file_io_for(source), file_io_for(target)
    reach = _reach(table, source, import_dirs)
    inside, outside = [], []
    for path, changes in _named(table, source, from_io, done, reach):
        home = reach.outside(path)
        if home is not None:
            outside.append((path, home))
        else:
            inside.append(Copy(path, f"{target}/{path.removeprefix(f'{source}/')}", changes))
    if target != table.location and reach.by_full_path:
        raise IllegalMove(
            f"it names {len(reach.by_full_path)} files by their full path ({min(reach.by_full_path)}), which two tables cannot share; "
            "restore it under its own name"
        )
    kept = [] if source == table.location else list(_outside(table, outside, to_io, done, import_dirs, left))
    refused = _copy(table, [*inside, *kept], from_io, to_io, done)
    for reason in sorted(set(refused.values())):
        _note_left(table, [home for home, why in refused.items() if why == reason], reason, done, left)


def _outside(
    table: PartTable, files: Sequence[tuple[str, str]], to_io: FileIO, done: WarehouseCopy, import_dirs: Sequence[str], left: set[str]
) -> Iterator[Copy]:
    """The files that go back to places outside the table's directory; what lies there is not this server's to replace."""
    refused: list[str] = []
    for path, home in files:
        try:
            allowed_place(home, import_dirs)
        except LakeError:
            refused.append(home)
            continue
        if to_io.file_exists(home):
            done.there += 1  # whether it is the backup's is looked at with all else
        else:
            yield Copy(path, home, elsewhere=True)
    if refused:
        _note_left(table, refused, "no directory of SLUICE_IMPORT_DIRS holds them", done, left)


def _note_left(table: PartTable, homes: Sequence[str], reason: str, done: WarehouseCopy, left: set[str]) -> None:
    left.update(homes)
    where = f"({homes[0]} …)" if len(homes) > 1 else f"({homes[0]})"
    done.troubles.append((table.told, f"{len(homes)} files outside its directory {where} were not put back: {reason}"))


def _copy(table: PartTable, copies: Sequence[Copy], from_io: FileIO, to_io: FileIO, done: WarehouseCopy) -> dict[str, str]:
    """Copy files; the places elsewhere that take none, and why."""
    copied = copy_files(copies, source=from_io, target=to_io, threads=_PARALLEL)
    done.tables += 1
    done.files, done.size, done.there = done.files + copied.files, done.size + copied.size, done.there + copied.there
    done.troubles += [(table.told, f"{path} is missing") for path in copied.missing]
    for problem in copied.unreadable:
        _note(table, f"a file was not copied: {problem.message}", done)
    return {home: f"the place takes none ({never_taken(problem)})" for home, problem in copied.refused}


def _verify(  # noqa: PLR0913 - what is looked at, and what is said of it
    table: PartTable, location: str, done: WarehouseCopy, import_dirs: Sequence[str], *, deep: bool, way_out: str,
    but: Collection[str] = (),
) -> None:  # fmt: skip
    """Hold what a table's history names against what lies at a place; a file that is among the troubles already is not told again."""
    if _is_directory_table(table):
        return
    told = " ".join(what for of, what in done.troubles if of == table.told)
    branches = {branch: _opened(table, location, branch, _reach(table, location, import_dirs)) for branch in table.schemas}
    check = TableCheck(branches[MAIN_BRANCH], deep=deep, threads=_PARALLEL, checked=lambda *_: None, branches=branches)
    try:
        for fault in once(check.faults(_lines(table), ())):
            if _below(location, fault.file) not in told and fault.file not in but:
                done.troubles.append((table.told, f"{fault.file} {fault.problem}{way_out}"))
    except LakeError as problem:
        done.troubles.append((table.told, f"could not be looked at where it was copied to: {problem.message}"))


def _reach(table: PartTable, location: str, import_dirs: Sequence[str]) -> CopiedReach:
    """The places of a table's files that lie at a place."""
    allowed = import_dirs if table.allowed is None else table.allowed
    return CopiedReach(location, table.location, name=table.name.written(), allowed=allowed)


def _below(location: str, path: str) -> str:
    """A file by what is the same wherever the table lies, also in a copy."""
    return path.removeprefix(f"{location}/").rpartition("://")[2].lstrip("/")


def _is_directory_table(table: PartTable) -> bool:
    """Whether its rows are files of other kinds, which nothing names."""
    return other_kind(_schemas(table, MAIN_BRANCH)[-1].options) in DIRECTORY_KINDS


def _schemas(table: PartTable, branch: str) -> Sequence[Schema]:
    return [Schema.from_json(body) for _, body in sorted(table.schemas[branch].items())]


def _opened(table: PartTable, location: str, branch: str, reach: CopiedReach) -> LakeTable:
    """A table of a backup, or a branch of it, as its files lie at a place."""
    schemas, identifier = _schemas(table, branch), replace(table.name, branch=branch)
    files = TableFiles(
        file_io_for(location),
        location,
        branch,
        name=identifier.written(),
        known_schemas=lambda: {one.id: one for one in schemas},
        allowed=reach.allowed,
    )
    files.reach = reach
    return LakeTable(
        identifier=identifier, table_id=table.table_id, schema=schemas[-1], location=location, files=files, read_latest=lambda *_: None
    )


def _named(table: PartTable, location: str, io: FileIO, done: WarehouseCopy, reach: CopiedReach) -> Iterator[tuple[str, bool]]:
    """Each file that the table's history names, and whether its name may come to mean another file."""
    if _is_directory_table(table):
        yield from ((path, True) for path in _all_below(io, location))
        return
    check = TableCheck(_opened(table, location, MAIN_BRANCH, reach), deep=False, threads=_PARALLEL, checked=lambda *_: None)
    names = set()

    def tell(fault: Fault) -> None:
        _note(table, f"{fault.file} {fault.problem}", done, unreadable=fault.problem.startswith(UNREADABLE))

    for path in check.named(_lines(table), tell):
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
