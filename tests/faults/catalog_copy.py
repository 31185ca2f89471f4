"""Copies of a catalog, of one that nobody uses and of one that a server uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"


def _made(dsn: str, template: str) -> str:
    name = f"t{uuid4().hex}"
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (template,))
        conn.execute(SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(Identifier(name), Identifier(template)))
    return make_conninfo(dsn, dbname=name)


def _dropped(dsn: str) -> None:
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as conn:
        conn.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(str(conninfo_to_dict(dsn)["dbname"]))))


@contextmanager
def copied(dsn: str) -> Iterator[str]:
    """DSN of a copy of a database that nobody uses any more."""
    copy = _made(dsn, str(conninfo_to_dict(dsn)["dbname"]))
    try:
        yield copy
    finally:
        _dropped(copy)


@contextmanager
def copied_now(dsn: str, template: str) -> Iterator[str]:
    """DSN of a copy of a database as it is now, whoever uses it; ``template`` has the same tables."""
    copy = _made(dsn, template)
    try:
        with psycopg.connect(dsn) as source, psycopg.connect(copy) as target:
            source.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            target.execute("SET session_replication_role = replica")  # no keys of other tables are looked for
            for (table,) in source.execute(_TABLES).fetchall():
                target.execute(SQL("DELETE FROM {}").format(Identifier(table)))
                into = SQL("COPY {} FROM STDIN (FORMAT binary)").format(Identifier(table))
                out = SQL("COPY {} TO STDOUT (FORMAT binary)").format(Identifier(table))
                with source.cursor().copy(out) as rows, target.cursor().copy(into) as taken:
                    for part in rows:
                        taken.write(part)
            for name, last in source.execute(_SEQUENCES).fetchall():
                target.execute("SELECT setval(%s::regclass, %s)", (name, last))
        yield copy
    finally:
        _dropped(copy)
