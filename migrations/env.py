"""Alembic's wiring: one connection, one transaction, one server at a time."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from alembic import context


def run() -> None:
    """Apply the revisions alembic asks for to the database named in the configuration."""
    dsn = str(context.config.attributes["dsn"])
    # libpq reads the DSN itself, so that keywords do as well as a URI. A pooler may be there, which bears nothing prepared.
    engine = sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn, prepare_threshold=None), poolclass=sa.pool.NullPool
    )
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": context.config.attributes["lock"]})
        context.configure(connection=connection, target_metadata=None)
        with context.begin_transaction():
            context.run_migrations()
        for named in _made(connection):
            # By this an earlier version, which has not heard of it, tells it from what others have in the schema (`catalog.backup`).
            connection.execute(sa.text(f"COMMENT ON {named} IS 'Sluice: part of its catalog'"))


def _made(connection: sa.Connection) -> list[str]:
    """The tables, views, sequences and functions that this transaction made or changed in the schema, as statements name them.

    What another program makes there meanwhile is of another transaction.
    """
    query = """
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW ' WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relkind IN ('r', 'v', 'S')
        AND c.xmin = pg_current_xact_id()::xid
        UNION ALL
        SELECT 'FUNCTION ' || p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace(quote_ident(current_schema())) AND p.prokind = 'f' AND p.xmin = pg_current_xact_id()::xid
    """
    return list(connection.execute(sa.text(query)).scalars())


run()
