"""``python -m migrations``: bring the database whose DSN is the first line of standard input to the newest schema."""

from __future__ import annotations

import sys

import alembic.command  # noqa: F401  # loaded before the DSN is known: the database is still being made
import psycopg  # noqa: F401
import sqlalchemy  # noqa: F401

from migrations import upgrade

if dsn := sys.stdin.readline().strip():
    upgrade(dsn)
