"""A catalog that stands aside while another is made in its place, and comes back where that fails."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import Connection, errors, sql

from catalog.backup.archive import connected
from catalog.backup.own_objects import KINDS, own_objects
from model.errors import IllegalMove


@dataclass(slots=True)
class Aside:
    """Where a catalog stands meanwhile."""

    schema: str
    used_by: str | None = None
    """What of somebody else's needs it still, so that it stays there."""


@contextlib.contextmanager
def aside(dsn: str, *, keep: bool) -> Iterator[Aside]:
    """Have no catalog in the DSN's schema until the block ends; yields where the one that was there stands. What is not its stays.

    It is removed once the block ends, unless it is to be kept or something of somebody else's needs it, and is back where the block fails.
    """
    place, name = _move(dsn)
    stands = Aside(name)
    try:
        yield stands
    except BaseException:
        with connected(dsn) as conn, conn.transaction():
            _drop(conn, place)
            _move_all(conn, name, place)
            conn.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(name)))
        raise
    if not keep:
        try:
            with connected(dsn) as conn, conn.transaction():
                _drop(conn, name)
                conn.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(name)))
        except errors.DependentObjectsStillExist as needed:
            stands.used_by = needed.diag.message_detail or str(needed)


def _move(dsn: str) -> tuple[str, str]:
    """The name of the catalog's schema, and of the one it is in now."""
    name = f"replaced_{dt.datetime.now(dt.UTC):%Y%m%d_%H%M%S}"
    try:
        with connected(dsn) as conn, conn.transaction():
            row = conn.execute("SELECT current_schema()").fetchone()
            place = str(row[0]) if row is not None else "public"
            if not any(own.kind == "TABLE" and own.name == "snapshot_pointer" for own in own_objects(conn, place)):
                raise IllegalMove(
                    f"The schema {place} of SLUICE_CATALOG_DSN has revisions of alembic that are not Sluice's, and none of its tables: "
                    "restore into a database, or a schema, of its own."
                )
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
            _move_all(conn, place, name)
    except psycopg.errors.InsufficientPrivilege as problem:
        raise IllegalMove(
            "The catalog that is there is of another schema and cannot be moved aside: the user of SLUICE_CATALOG_DSN may not make a "
            "schema in its Postgres database, or does not own the catalog's tables. Restore into an empty database."
        ) from problem
    return place, name


def _move_all(conn: Connection, place: str, to: str) -> None:
    for own in own_objects(conn, place):
        conn.execute(sql.SQL("ALTER {} {} SET SCHEMA {}").format(sql.SQL(own.kind), own.of(place), sql.Identifier(to)))


def _drop(conn: Connection, schema: str) -> None:
    """Drop the catalog's own in a schema; raises where something of somebody else's needs one of it."""
    owned = own_objects(conn, schema)
    for kind in KINDS:
        if names := [own.of(schema) for own in owned if own.kind == kind]:
            conn.execute(sql.SQL("DROP {} {}").format(sql.SQL(kind), sql.SQL(", ").join(names)))
