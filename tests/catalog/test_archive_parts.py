"""What is kept of a table and of a branch, held against the lists of what comes back with a table and moves along with a branch."""

from __future__ import annotations

import psycopg

from catalog.backup.archive_parts import _OF_A_TABLE
from catalog.objects.branches import _MOVED_ALONG

NOT_RESTORED = {
    "table_entry": "the table itself, which gets another id or place",
    "stale_file": "files on their way out, which a copy of the table's files leaves out",
    "removed_file": "files that were removed where the table lay",
    "maintenance_lease": "which server looks after it now",
    "client_loss": "who lost a commit within a minute",
    "client_reservation": "whose turn it was, to servers of before",
    "client_reservation_of_branch": "whose turn it was",
    "maintenance_mark": "what maintenance of the table's present files found",
}

NOT_MOVED = {
    "client_loss": "a client that lost within a minute begins anew",
    "client_reservation": "whose turn it was, to servers of before",
    "client_reservation_of_branch": "whose turn it was",
}


def tables_with(dsn: str, column: str) -> set[str]:
    query = """
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = %s AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
    """
    with psycopg.connect(dsn) as conn:
        return {name for (name,) in conn.execute(query, (column,))}


def test_all_that_is_kept_of_a_table_comes_back_with_it(dsn: str) -> None:
    assert tables_with(dsn, "table_id") - set(NOT_RESTORED) == set(_OF_A_TABLE)
    assert set(NOT_RESTORED) <= tables_with(dsn, "table_id")


def test_all_that_is_kept_of_a_branch_moves_along_with_it(dsn: str) -> None:
    assert tables_with(dsn, "branch") - set(NOT_MOVED) == set(_MOVED_ALONG)
    assert set(NOT_MOVED) <= tables_with(dsn, "branch")
