"""A catalog that stands aside while another is made in its place, and comes back where that fails."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator

import psycopg
from psycopg import sql

from catalog.backup.archive import connected
from model.errors import IllegalMove


@contextlib.contextmanager
def aside(dsn: str, *, keep: bool) -> Iterator[str]:
    """Have an empty schema in the place of the catalog's until the block ends; yields the name under which the catalog stands aside.

    What stood there is removed once the block ends, unless it is to be kept, and is back in its place where the block fails.
    """
    place, name = _move(dsn)
    try:
        yield name
    except BaseException:
        with connected(dsn) as conn, conn.transaction():
            conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(place)))
            conn.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(place)))
        raise
    if not keep:
        with connected(dsn) as conn:
            conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def _move(dsn: str) -> tuple[str, str]:
    """The name of the catalog's schema, and the one it has now."""
    name = f"replaced_{dt.datetime.now(dt.UTC):%Y%m%d_%H%M%S}"
    try:
        with connected(dsn) as conn, conn.transaction():
            row = conn.execute("SELECT current_schema()").fetchone()
            place = str(row[0]) if row is not None else "public"
            conn.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(place), sql.Identifier(name)))
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(place)))
    except psycopg.errors.InsufficientPrivilege as problem:
        raise IllegalMove(
            "The catalog that is there is of another schema and cannot be moved aside: the user of SLUICE_CATALOG_DSN may not rename its "
            "schema in Postgres. Restore into an empty database."
        ) from problem
    return place, name
