"""``sluice restore``: a backup in the place of the whole catalog, and what it then says of its warehouse and of who may do what again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from psycopg import Connection

from catalog import CatalogStore
from catalog.backup.archive import (
    ArchivedTable,
    ArchiveHead,
    CatalogJobs,
    Job,
    PutBack,
    contents,
    contents_in,
    jobs_of,
    let_go,
    read_head,
    restore_archive,
    servers,
    servers_in,
    write_files_anew,
)
from catalog.backup.archive_parts import archived_tables
from catalog.backup.aside import Aside, aside
from catalog.backup.restoring import restoring
from lake import Lake
from lake.register.copied.copies import copy_back, note_left_outside, relative
from lake.register.copied.done import WarehouseCopy
from lake.register.restored.after_restore import Difference, differences, keep_discarded, tags_without_files
from migrations import downgrade, knows, newest, revision_of, upgrade
from model.catalog_errors import CatalogDamaged
from model.errors import IllegalMove, InvalidData, LakeError
from server.commands import replaced_rights
from server.commands.backup import catalog_of, present_rights, recorded_in, require_known, told_of, troubles_of
from server.commands.rights import Rights, given_again
from server.process.postgres import running_dsn
from server.process.process import catalog_dsn
from server.settings.options import CATALOG_DIRECT_DSN, CATALOG_DSN
from server.settings.settings import Settings
from server.sql.orc import orc_decoded_beside

_LEAVING_SECONDS = 3.0
Tell = Callable[[Difference], object]


def restore(
    settings: Settings, path: Path, *, replace: bool, files_from: str | None = None, verify: bool = False, tell: Tell = lambda _: None
) -> tuple[str, list[Difference]]:
    """Put a backup in the place of an empty catalog, or of any with ``replace``; returns what was done and how the warehouse differs.

    With ``files_from``, a copy that `backup` made, the files that the warehouse lacks are put back first, and with ``verify`` all that
    the backup names is read. ``tell`` hears at once who may do what again: what follows looks at all tables and can take long.
    Raises `IllegalMove` for a catalog that is in use or not empty, and `InvalidData` for a file that is no backup.
    """
    head = read_head(path)
    _check_restorable(settings, path, head, files_from)
    with catalog_dsn(settings) as dsn, restoring(dsn):
        _require_unused(_servers_left(lambda: servers(dsn)))
        if not replace:
            _require_empty(contents(dsn))
        copied = None if files_from is None else _files_back(path, settings, files_from, verify=verify)
        replaced = _replaced(settings, dsn, path) if replace else Replaced()
        try:
            put_back, stood = _filled(dsn, path, head, replaced, replace=replace)
        except (IllegalMove, InvalidData):
            if replaced.kept_now and not replaced.is_gone:
                if replaced.rights_before:
                    replaced_rights.keep(path, replaced.rights_before)
                else:
                    replaced_rights.forget(path)
            raise  # whatever else ends it may have come after the COMMIT: then only what was kept tells the repeat what was replaced
        catalog = catalog_of(settings, dsn, max_connections=16)
        try:
            differences = list(_rights_since(settings, dsn, path, replaced))
            for each in differences:
                tell(each)
            differences += [_stopped(job) for job in put_back.stopped]
            differences += [_failed(job) for job in put_back.failed]
            differences += [_left_out(table, path) for table in put_back.left_out]
            differences += _looks(catalog, settings, dsn, head, files_back=copied is not None)
        finally:
            catalog.close()
        jobs = jobs_of(dsn)
        running = [] if jobs is None else [job.name for job in jobs.jobs if not job.state.ended]
    differences += _of_place(replaced, stood)
    if (stays := replaced_rights.forget(path)) is not None:
        differences.append(Difference(table="the catalog", what=stays, statement=""))
    elsewhere = "" if head.warehouse == settings.warehouse else f"; it was made of the warehouse {head.warehouse}"
    rows = head.rows - sum(table.rows for table in put_back.left_out)
    summary = f"{path}: {rows} rows as of {head.created_at} are the catalog now{elsewhere}"
    if running:
        summary += f"; {len(running)} jobs run again once a server starts: {', '.join(running)}"
    return summary + ("" if copied is None else f"; {told_of(copied)}"), differences + ([] if copied is None else troubles_of(copied))


class Replaced:
    """What a restore finds in the place of the catalog it makes."""

    def __init__(self) -> None:
        self.newer = False
        """Whether it is of a newer Sluice."""
        self.problem: str | None = None
        """Why it cannot be brought to this version's schema."""
        self.rights: list[Rights] = []
        """Who might do what in it, and before restores that were cut off."""
        self.rights_before: list[Rights] = []
        """Only the latter."""
        self.kept_now = False
        """Whether this restore keeps them in a file."""
        self.is_gone = False
        """Whether the backup's rows are in its place for certain."""
        self.unread: CatalogDamaged | None = None
        self.jobs: CatalogJobs | None = None

    @property
    def stays(self) -> bool:
        """Whether it is kept, as only whoever knows its schema can tell what it holds."""
        return self.newer or self.problem is not None


