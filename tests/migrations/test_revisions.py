"""Every revision goes up, down and up again; there is one head."""

from __future__ import annotations

import psycopg

from migrations import downgrade, heads, upgrade


def tables(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as conn:
        rows = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return {name for (name,) in rows} - {"alembic_version"}


def test_up_down_up(empty_dsn: str) -> None:
    upgrade(empty_dsn)
    made = tables(empty_dsn)
    assert "snapshot_pointer" in made
    downgrade(empty_dsn, "base")
    assert tables(empty_dsn) == set()
    upgrade(empty_dsn)
    assert tables(empty_dsn) == made


def test_one_head() -> None:
    assert len(heads()) == 1


def test_migrating_twice_changes_nothing(empty_dsn: str) -> None:
    upgrade(empty_dsn)
    made = tables(empty_dsn)
    upgrade(empty_dsn)
    assert tables(empty_dsn) == made
