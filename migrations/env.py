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


run()
