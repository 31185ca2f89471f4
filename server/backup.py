"""``sluice backup`` and ``sluice restore``: the catalog into a file and back, and what it then says of its warehouse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from catalog import CatalogStore
from catalog.archive import contents, let_go, read_head, restore_archive, servers, write_archive
from lake import Lake
from lake.after_restore import Difference, differences
from migrations import downgrade, knows, newest, upgrade
from model.access import Grant
from model.errors import IllegalMove, InvalidData
from model.sql_text import quote
from server.postgres import running_dsn
from server.process import catalog_dsn
from server.settings import Settings


@contextlib.contextmanager
def present_dsn(settings: Settings) -> Iterator[str]:
    """The catalog's DSN as it is: that of a running server's embedded Postgres where one runs, else started until the block ends."""
    running = None if settings.catalog_dsn is not None else running_dsn(settings.data)
    if running is not None:
        yield running
        return
    if settings.catalog_dsn is None and not (settings.data / "postgres").exists():
        raise IllegalMove(f"There is no catalog in {settings.data}: set SLUICE_DATA or SLUICE_CATALOG_DSN as for the server.")
    with catalog_dsn(settings) as dsn:
        yield dsn


def _grants(dsn: str) -> list[Grant]:
    catalog = CatalogStore(dsn, max_connections=2)
    try:
        with catalog.reading() as tx:
            return tx.grants.all()
    finally:
        catalog.close()


def _given_again(before: list[Grant], after: list[Grant]) -> Iterator[Difference]:
    """Grants that the catalog that was replaced did not have any more, or never had: a backup cannot know what was revoked since."""
    had = {(grant.resource, grant.access, grant.principal) for grant in before}
    for grant in after:
        if (grant.resource, grant.access, grant.principal) not in had:
            what = f"{grant.principal} may {grant.access.value} again, as when the backup was made; the catalog it replaced did not let it"
            statement = f"REVOKE {grant.access.value} ON {grant.resource.sql()} FROM {quote(grant.principal)}"
            yield Difference(table=str(grant.resource), what=what, statement=statement)


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


def backup(settings: Settings, path: Path) -> str:
    """Write the catalog to a file, beside running servers; returns what was written, in a line."""
    with present_dsn(settings) as dsn:
        head = write_archive(dsn, path, warehouse=settings.warehouse)
    size = path.stat().st_size
    return f"{path}: {head.rows} rows of {len(head.tables)} tables as of {head.created_at}, revision {head.revision}, {size:,} bytes"


def restore(settings: Settings, path: Path, *, replace: bool) -> tuple[str, list[Difference]]:
    """Put a backup in the place of an empty catalog, or of any with ``replace``; returns what was done and how the warehouse differs.

    Raises `IllegalMove` for a catalog that is in use or not empty, and `InvalidData` for a file that is no backup.
    """
    head = read_head(path)
    if not knows(head.revision):
        raise InvalidData(f"{path} was written by a newer Sluice: its schema is {head.revision}, and this one knows {newest()}.")
    if settings.catalog_dsn is None and running_dsn(settings.data) is not None:
        raise IllegalMove(f"A server runs on {settings.data}: stop it first.")
    with catalog_dsn(settings) as dsn:
        if count := servers(dsn):
            raise IllegalMove(f"Servers hold {count} connections to this catalog: stop them first.")
        if not replace and (rows := contents(dsn)):
            raise IllegalMove(
                f"The catalog is not empty ({rows} rows): restore into an empty one, or repeat with --replace to lose what it holds."
            )
        upgrade(dsn, "head")
        before = _grants(dsn) if replace else None
        if head.revision != newest():
            downgrade(dsn, head.revision)
        try:
            restore_archive(dsn, path)
        finally:
            upgrade(dsn, "head")
        let_go(dsn)
        catalog = CatalogStore(dsn)
        try:
            found = list(_of_identity(catalog, settings, known=any(table.name == "catalog_state" for table in head.tables)))
            found += differences(catalog, settings.warehouse)
            found += _given_again(before, _grants(dsn)) if before is not None else []
        finally:
            catalog.close()
    elsewhere = "" if head.warehouse == settings.warehouse else f"; it was made of the warehouse {head.warehouse}"
    return f"{path}: {head.rows} rows as of {head.created_at} are the catalog now{elsewhere}", found
