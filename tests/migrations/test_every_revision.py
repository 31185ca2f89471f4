"""A catalog of each revision there has been, with data: opened, brought up to date, and used."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from lake import Lake, Replay
from migrations import NewerSchema, _followed, downgrade, upgrade
from model.access import Access
from model.errors import IdempotencyMismatch
from model.identifier import Identifier
from tests.migrations.make_dumps import DUMPS, PLACE, WAREHOUSE, append, chain

T = Identifier("default", "t")


def rows(lake: Lake) -> int:
    latest = lake.open(T).latest()
    assert latest is not None
    return sum(entry.file.row_count for entry in lake.open(T).files.live_entries(latest))


def opened(dsn: str, revision: str, warehouse: Path) -> None:
    """Put the dump of a revision into an empty database, and its files into a warehouse."""
    shutil.copytree(WAREHOUSE, warehouse)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute((DUMPS / f"{revision}.sql").read_text().replace(PLACE, str(warehouse)))


def test_no_revision_is_without_a_dump() -> None:
    """The newest neither: a database may be there, and what it lacks no later change of that revision brings."""
    assert {file.stem for file in DUMPS.glob("*.sql")} == set(_followed()), "run python -m tests.migrations.make_dumps DSN"


def test_what_a_revision_makes_is_what_it_made(empty_dsn: str) -> None:
    """A revision that databases are at is never changed: another one follows it."""
    made = {}
    for revision in chain():
        upgrade(empty_dsn, revision)
        made[revision] = shape(empty_dsn)
    for revision, now in made.items():
        with psycopg.connect(empty_dsn, autocommit=True) as conn:
            conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            conn.execute((DUMPS / f"{revision}.sql").read_text())
        assert shape(empty_dsn) == now, f"revision {revision} was changed after its dump was made"


def shape(dsn: str) -> set[tuple[str, ...]]:
    """The columns, constraints, views, indexes, functions and triggers of a database, in no order."""
    query = """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text, a.attidentity::text,
               coalesce(pg_get_expr(d.adbin, d.adrelid), '')
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
        LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
        WHERE a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT 'constraint', conname, pg_get_constraintdef(oid), '', '', '' FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
        UNION ALL
        SELECT 'view', viewname, definition, '', '', '' FROM pg_views WHERE schemaname = 'public'
        UNION ALL
        SELECT 'index', indexname, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL
        SELECT 'function', proname, prosrc, '', '', '' FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL
        SELECT 'trigger', tgname, pg_get_triggerdef(oid), '', '', '' FROM pg_trigger WHERE NOT tgisinternal
    """
    with psycopg.connect(dsn) as conn:
        return set(conn.execute(query).fetchall())


_OF_THIRD_0025 = """
    CREATE TABLE expired_snapshot (
        table_id uuid NOT NULL, branch text NOT NULL, snapshot_id bigint NOT NULL, body jsonb NOT NULL,
        CONSTRAINT expired_snapshot_pkey PRIMARY KEY (table_id, branch),
        CONSTRAINT expired_snapshot_table_fkey FOREIGN KEY (table_id) REFERENCES table_entry (table_id) ON DELETE CASCADE)