def _replaced(settings: Settings, dsn: str, path: Path) -> Replaced:
    """Look at what is to be replaced, and keep its rights until they are told."""
    replaced = Replaced()
    replaced.rights_before = replaced_rights.kept(path)
    replaced.rights = [*replaced.rights_before]
    with contextlib.suppress(CatalogDamaged):
        replaced.jobs = jobs_of(dsn)
    replaced.newer = (at := revision_of(dsn)) is not None and not knows(at)
    if replaced.newer:
        return replaced
    try:
        upgrade(dsn, "head")
    except Exception as problem:  # whatever keeps it from that, the backup is the way out
        replaced.problem = str(problem).splitlines()[0].rstrip(".") if str(problem) else type(problem).__name__
        return replaced
    try:
        rights = present_rights(settings, dsn)
    except CatalogDamaged as damage:  # which the backup is the way out of
        replaced.unread = damage
    else:
        if rights not in replaced.rights:  # also beside others: those may be of a restore that replaced nothing, long ago
            replaced.rights.append(rights)
            replaced.kept_now = replaced_rights.keep(path, replaced.rights)
    return replaced


def _filled(dsn: str, path: Path, head: ArchiveHead, replaced: Replaced, *, replace: bool) -> tuple[PutBack, Aside | None]:
    """Put a backup's rows into the catalog's place; returns what is not as it was, and where the catalog that was there stands."""

    def require(conn: Connection) -> None:
        _require_unused(_servers_left(lambda: servers_in(conn)))
        if not replace:
            _require_empty(contents_in(conn))

    def fill() -> PutBack:
        upgrade(dsn, "head")
        if head.revision != newest():
            downgrade(dsn, head.revision)
        try:
            put_back = restore_archive(dsn, path, require=require, jobs=replaced.jobs)
            replaced.is_gone = True
        finally:
            upgrade(dsn, "head")
        return put_back

    if not replace or (not replaced.stays and head.revision == newest()):
        return fill(), None
    with aside(dsn, keep=replaced.stays) as stood:
        put_back = fill()
    return put_back, stood


def _rights_since(settings: Settings, dsn: str, path: Path, replaced: Replaced) -> Iterator[Difference]:
    """Who may do or see what the catalog that was replaced did not let them."""
    try:
        after = present_rights(settings, dsn) if replaced.rights else None
        listed = set[tuple[str, str]]()
        for before in replaced.rights:
            for each in given_again(before, after) if after is not None else ():
                if (each.table, each.statement) not in listed:
                    listed.add((each.table, each.statement))
                    yield each
    except (LakeError, OSError) as problem:
        what = f"who may do what again, as when the backup was made, could not be told ({problem}): look through its rights"
        yield Difference(table="the catalog", what=what, statement="SHOW GRANTS")
    if replaced.unread is not None:
        what = f"its rights were damaged ({replaced.unread.said}) and are as when the backup was made"
        yield Difference(table="the catalog", what=what, statement="SHOW ROLES")


def _stopped(job: Job) -> Difference:
    what = f"job {job.name} ran when the backup was made and had been stopped or removed, or had finished, since: "
    what += "it is stopped, and goes on where it was then"
    return Difference(table="the catalog", what=what, statement=f"ALTER JOB '{job.id}' RESTART")


def _failed(job: Job) -> Difference:
    what = f"job {job.name} ran when the backup was made and had failed since: it runs again once a server starts, from where it was then"
    return Difference(table="the catalog", what=what, statement=f"STOP JOB '{job.id}'")


def _left_out(table: ArchivedTable, path: Path) -> Difference:
    what = f"{path} holds the table {table.name} ({table.rows} rows), which is not the catalog's: it was left out, and is as it was here"
    return Difference(table="the catalog", what=what, statement="")


