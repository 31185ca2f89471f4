"""Every revision goes up, down and up again; there is one head."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

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


def test_what_another_program_makes_meanwhile_is_not_marked(empty_dsn: str) -> None:
    upgrade(empty_dsn, "0023")
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(empty_dsn) as holding,
        psycopg.connect(empty_dsn, autocommit=True) as other,
    ):
        holding.execute("LOCK TABLE table_entry IN ACCESS SHARE MODE")
        migrating = pool.submit(upgrade, empty_dsn, "0025")
        waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'table_entry'::regclass"
        while not other.execute(waiting).fetchall():
            assert not migrating.done()
            time.sleep(0.01)
        other.execute("CREATE TABLE invoices (id INT)")
        other.execute("CREATE FUNCTION nothing() RETURNS int LANGUAGE sql AS 'SELECT 0'")
        holding.rollback()
        migrating.result()
        query = """
            SELECT obj_description('invoices'::regclass), obj_description('nothing'::regproc),
                   obj_description('removed_file'::regclass) LIKE 'Sluice%'
        """
        assert other.execute(query).fetchone() == (None, None, True)