"""


@pytest.mark.parametrize("by_hand", ["DROP TABLE removed_file", _OF_THIRD_0025], ids=["the first", "the third"])
def test_each_shape_that_a_revision_had_on_main_ends_as_the_newest(empty_dsn: str, tmp_path: Path, by_hand: str) -> None:
    """Revision 0025 was changed twice on its day and then back: what it left out for whoever had it already, later ones make."""
    upgrade(empty_dsn)
    newest = shape(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    opened(empty_dsn, "0025", tmp_path / "warehouse")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("SET search_path = public")  # which the dump empties
        conn.execute(by_hand)
    upgrade(empty_dsn)
    assert shape(empty_dsn) == newest
    catalog = CatalogStore(empty_dsn, max_connections=2)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    lake.recover()
    lake.history.rollback_to_snapshot(lake.open(T), 1)
    assert rows(lake) == 2
    lake.close()
    catalog.close()


@pytest.mark.parametrize("revision", sorted(file.stem for file in DUMPS.glob("*.sql")))
def test_it_is_opened_brought_up_to_date_and_used(empty_dsn: str, tmp_path: Path, revision: str) -> None:
    warehouse = tmp_path / "warehouse"
    opened(empty_dsn, revision, warehouse)
    upgrade(empty_dsn)
    catalog = CatalogStore(empty_dsn, max_connections=2)
    lake = Lake(catalog, str(warehouse))
    lake.recover()
    lake.standing.compare()
    lake.standing.look_around(tables=None)
    assert (lake.standing.mismatch, lake.standing.warning, lake.standing.troubles()) == (None, None, [])
    assert rows(lake) == 3
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["kept"]
    append(lake, 4, 5)
    assert rows(lake) == 5
    if revision >= "0002":  # used before anybody was told from anybody: what was done under it is not done again
        answered = lake.claim("old", scope="append:anonymous", body_hash="h")
        assert isinstance(answered, Replay)
        assert answered.answer["rows"] == 2
        with pytest.raises(IdempotencyMismatch):
            lake.claim("old", scope="append:anonymous", body_hash="another")
        assert not isinstance(lake.claim("old", scope="sql:anonymous", body_hash="h"), Replay)
    lake.close()
    catalog.close()


def test_what_a_server_of_before_commits_afterwards_is_as_old_as_postgres_says(empty_dsn: str, tmp_path: Path) -> None:
    """It goes on beside newer ones for a while, and names the columns that it knows."""
    opened(empty_dsn, "0032", tmp_path / "warehouse")
    upgrade(empty_dsn)
    with psycopg.connect(empty_dsn) as conn:
        conn.execute("""
            INSERT INTO public.table_snapshot (table_id, branch, snapshot_id, snapshot_uuid, body, published)
            SELECT table_id, branch, snapshot_id + 9, 'theirs', body, false FROM public.table_snapshot WHERE snapshot_id = 1
        """)
        query = "SELECT snapshot_id, now() - decided_at < interval '1 minute' FROM public.table_snapshot ORDER BY snapshot_id"
        assert conn.execute(query).fetchall() == [(1, None), (2, None), (10, True)]


def test_who_held_update_holds_delete_as_well_after_the_upgrade(empty_dsn: str, tmp_path: Path) -> None:
    """UPDATE covered both until revision 0016: nobody may do less than before, nobody more, nor for longer."""
    opened(empty_dsn, "0015", tmp_path / "warehouse")
    add = """
        INSERT INTO public.access_grant (resource_type, database, table_id, object, access, principal, expires_at)
        VALUES ('TABLE', NULL, (SELECT table_id FROM public.sluice_table), NULL, 'UPDATE', 'ada', '9999-01-31Z'),
               ('DATABASE_ALL', 'default', NULL, NULL, 'UPDATE', 'analysts', NULL),
               ('TABLE', NULL, (SELECT table_id FROM public.sluice_table), NULL, 'SELECT', 'bob', NULL),
               ('TABLE', NULL, (SELECT table_id FROM public.sluice_table), NULL, 'UPDATE', 'late', '2020-01-01Z')
    """
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("SET search_path = public")
        conn.execute(add)
    upgrade(empty_dsn)
    before = held(empty_dsn, tmp_path / "warehouse")
    at_an_end = dt.datetime(9999, 1, 31, tzinfo=dt.UTC)
    assert before == {
        ("ada", Access.UPDATE, "TABLE", "default", "t", at_an_end),
        ("ada", Access.DELETE, "TABLE", "default", "t", at_an_end),
        ("analysts", Access.UPDATE, "DATABASE_ALL", "default", None, None),
        ("analysts", Access.DELETE, "DATABASE_ALL", "default", None, None),
        ("bob", Access.SELECT, "TABLE", "default", "t", None),
    }
    downgrade(empty_dsn, "0015")
    upgrade(empty_dsn)
    assert held(empty_dsn, tmp_path / "warehouse") == before


def held(dsn: str, warehouse: Path) -> set[tuple[object, ...]]:
    """Who may do what on what, and until when, as the access of a catalog tells it."""
    catalog = CatalogStore(dsn, max_connections=2)
    lake = Lake(catalog, str(warehouse))
    with catalog.reading() as tx:
        grants = tx.grants.all()
    lake.close()
    catalog.close()
    found: set[tuple[object, ...]] = set()
    for grant in grants:
        what = grant.resource
        found.add((grant.principal, grant.access, what.type.value, what.database, what.name, grant.expires_at))
    return found


def test_a_newer_schema_is_refused_and_left_alone(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerSchema, match="9999"):
        upgrade(dsn)