def _looks(catalog: CatalogStore, settings: Settings, dsn: str, head: ArchiveHead, *, files_back: bool) -> list[Difference]:
    """What is done and looked at once the catalog is the backup's; what cannot be is told, as the rest is true all the same."""
    seen: list[Difference] = []

    def look(name: str, differing: Callable[[], Iterable[Difference]]) -> None:
        try:
            seen.extend(differing())
        except (LakeError, OSError) as problem:
            what = f"is the backup's now, but {name} failed ({problem}): repeat the restore with --replace before a server starts"
            seen.append(Difference(table="the catalog", what=what, statement=""))

    def free() -> Iterable[Difference]:
        let_go(dsn)
        if files_back:
            write_files_anew(dsn)
        return ()

    def publish() -> Iterable[Difference]:
        _publish(catalog, settings)
        return ()

    occupied: set[str] = set()

    def discard() -> Iterable[Difference]:
        occupied.update(keep_discarded(catalog))
        return ()

    look("freeing its jobs and drops", free)
    look("looking at directories that were being removed", discard)  # before anything is removed
    if files_back:
        look("writing the files of its schemas, snapshots and tags", publish)
    known = any(table.name == "catalog_state" for table in head.tables)
    look("comparing its identity with the warehouse's", lambda: _of_identity(catalog, settings, known=known))
    look("holding it against the warehouse", lambda: differences(catalog, settings.warehouse, kept=occupied))
    look("looking at the files of its tags", lambda: tags_without_files(catalog))
    return seen


def _of_place(replaced: Replaced, stood: Aside | None) -> Iterator[Difference]:
    """Where the catalog that was replaced stands, if it does."""
    if stood is None:
        return
    if replaced.stays:
        why = "of a newer Sluice" if replaced.newer else f"which could not be brought up to date ({replaced.problem})"
        what = "grants, tokens, roles and policies are as when the backup was made; "
        what += f"the catalog it replaced, {why}, stands in the schema {stood.schema}"
        yield Difference(table="the catalog", what=what, statement="")
    elif stood.used_by is not None:
        what = f"the one it replaced stands in the schema {stood.schema}, as something else needs it ({stood.used_by})"
        yield Difference(table="the catalog", what=what, statement="")


def _require_unused(count: int) -> None:
    if count:
        raise IllegalMove(f"Servers hold {count} connections to this catalog: stop them first.")


def _require_empty(rows: int) -> None:
    if rows:
        raise IllegalMove(
            f"The catalog is not empty ({rows} rows): restore into an empty one, or repeat with --replace to lose what it holds."
        )


def _servers_left(servers: Callable[[], int]) -> int:
    """Connections of servers that stay; those of one, and of ours, that were closed just now Postgres takes a moment to end."""
    deadline = time.monotonic() + _LEAVING_SECONDS
    while (count := servers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return count


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


def _check_restorable(settings: Settings, path: Path, head: ArchiveHead, files_from: str | None) -> None:
    """Raise what keeps a backup from being restored here, before Postgres is asked."""
    require_known(path, head)
    if settings[CATALOG_DSN] is None and running_dsn(settings.data) is not None:
        raise IllegalMove(f"A server runs on {settings.data}: stop it first.")
    if settings.catalog_pooled and settings[CATALOG_DIRECT_DSN] is None:
        raise IllegalMove("Behind a pooler nobody sees whether a server still works: set SLUICE_CATALOG_DIRECT_DSN, which leads past it.")
    if files_from is not None and head.warehouse != settings.warehouse:
        raise IllegalMove(
            f"The backup is of the warehouse {head.warehouse}, and SLUICE_WAREHOUSE is {settings.warehouse}: tables never move."
        )


def _files_back(path: Path, settings: Settings, files_from: str, *, verify: bool) -> WarehouseCopy:
    done = WarehouseCopy()
    wanted = []
    for table in archived_tables(path, dropped=True):
        below = relative(table.location, settings.warehouse)
        if below is not None:
            wanted.append((table, f"{files_from.rstrip('/')}/{below}", table.location))
        else:
            note_left_outside(table, done)
    record = recorded_in(path, files_from, done)
    with orc_decoded_beside(settings):
        copy_back(wanted, done, verify=verify, record=record, import_dirs=settings.import_dirs)
    return done


def _publish(catalog: CatalogStore, settings: Settings) -> None:
    """Write the files of schemas, snapshots and tags that the catalog knows."""
    lake = Lake(catalog, settings.warehouse)
    try:
        lake.recover()
    finally:
        lake.close()
