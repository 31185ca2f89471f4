"""A Postgres schema that the catalog shares with somebody else: backup and restore touch nothing of theirs."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import psycopg
import pytest

from catalog.backup.archive import ArchivedTable, contents, write_archive
from catalog.backup.own_objects import TABLES, own_objects
from migrations import upgrade
from model.errors import IllegalMove
from server.commands.backup import backup
from server.commands.restore import restore
from server.settings.settings import Settings, read_settings

Of = Callable[[str], Settings]
_OTHERS = (
    "CREATE TABLE invoices (id INT PRIMARY KEY)", "INSERT INTO invoices VALUES (1), (2)", "CREATE EXTENSION IF NOT EXISTS btree_gin",
    "CREATE SEQUENCE invoice_number", "CREATE VIEW large_invoices AS SELECT id FROM invoices WHERE id > 1",
    "CREATE FUNCTION nothing() RETURNS int LANGUAGE sql AS 'SELECT 0'",
)  # fmt: skip


@pytest.fixture
def of(tmp_path: Path) -> Of:
    base = {"SLUICE_DATA": str(tmp_path / "none"), "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    return lambda dsn: read_settings(base | {"SLUICE_CATALOG_DSN": dsn})


def run(dsn: str, *texts: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for text in texts:
            try:
                conn.execute(text)
            except psycopg.errors.FeatureNotSupported:  # an extension this Postgres does not bring
                assert "EXTENSION" in text


def theirs(dsn: str) -> list[tuple[object, ...]]:
    query = """
        SELECT (SELECT count(*) FROM public.invoices), (SELECT count(*) FROM public.large_invoices), public.nothing(),
               to_regclass('public.invoice_number') IS NOT NULL,
               (SELECT array_agg(extname || extnamespace::regnamespace ORDER BY extname) FROM pg_extension)
    """
    with psycopg.connect(dsn) as conn:
        return conn.execute(query).fetchall()


def test_what_every_revision_makes_is_known_as_the_catalogs(empty_dsn: str) -> None:
    versions = Path(__file__).parents[3] / "migrations/versions"
    text = "".join(file.read_text() for file in versions.glob("*.py"))
    assert set(re.findall(r'create_table\(\s*"(\w+)"', text)) <= TABLES
    upgrade(empty_dsn)
    with psycopg.connect(empty_dsn) as conn:
        own = {(one.kind, one.name) for one in own_objects(conn, "public")}
        conn.execute("""
            DO $$ DECLARE one record; BEGIN
                FOR one IN SELECT oid::regclass AS name, relkind FROM pg_class
                           WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
                LOOP
                    EXECUTE format('COMMENT ON %s %s IS NULL', CASE one.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, one.name);
                END LOOP;
                COMMENT ON SEQUENCE server_number IS NULL;
            END $$
        """)
        assert {(one.kind, one.name) for one in own_objects(conn, "public")} == own  # by name alone, as before there were comments
        query = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')"
        assert {name for kind, name in own if kind in ("TABLE", "VIEW")} == {name for (name,) in conn.execute(query)}


@pytest.mark.parametrize("revision", ["head", "0007"])
def test_a_restore_leaves_what_is_not_the_catalogs(of: Of, dsn: str, empty_dsn: str, tmp_path: Path, revision: str) -> None:
    upgrade(empty_dsn, revision)
    run(empty_dsn, *_OTHERS)
    write_archive(empty_dsn, file := tmp_path / "b", warehouse="")
    with tarfile.open(file) as tar:
        assert "invoices.copy" not in tar.getnames()
    assert contents(empty_dsn) == 0
    run(dsn, *_OTHERS, "INSERT INTO invoices VALUES (3)")
    before = theirs(dsn)
    restore(of(dsn), file, replace=True)
    assert theirs(dsn) == before
    upgrade(empty_dsn)
    before = theirs(empty_dsn)
    backup(of(empty_dsn), tmp_path / "c")
    restore(of(empty_dsn), tmp_path / "c", replace=False)
    assert theirs(empty_dsn) == before


@pytest.mark.parametrize("there", [True, False])
def test_what_an_earlier_version_put_into_a_backup_is_left_out(of: Of, dsn: str, empty_dsn: str, tmp_path: Path, there: bool) -> None:
    """Where it has rows already, which would be there twice, or break a key; and where it is not there at all."""
    made = write_archive(dsn, tmp_path / "own", warehouse=str(tmp_path / "warehouse"))
    rows = b"1\n2\n"
    table = ArchivedTable(name="invoices", columns=["id"], rows=2, sha256=hashlib.sha256(rows).hexdigest())
    with tarfile.open(tmp_path / "own") as own, tarfile.open(file := tmp_path / "b", "w:gz") as tar:
        for name in own.getnames():
            body = own.extractfile(name)
            assert body is not None
            text = body.read() if name != "catalog.json" else json.dumps(asdict(replace(made, tables=[table, *made.tables]))).encode()
            add(tar, name, text)
        add(tar, "invoices.copy", rows)
    upgrade(empty_dsn)
    if there:
        run(empty_dsn, *_OTHERS)
        before = theirs(empty_dsn)
    told, differences = restore(of(empty_dsn), file, replace=False)
    assert f": {made.rows} rows" in told
    assert ["table invoices (2 rows)" in one.what for one in differences] == [True]
    if there:
        assert theirs(empty_dsn) == before


def add(tar: tarfile.TarFile, name: str, body: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(body)
    tar.addfile(entry, io.BytesIO(body))


def test_a_reference_to_the_catalog_is_told(of: Of, dsn: str, tmp_path: Path) -> None:
    backup(of(dsn), tmp_path / "b")
    run(dsn, "CREATE TABLE theirs (t uuid REFERENCES table_entry (table_id))")
    with pytest.raises(IllegalMove, match='"theirs" references "table_entry"'):
        restore(of(dsn), tmp_path / "b", replace=True)


def test_what_something_else_needs_stays_aside(of: Of, dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    upgrade(empty_dsn, "0007")
    write_archive(empty_dsn, file := tmp_path / "b", warehouse="")
    run(dsn, "CREATE VIEW how_many AS SELECT count(*) FROM table_entry")
    (told,) = (one.what for one in restore(of(dsn), file, replace=True)[1])
    assert "stands in the schema replaced_" in told
    assert "how_many" in told
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT * FROM how_many").fetchall() == [(0,)]


def test_revisions_of_another_program_are_no_catalog(of: Of, dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    backup(of(dsn), tmp_path / "b")
    run(empty_dsn, "CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('a1b2')")
    with pytest.raises(IllegalMove, match="not Sluice's"):
        restore(of(empty_dsn), tmp_path / "b", replace=True)
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("SELECT * FROM alembic_version").fetchall() == [("a1b2",)]
