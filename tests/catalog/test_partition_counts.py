"""Rows of partitions that were counted anew."""

from __future__ import annotations

from uuid import uuid4

import psycopg

from catalog.objects.partitions import EMPTIED


def test_what_was_not_counted_is_found_without_holding_each_row_against_each_name(dsn: str) -> None:
    """Also by a plan for any names, as Postgres makes for a statement that one connection sends often."""
    table = uuid4()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET session_replication_role = replica")  # there is no such table
        insert = """
            INSERT INTO table_partition (table_id, name, spec, record_count, file_size, file_count, last_file_millis, total_buckets)
            SELECT %s, 'p=' || n, '{}', 1, 1, 1, 1, 1 FROM generate_series(1, 2000) n
        """
        conn.execute(insert, (table,))
        conn.execute("ANALYZE table_partition")
        conn.execute("SET plan_cache_mode = force_generic_plan")
        numbered = EMPTIED % {"table": "$1", "branch": "$2", "names": "$3"}
        conn.execute(f"PREPARE emptied (uuid, text, text[]) AS {numbered}")
        names = "{" + ",".join(f"p={n}" for n in range(1, 2000)) + "}"
        plan = "\n".join(line for (line,) in conn.execute(f"EXPLAIN EXECUTE emptied ('{table}', 'main', '{names}')"))
        assert "Hash" in plan, plan
        conn.execute(f"EXECUTE emptied ('{table}', 'main', '{names}')")
        assert conn.execute("SELECT name FROM table_partition WHERE file_count = 0").fetchall() == [("p=2000",)]
