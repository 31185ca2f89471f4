"""``sluice backup`` and ``sluice restore``: the catalog into a file and back, and what it then says of its warehouse."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from catalog import CatalogStore
from catalog.backup.archive import ArchiveHead, contents, let_go, read_head, restore_archive, servers, write_archive, write_files_anew
from catalog.backup.archive_parts import Part, PartTable, archived_tables, restore_tables
from catalog.backup.aside import aside
from catalog.backup.holds import holding
from catalog.damage import telling_damage
from lake import Lake
from lake.access.allowed_locations import table_location
from lake.register.copies import WarehouseCopy, copy_back, copy_to, relative
from lake.register.restored.after_restore import Difference, differences, keep_discarded, tags_without_files
from migrations import downgrade, knows, newest, revision_of, upgrade
from model.access import Grant
from model.catalog_errors import CatalogDamaged
from model.errors import IllegalMove, InvalidData, Unavailable
from model.identifier import Identifier
from model.location import Location
from server.commands.rights import Rights, given_again, grants_given_again, rights_of
from server.process.postgres import running_dsn
from server.process.process import catalog_dsn
from server.settings.options import CATALOG_DIRECT_DSN, CATALOG_DSN
from server.settings.settings import Settings
from server.sql.orc import orc_decoded_beside

_LEAVING_SECONDS = 3.0


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


def catalog_of(settings: Settings, dsn: str, *, max_connections: int = 2) -> CatalogStore:
    """The catalog at the DSN of `present_dsn`, which leads to a pooler where nothing leads past it."""
    pooled = settings.catalog_pooled and settings[CATALOG_DIRECT_DSN] is None
    return CatalogStore(dsn, max_connections=max_connections, pooled=pooled)


def _servers_left(dsn: str) -> int:
    """Connections of servers that stay; those of one that has just stopped are Postgres's to end, which takes it a moment."""
    deadline = time.monotonic() + _LEAVING_SECONDS
    while (count := servers(dsn)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return count


def _rights(settings: Settings, dsn: str) -> Rights:
    catalog = catalog_of(settings, dsn)
    try:
        return rights_of(catalog)
    finally:
        catalog.close()


def _of_identity(catalog: CatalogStore, settings: Settings, *, known: bool) -> Iterator[Difference]:
    """A warehouse of another catalog; a backup of before catalogs had an identity takes the one its warehouse has (not ``known``)."""
    lake = Lake(catalog, settings.warehouse)
    try:
        if not known:
            lake.standing.become()
        lake.standing.compare(look_only=True)
        if lake.standing.mismatch is not None:
            yield Difference(table="the warehouse", what=lake.standing.mismatch.rstrip("."), statement="CALL sys.claim_warehouse()")
    finally:
        lake.close()


def backup(settings: Settings, path: Path, *, files_to: str | None = None, verify: bool = False) -> tuple[str, list[Difference]]:
    """Write the catalog to a file, beside running servers; returns what was written, in a line, and which files are not as they should be.

    With ``files_to`` the warehouse's files that the backup names are copied there, and read there with ``verify``. Nothing expires and
    nothing is removed for good meanwhile, so that both are of one moment. Raises `Unavailable` where Postgres went away during it: then
    the backup is none.
    """
    with present_dsn(settings) as dsn:
        if files_to is not None and (at := revision_of(dsn)) != newest():
            raise IllegalMove(f"The catalog's schema is {at}, and this Sluice's is {newest()}: run `sluice migrate`.")
        with holding(dsn) as check:
            head = write_archive(dsn, path, warehouse=settings.warehouse)
            copied = None
            if files_to is not None:
                with orc_decoded_beside(settings) if verify else contextlib.nullcontext():
                    copied = copy_to(archived_tables(path), warehouse=settings.warehouse, place=files_to, verify=verify)
            try:
                check()
            except Unavailable:
                path.unlink(missing_ok=True)
                raise
    size = path.stat().st_size
    summary = f"{path}: {head.rows} rows of {len(head.tables)} tables as of {head.created_at}, revision {head.revision}, {size:,} bytes"
    return summary + ("" if copied is None else f"; {_told(copied)} to {files_to}"), [] if copied is None else _troubles(copied)


def _told(copied: WarehouseCopy) -> str:
    there = f", {copied.there} were there already" if copied.there else ""
    return f"{copied.files} files ({copied.size:,} bytes) of {copied.tables} tables were copied{there}"


def _troubles(copied: WarehouseCopy) -> list[Difference]:
    return [Difference(table=table, what=what, statement="") for table, what in copied.troubles]


def restore(
    settings: Settings, path: Path, *, replace: bool, files_from: str | None = None, verify: bool = False
) -> tuple[str, list[Difference]]:
    """Put a backup in the place of an empty catalog, or of any with ``replace``; returns what was done and how the warehouse differs.

    With ``files_from``, a copy that `backup` made, the files that the warehouse lacks are put back first, and with ``verify`` all that
    the backup names is read.
    Raises `IllegalMove` for a catalog that is in use or not empty, and `InvalidData` for a file that is no backup.
    """
    head = read_head(path)
    _check_restorable(settings, path, head, files_from)
    with catalog_dsn(settings) as dsn:
        if count := _servers_left(dsn):
            raise IllegalMove(f"Servers hold {count} connections to this catalog: stop them first.")
        if not replace and (rows := contents(dsn)):
            raise IllegalMove(
                f"The catalog is not empty ({rows} rows): restore into an empty one, or repeat with --replace to lose what it holds."
            )
        copied = None if files_from is None else _files_back(path, settings, files_from, verify=verify)
        newer = replace and (at := revision_of(dsn)) is not None and not knows(at)
        before, unread = _rights_now(settings, dsn) if replace and not newer else (None, None)
        if replace and (newer or head.revision != newest()):
            with aside(dsn, keep=newer) as name:
                _filled(dsn, path, head.revision)
        else:
            _filled(dsn, path, head.revision)
        let_go(dsn)
        if copied is not None:
            write_files_anew(dsn)
        catalog = catalog_of(settings, dsn, max_connections=16)
        try:
            occupied = keep_discarded(catalog)  # before anything is removed
            if copied is not None:
                _publish(catalog, settings)
            differing = list(_of_identity(catalog, settings, known=any(table.name == "catalog_state" for table in head.tables)))
            differing += [*differences(catalog, settings.warehouse, kept=occupied), *tags_without_files(catalog)]
            differing += given_again(before, _rights(settings, dsn)) if before is not None else []
            if unread is not None:
                what = f"its rights were damaged ({unread.said}) and are as when the backup was made"
                differing.append(Difference(table="the catalog", what=what, statement="SHOW ROLES"))
        finally:
            catalog.close()
    elsewhere = "" if head.warehouse == settings.warehouse else f"; it was made of the warehouse {head.warehouse}"
    summary = f"{path}: {head.rows} rows as of {head.created_at} are the catalog now{elsewhere}"
    if newer:
        differing.append(
            Difference(
                table="the catalog",
                what="grants, tokens, roles and policies are as when the backup was made; "
                f"the catalog it replaced, of a newer Sluice, stands in the schema {name}",
                statement="",
            )
        )
    return summary + ("" if copied is None else f"; {_told(copied)}"), differing + ([] if copied is None else _troubles(copied))


def _check_restorable(settings: Settings, path: Path, head: ArchiveHead, files_from: str | None) -> None:
    """Raise what keeps a backup from being restored here, before Postgres is asked."""
    if not knows(head.revision):
        raise InvalidData(f"{path} was written by a newer Sluice: its schema is {head.revision}, and this one knows {newest()}.")
    if settings[CATALOG_DSN] is None and running_dsn(settings.data) is not None:
        raise IllegalMove(f"A server runs on {settings.data}: stop it first.")
    if settings.catalog_pooled and settings[CATALOG_DIRECT_DSN] is None:
        raise IllegalMove("Behind a pooler nobody sees whether a server still works: set SLUICE_CATALOG_DIRECT_DSN, which leads past it.")
    if files_from is not None and head.warehouse != settings.warehouse:
        raise IllegalMove(
            f"The backup is of the warehouse {head.warehouse}, and SLUICE_WAREHOUSE is {settings.warehouse}: tables never move."
        )


def _rights_now(settings: Settings, dsn: str) -> tuple[Rights | None, CatalogDamaged | None]:
    """Those of a catalog of this version's schema or of an earlier one; the damage because of which they cannot be read."""
    upgrade(dsn, "head")
    try:
        return _rights(settings, dsn), None
    except CatalogDamaged as damage:  # which the backup is the way out of
        return None, damage


def _filled(dsn: str, path: Path, revision: str) -> None:
    """Put a backup's rows into a catalog under the schema they were written with, and bring that up to date."""
    upgrade(dsn, "head")
    if revision != newest():
        downgrade(dsn, revision)
    try:
        restore_archive(dsn, path)
    finally:
        upgrade(dsn, "head")


def _files_back(path: Path, settings: Settings, files_from: str, *, verify: bool) -> WarehouseCopy:
    done = WarehouseCopy()
    wanted = []
    for table in archived_tables(path):
        below = relative(table.location, settings.warehouse)
        if below is not None:
            wanted.append((table, f"{files_from.rstrip('/')}/{below}", table.location))
    with orc_decoded_beside(settings):
        copy_back(wanted, done, verify=verify)
    return done


def _publish(catalog: CatalogStore, settings: Settings) -> None:
    """Write the files of schemas, snapshots and tags that the catalog knows."""
    lake = Lake(catalog, settings.warehouse)
    try:
        lake.recover()
    finally:
        lake.close()


def restore_parts(  # noqa: PLR0913 - each is an option of the command
    settings: Settings, path: Path, *, tables: Sequence[Identifier] = (), to: Identifier | None = None,
    databases: Sequence[str] = (), files_from: str | None = None, verify: bool = False,
) -> tuple[str, list[Difference]]:  # fmt: skip
    """Bring single tables, or all of single databases, of a backup into a catalog that goes on, beside running servers.

    They come with schemas, snapshots, branches, tags, grants, policies and consumers, under their names and where they lay; ``to`` makes
    of one table another one, with a directory of its own. Files come from ``files_from``, else from where they lie. Returns what was
    done, and how the files differ and who may read again. Raises `IllegalMove`, and changes nothing, where a name or place is taken.
    """
    head = read_head(path)
    with present_dsn(settings) as dsn:
        if (at := revision_of(dsn)) != newest() or head.revision != at:
            raise IllegalMove(
                f"The backup's schema is {head.revision}, the catalog's {at}, and this Sluice's {newest()}: single tables come back where "
                "all are the same. Restore an older backup into an empty SLUICE_DATA and make a backup there."
            )
        catalog = catalog_of(settings, dsn)
        lake = Lake(catalog, settings.warehouse)
        try:
            lake.standing.compare(look_only=True)
            lake.standing.require_own()
            parts = _parts(catalog, settings, archived_tables(path), tables=tables, to=to, databases=databases)
            copied = WarehouseCopy()
            if files_from is not None or to is not None:
                with orc_decoded_beside(settings):
                    copy_back([(part.of, _source(part, settings, files_from), part.location) for part in parts], copied, verify=verify)
            if to is not None and copied.troubles:
                raise IllegalMove(f"Not all files of {parts[0].of.name} could be copied; nothing was changed: {copied.troubles[0][1]}.")
            restore_tables(dsn, path, parts, databases=databases)
            restored = {part.table_id for part in parts}
            lake.recover()
            differing = [each for each in differences(catalog, settings.warehouse) if each.table in {str(part.name) for part in parts}]
            differing += grants_given_again((), tuple(g for g in _rights(settings, dsn).grants if _is_of(g, parts, databases)))
        finally:
            lake.close()
            catalog.close()
    names = ", ".join(str(part.name) for part in parts)
    summary = f"{path}: {names or ', '.join(databases)} {'is' if len(restored) == 1 else 'are'} as of {head.created_at}"
    return summary + (f"; {_told(copied)}" if copied.tables else ""), differing + _troubles(copied)


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
            f"Table {part.of.name} lay at {part.of.location}, outside the warehouse {settings.warehouse}: no copy has its files."
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
