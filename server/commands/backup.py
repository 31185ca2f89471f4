"""``sluice backup``, and single tables and databases of one brought back; the whole catalog: `server.commands.restore`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from catalog import CatalogStore, CatalogTransaction
from catalog.backup.archive import ArchiveHead, copy_id_of, put_in_place, read_head, write_archive
from catalog.backup.archive_parts import Part, PartTable, archived_databases, archived_tables, no_database, restore_tables
from catalog.backup.holds import filling, holding
from catalog.damage import telling_damage
from lake import Lake
from lake.access.allowed_locations import refuse_overlap, table_location
from lake.register.copied.copies import copy_back, copy_to, relative, require_apart
from lake.register.copied.done import WarehouseCopy
from lake.register.copied.record import CopyRecord, read_record, write_record
from lake.register.restored.after_restore import Difference, differences
from lake.rewrite.garbage import put_on_record, remove_unowned
from lake.tables.names import check_table_name
from migrations import NewerSchema, knows, newest, revision_of
from model.access import Grant
from model.errors import IllegalMove, InvalidData, InvalidName, LakeError
from model.identifier import Identifier
from model.location import Location
from model.text.sql_text import literal
from server.commands.backup_file import being_made
from server.commands.rights import Rights, grants_given_again, rights_of
from server.process.postgres import running_dsn
from server.process.process import catalog_dsn
from server.settings.options import CATALOG_DIRECT_DSN, CATALOG_DSN
from server.settings.settings import Settings
from server.sql.orc import orc_decoded_beside


@contextlib.contextmanager
def present_dsn(settings: Settings) -> Iterator[str]:
    """The catalog's DSN as it is: that of a running server's embedded Postgres where one runs, else started until the block ends."""
    running = None if settings[CATALOG_DSN] is not None else running_dsn(settings.data)
    if running is not None:
        with telling_damage(running):
            yield running
        return
    if settings[CATALOG_DSN] is None and not (settings.data / "postgres").exists():
        raise IllegalMove(f"There is no catalog in {settings.data}: set SLUICE_DATA or SLUICE_CATALOG_DSN as for the server.")
    with catalog_dsn(settings) as dsn, telling_damage(dsn):
        yield dsn


def require_own_schema(dsn: str) -> None:
    """Raise `IllegalMove` where the catalog has not this version's schema."""
    at = revision_of(dsn)
    if at is not None and not knows(at):
        raise IllegalMove(str(NewerSchema(at)))
    if at != newest():
        raise IllegalMove(
            f"The catalog's schema is {at}, and this Sluice's is {newest()}: repeat the command with the Sluice of its servers or, once "
            "these have stopped, run `sluice migrate`."
        )


def require_known(path: Path, head: ArchiveHead) -> None:
    """Raise `InvalidData` for a backup of a newer Sluice."""
    if not knows(head.revision):
        raise InvalidData(f"{path} was written by a newer Sluice: its schema is {head.revision}, and this one knows {newest()}.")


def catalog_of(settings: Settings, dsn: str, *, max_connections: int = 2) -> CatalogStore:
    """The catalog at the DSN of `present_dsn`, which leads to a pooler where nothing leads past it."""
    pooled = settings.catalog_pooled and settings[CATALOG_DIRECT_DSN] is None
    return CatalogStore(dsn, max_connections=max_connections, pooled=pooled)


def present_rights(settings: Settings, dsn: str) -> Rights:
    """Who may do what in a catalog of this version's schema."""
    catalog = catalog_of(settings, dsn)
    try:
        return rights_of(catalog)
    finally:
        catalog.close()


def backup(settings: Settings, path: Path, *, files_to: str | None = None, verify: bool = False) -> tuple[str, list[Difference]]:
    """Write the catalog to a file, beside running servers; returns what was written, in a line, and which files are not as they should be.

    With ``files_to`` the warehouse's files that the backup names are copied there, and read there with ``verify``. Nothing expires and
    nothing is removed for good meanwhile, so that both are of one moment. Raises `Unavailable` where Postgres went away during it: then
    there is the backup that was there before; `IllegalMove` where a backup runs, of this catalog or to this file.
    """
    with present_dsn(settings) as dsn:
        if files_to is not None:
            require_own_schema(dsn)
        with holding(dsn) as check, being_made(path) as fresh:
            copy_id = None if files_to is None else uuid4().hex
            head = write_archive(dsn, fresh, warehouse=settings.warehouse, copy_id=copy_id)
            copied = None if files_to is None else _files_copied(settings, fresh, files_to, verify=verify)
            check()
            if files_to is not None and copy_id is not None and copied is not None:
                write_record(files_to, copy_id, copied.record)
            put_in_place(fresh, path)  # until all of this one is there, the one before is the last that can be restored
    size = path.stat().st_size
    summary = f"{path}: {head.rows} rows of {len(head.tables)} tables as of {head.created_at}, revision {head.revision}, {size:,} bytes"
    return summary + ("" if copied is None else f"; {told_of(copied)} to {files_to}"), [] if copied is None else troubles_of(copied)


