"""A copy of the warehouse's files beside a backup of the catalog: made while nothing goes, and put back, all of it or single tables.

What is copied is what the backup's snapshots, tags and branches name, so that both are of one moment whatever is written meanwhile. A copy
has the warehouse's own shape, ``<place>/<database>.db/<table>/…``; files that never change and are there already are not copied again.
Files of snapshots, schemas, tags and consumers are in it for readers of files. The catalog writes the first three again itself, and
consumers are put back as the copy's record of the backup has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from catalog.backup.archive_parts import PartTable
from lake.access.allowed_locations import allowed_place
from lake.register.check import TableCheck
from lake.register.copied.directories import directory_back, directory_to, is_directory_table, schemas_of
from lake.register.copied.done import COPY_AGAIN, PARALLEL, WarehouseCopy, why_refused
from lake.register.copied.places import CopiedReach
from lake.register.copied.record import CopyRecord, consumers_of, consumers_told, put_back
from lake.register.looks.faults import Fault, once
from lake.register.looks.needed import Line
from lake.tables.handle import LakeTable
from model.damage import is_refusal
from model.errors import IllegalMove, LakeError
from model.identifier import MAIN_BRANCH
from model.location import Location
from model.snapshot import Snapshot
from table.format.io.copying import Copy
from table.format.io.file_io import FileIO, file_io_for, local_path
from table.format.io.links import RealPlaces
from table.format.io.storage_errors import never_given, told_by_the_store
from table.format.layout import TableLayout
from table.format.store import TableFiles


def relative(location: str, warehouse: str) -> str | None:
    """Where a table lies below its warehouse; None for one that lies elsewhere."""
    root, lies = Location.parse(warehouse), Location.parse(location)
    return "/".join(lies.below(root)) if root != lies and root.contains(lies) else None


def require_apart(tables: Iterable[PartTable], *, warehouse: str, place: str) -> None:
    """Raise `IllegalMove` for a place that lies in the warehouse, or where copies would come into a table's files; links are followed."""
    places = RealPlaces()
    home, copy = places.of(Location.parse(warehouse)), places.of(Location.parse(place))
    if home.contains(copy):
        raise IllegalMove(f"{place} lies in the warehouse, {warehouse}, and would be lost with it: have the files copied to another place.")
    tables = list(tables)
    below = {table.table_id: relative(table.location, warehouse) for table in tables}
    targets = {copy.child(path.partition("/")[0]) for path in below.values() if path is not None}
    for table in tables:
        for taken in (table.location, *(table.allowed or ())):
            lies = places.of(Location.parse(taken))
            if any(target.overlaps(lies) for target in targets):
                raise IllegalMove(f"Table {table.told} has files at {lies}, where the copy would lie: have it made at another place.")


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
        if is_directory_table(table):
            directory_to(table, target, done, verify=verify)
        elif _copied_to(table, target, done, import_dirs) and verify:
            _verify(table, target, done, import_dirs, deep=True, way_out=COPY_AGAIN)
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
    record: CopyRecord | None = None,
    import_dirs: Sequence[str] = (),
    require_free: Callable[[str], object] = lambda _: None,
) -> None:
    """Copy what each table names from one directory to another, but for what the catalog writes anew, and look at it there.

    Files outside the table's directory go back to their own place, where that lies in one of ``import_dirs``. ``record`` is what the copy
    says of the backup; without it the files of consumers are asked. ``require_free`` raises where a table lies in a directory by now: it
    gets no consumers, which would hold its snapshots. Sizes and footers are looked at; with ``verify`` all of it is read.
    What the copy lacks or its disk does not give is told in ``done``. Raises `StorageFull` or `Unavailable` where files cannot be reached
    or written, as then nothing but a repeat brings them all.
    """
    for table, source, target in tables:
        left: set[str] = set()
        try:
            if is_directory_table(table):
                directory_back(table, source, target, done, record, verify=verify)
                continue
            consumers = None if record is None else record.consumers.get(str(table.table_id), {})
            consumers = consumers_of(table, source, file_io_for(source)) if consumers is None else consumers
            _copied_back(table, source, target, done, import_dirs, left)
            require_free(target)
            done.files += put_back(consumers, target, file_io_for(target))
        except LakeError as problem:
            lost = never_given(problem) and (problem.place or "").startswith(local_path(source))
            if told_by_the_store(problem) and not lost:
                raise _cut_off(table, problem, stays=target == table.location) from problem
            done.trouble(table, f"could not be copied: {problem.message}", unreadable=lost)
            continue
        _verify(table, target, done, import_dirs, deep=verify, way_out="", but=left)


