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


def test_a_server_of_before_goes_on_counting_reservations(empty_dsn: str) -> None:
    """Until it notices the new schema; each client that had lost twice was answered 500 by it."""
    upgrade(empty_dsn)
    with psycopg.connect(empty_dsn) as conn:
        for _ in range(2):
            conn.execute("""
                INSERT INTO client_reservation (principal, table_id, branch, commit_user, snapshot_id, reserved_until, seconds, unused)
                VALUES ('ada', gen_random_uuid(), 'main', 'u', 1, now(), 7, 0)
                ON CONFLICT (principal) DO UPDATE SET table_id = excluded.table_id
            """)


def test_what_another_program_makes_meanwhile_is_not_marked(empty_dsn: str) -> None:
    upgrade(empty_dsn, "0023")
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(empty_dsn) as holding,
        psycopg.connect(empty_dsn, autocommit=True) as other,
    ):
        holding.execute("LOCK TABLE table_entry IN ACCESS SHARE MODE")
        migrating = pool.submit(upgrade, empty_dsn, "0025")
        waiting = (
            "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database AND datname = current_database() "
            "WHERE NOT granted AND relation = 'table_entry'::regclass"
        )
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