def _files_copied(settings: Settings, archive: Path, files_to: str, *, verify: bool) -> WarehouseCopy:
    tables = archived_tables(archive, dropped=True)
    require_apart(tables, warehouse=settings.warehouse, place=files_to)
    with orc_decoded_beside(settings) if verify else contextlib.nullcontext():
        return copy_to(tables, warehouse=settings.warehouse, place=files_to, verify=verify, import_dirs=settings.import_dirs)


def told_of(copied: WarehouseCopy) -> str:
    """What was copied, in words."""
    there = f", {copied.there} were there already" if copied.there else ""
    return f"{copied.files} files ({copied.size:,} bytes) of {copied.tables} tables were copied{there}"


def troubles_of(copied: WarehouseCopy) -> list[Difference]:
    """What could not be copied, is damaged, or may not be as it was."""
    return [Difference(table=table, what=what, statement="") for table, what in (*copied.troubles, *copied.doubts)]


def recorded_in(path: Path, files_from: str, done: WarehouseCopy) -> CopyRecord | None:
    """What the copy says of the backup; that it does not have all files of the backup is among the troubles."""
    copy_id = copy_id_of(path)
    if copy_id is None:
        return None
    recorded = read_record(files_from, copy_id)
    if recorded is None:
        what = f"was cut off while its files were copied, or they were copied elsewhere: {files_from} does not say that it has all of them"
        done.troubles.append(("the backup", what))
    return recorded


def restore_parts(  # noqa: PLR0913 - each is an option of the command
    settings: Settings, path: Path, *, tables: Sequence[Identifier] = (), to: Identifier | None = None,
    databases: Sequence[str] = (), files_from: str | None = None, verify: bool = False,
) -> tuple[str, list[Difference]]:  # fmt: skip
    """Bring single tables, or all of single databases, of a backup into a catalog that goes on, beside running servers.

    They come with schemas, snapshots, branches, tags, grants, policies and consumers, under their names and where they lay; ``to`` makes
    of one table another one, with a directory of its own. Files come from ``files_from``, else from where they lie. Returns what was
    done, and how the files differ and who may read again. Raises `IllegalMove` where a name or place is taken or a database is nowhere,
    and `InvalidName` for a ``to`` that no table may have; then, and where it fails, nothing is changed.
    """
    if to is not None:
        check_table_name(to)
    head = read_head(path)
    with present_dsn(settings) as dsn:
        require_own_schema(dsn)
        require_known(path, head)
        if head.revision != newest():
            raise IllegalMove(
                f"The schema of {path} is {head.revision}, and this Sluice's is {newest()}: restore it into an empty SLUICE_DATA, make a "
                "backup there, and repeat the command with that one."
            )
        catalog = catalog_of(settings, dsn)
        lake = Lake(catalog, settings.warehouse)
        try:
            lake.standing.compare(look_only=True)
            lake.standing.require_own()
            parts = _parts(catalog, settings, archived_tables(path), tables=tables, to=to, databases=databases)
            _require_databases(catalog, path, {part.name.database for part in parts} | set(databases))
            for part in parts if to is None else ():
                with catalog.transaction(keep=False) as tx:
                    _require_places_free(tx, part)
            copied = WarehouseCopy()
            with _no_copy_left(lake, dsn, parts if to is not None else ()) as require_kept:
                if files_from is not None or to is not None:
                    record = None if files_from is None else recorded_in(path, files_from, copied)
                    with orc_decoded_beside(settings):
                        copy_back(
                            [(part.of, _source(part, settings, files_from), part.location) for part in parts], copied, verify=verify,
                            record=record, import_dirs=settings.import_dirs,
                            require_free=partial(_require_free, catalog) if to is None else lambda _: require_kept(),
                        )  # fmt: skip
                if to is not None and copied.troubles:
                    raise IllegalMove(f"Not all files of {parts[0].of.name} could be copied; nothing was changed: {copied.troubles[0][1]}.")
                if copied.unreadable:
                    raise IllegalMove(
                        f"Not all files could be copied, so nothing was changed in the catalog: {copied.unreadable[0].rstrip('.')}. Repeat "
                        "the command; a file that can never be read again is left out, and told, once it is taken out of the copy."
                    )
                restore_tables(dsn, path, parts, databases=databases, require_kept=require_kept)
            restored = {part.table_id for part in parts}
            differing = list(_looks(catalog, lake, settings, {str(part.name) for part in parts}))
            differing += grants_given_again((), tuple(g for g in present_rights(settings, dsn).grants if _is_of(g, parts, databases)))
        finally:
            lake.close()
            catalog.close()
    names = ", ".join(str(part.name) for part in parts)
    summary = f"{path}: {names or ', '.join(databases)} {'is' if len(restored) == 1 else 'are'} as of {head.created_at}"
    return summary + (f"; {told_of(copied)}" if copied.tables else ""), differing + troubles_of(copied)


def _require_databases(catalog: CatalogStore, path: Path, names: Collection[str]) -> None:
    """Raise `IllegalMove` for a database that neither the catalog nor the backup has, before any file is copied for it."""
    with catalog.reading() as tx:
        missing = set(names) - set(tx.databases.names())
    if missing := missing and missing - archived_databases(path):
        raise no_database(min(missing))