def _cut_off(table: PartTable, problem: LakeError, *, stays: bool) -> LakeError:
    what = f"Files of {table.told} are not all copied, so nothing was changed in the catalog"
    return type(problem)(f"{problem.message} {what}. Repeat the command{': what was copied stays' if stays else ''}.", place=problem.place)


def _copied_to(table: PartTable, target: str, done: WarehouseCopy, import_dirs: Sequence[str]) -> bool:
    """Whether it could be done; what could not is among the troubles."""
    source = table.location
    from_io = file_io_for(source)
    try:
        reach = _reach(table, source, import_dirs)
        in_copy = _reach(table, target, import_dirs)
        copies = [*_as_far(_named(table, source, from_io, done, reach), table, done), *_metadata(table, source, from_io, done)]
        done.consumers[str(table.table_id)] = consumers_told(table)
        with _told(table, done):
            done.consumers[str(table.table_id)] = consumers_of(table, source, from_io)
        done.copied(table, [Copy(path, in_copy.at(path), changes) for path, changes in copies], from_io, file_io_for(target))
    except LakeError as problem:
        done.troubles.append((table.told, f"could not be copied: {problem.message.rstrip('.')}"))
        return False
    return True


@contextlib.contextmanager
def _told(table: PartTable, done: WarehouseCopy) -> Iterator[None]:
    """Tell what of a table could not be looked at, and go on with the rest: one directory is no reason to copy nothing."""
    try:
        yield
    except LakeError as problem:
        done.troubles.append((table.told, f"could not be copied in full, all else was: {problem.message.rstrip('.')}"))


def _as_far(files: Iterable[tuple[str, bool]], table: PartTable, done: WarehouseCopy) -> Iterator[tuple[str, bool]]:
    """The files as far as they can be told."""
    with _told(table, done):
        yield from files


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
    placed = [] if source == table.location else list(_outside(table, outside, to_io, done, import_dirs, left))
    refused = why_refused(done.copied(table, [*inside, *placed], from_io, to_io))
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


def _verify(  # noqa: PLR0913 - what is looked at, and what is said of it
    table: PartTable, location: str, done: WarehouseCopy, import_dirs: Sequence[str], *, deep: bool, way_out: str,
    but: Collection[str] = (),
) -> None:  # fmt: skip
    """Hold what a table's history names against what lies at a place; a file that is among the troubles already is not told again."""
    named = " ".join(what for of, what in done.troubles if of == table.told)
    branches = {branch: _opened(table, location, branch, _reach(table, location, import_dirs)) for branch in table.schemas}
    check = TableCheck(branches[MAIN_BRANCH], deep=deep, threads=PARALLEL, checked=lambda *_: None, branches=branches)
    try:
        for fault in once(check.faults(_lines(table), (), contradictions=False)):
            if _below(location, fault.file) not in named and fault.file not in but:
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


def _opened(table: PartTable, location: str, branch: str, reach: CopiedReach) -> LakeTable:
    """A table of a backup, or a branch of it, as its files lie at a place."""
    schemas, identifier = schemas_of(table, branch), replace(table.name, branch=branch)
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
    check = TableCheck(_opened(table, location, MAIN_BRANCH, reach), deep=False, threads=PARALLEL, checked=lambda *_: None)
    names = set()

    def tell(fault: Fault) -> None:
        done.trouble(table, f"{fault.file} {fault.problem}", unreadable=is_refusal(fault.problem))

    for path in check.named(_lines(table), tell):
        if path not in names:
            names.add(path)
            yield path, False


def _lines(table: PartTable) -> Sequence[Line]:
    lines = [Line(branch=branch, snapshots=[Snapshot.from_json(body) for body in bodies]) for branch, bodies in table.snapshots.items()]
    return [*lines, *(Line(branch=branch, snapshots=[Snapshot.from_json(body)]) for branch, body in table.tags)]


def _metadata(table: PartTable, location: str, io: FileIO, done: WarehouseCopy) -> list[tuple[str, bool]]:
    """Files of schemas, snapshots, tags and consumers, as far as they are there; without the hints, which may tell of later snapshots."""
    paths = []
    for branch in table.schemas:
        layout = TableLayout(location, branch)
        known = {layout.schema_file(schema_id) for schema_id in table.schemas[branch]}
        known |= {layout.snapshot_file(int(body["id"])) for body in table.snapshots.get(branch, ())}
        for directory in (layout.schema_dir(), layout.snapshot_dir()):
            with _told(table, done):
                paths += [status.path for status in io.list(directory) if status.path in known]
        for directory in (layout.tag_dir(), layout.consumer_dir()):
            with _told(table, done):
                paths += [status.path for status in io.list(directory) if not status.is_dir]
    return [(path, True) for path in paths]