@contextlib.contextmanager
def _no_copy_left(lake: Lake, dsn: str, parts: Sequence[Part]) -> Iterator[Callable[[], None]]:
    """Remove what is copied for tables in directories of their own where they do not come to be: the next attempt takes other ones.

    Until they do their directories are on record as garbage, which servers and the next restore remove once this one was killed. What is
    yielded raises `Unavailable` where they may have done so already.
    """
    checks: list[Callable[[], None]] = []
    try:
        with contextlib.ExitStack() as open_files:
            for part in parts:
                checks.append(open_files.enter_context(filling(dsn, part.location)))
                put_on_record(lake.catalog, part.location)

            def require_kept() -> None:
                for check in checks:
                    check()

            yield require_kept
    except BaseException:
        for part in parts:
            remove_unowned(lake.catalog, lake.file_io, lake.standing, part.table_id, part.location)
        raise


def _looks(catalog: CatalogStore, lake: Lake, settings: Settings, names: Collection[str]) -> Iterator[Difference]:
    """Write the files of tables that are back, and hold them against the warehouse; what cannot be is told, as they are back anyway."""
    try:
        done = lake.recover()
        if done.failure is not None:
            what = f"is back, and not all files of schemas, snapshots and tags that were to be written could be ({done.failure})"
            yield from (Difference(table=name, what=what, statement=f"CALL sys.repair_table({literal(name)})") for name in sorted(names))
        yield from (each for each in differences(catalog, settings.warehouse) if each.table in names)
    except (LakeError, OSError) as problem:
        what = f"is back, and could not be looked at ({problem})"
        yield from (Difference(table=name, what=what, statement=f"CALL sys.check_table({literal(name)})") for name in sorted(names))


def _require_free(catalog: CatalogStore, location: str) -> None:
    """Raise `IllegalMove` where a table was made in a directory while files were copied there."""
    with catalog.transaction(keep=False) as tx:
        if any(tx.directories.lock_place(location)):
            raise IllegalMove(f"{location} is another table's by now.")


def _require_places_free(tx: CatalogTransaction, part: Part) -> None:
    """Raise `IllegalMove` where its directory is another table's, or files outside it would be two tables'; before any is copied.

    Waits for whoever removes the directory at this moment, else that one would remove what is copied.
    """
    tx.directories.lock_place(part.location)
    try:
        for place in (part.location, *(part.of.allowed or ())):
            refuse_overlap(tx, Location.parse(place), f"Table {part.of.name} cannot come back")
    except InvalidName as taken:
        raise IllegalMove(f"{taken.message} Nothing was changed.") from taken


def _is_of(grant: Grant, parts: Sequence[Part], databases: Sequence[str]) -> bool:
    named = (grant.resource.database, grant.resource.name)
    return grant.resource.database in databases or any(named == (part.name.database, part.name.table) for part in parts)


def _source(part: Part, settings: Settings, files_from: str | None) -> str:
    """Where a table's files are copied from."""
    if files_from is None:
        return part.of.location
    below = relative(part.of.location, settings.warehouse)
    if below is None:
        raise IllegalMove(
            f"Table {part.of.name} lay at {part.of.location}, outside the warehouse {settings.warehouse}: no copy has its files. Put that "
            "directory back there by other means, and restore the table without --files-from."
        )
    return f"{files_from.rstrip('/')}/{below}"


def _parts(
    catalog: CatalogStore, settings: Settings, archived: Sequence[PartTable], *, tables: Sequence[Identifier], to: Identifier | None,
    databases: Sequence[str],
) -> list[Part]:  # fmt: skip
    """What is wanted of a backup, and where each comes to lie; raises `IllegalMove` for what is not in it and for names that are taken."""
    by_name = {table.name: table for table in archived}
    if missing := [str(name) for name in tables if name not in by_name]:
        raise IllegalMove(f"The backup has no table {missing[0]}.")
    wanted = {name: by_name[name] for name in tables} | {table.name: table for table in archived if table.name.database in databases}
    parts = []
    with catalog.reading() as tx:
        for name, table in wanted.items():
            target = to or name
            if tx.tables.find(target) is not None or tx.views.find(target.database, target.table) is not None:
                raise IllegalMove(
                    f"{target} is there: `--table {name} --as NEW` brings the backup's beside it, or drop or rename it first."
                )
            if to is not None:
                table_id = uuid4()
                location = str(table_location(Location.parse(settings.warehouse), target, beside=table_id.hex[:8]))
                parts.append(Part(of=table, table_id=table_id, name=target, location=location))
                continue
            if tx.tables.by_id(table.table_id) is not None:
                raise IllegalMove(f"Table {name} is there under another name: `--table {name} --as NEW` brings the backup's beside it.")
            if any(dropped.table_id == table.table_id for dropped in tx.drops.tables()):
                raise IllegalMove(
                    f"Table {name} was dropped and is kept: UNDROP TABLE {name} brings it back as it was then, `--table {name} --as NEW` "
                    "as it was in the backup."
                )
            parts.append(Part(of=table, table_id=table.table_id, name=name, location=table.location))
    return parts
