"""A catalog of each revision there has been, with data: opened, brought up to date, and used."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from lake import Lake, Replay
from migrations import NewerSchema, _followed, newest, upgrade
from model.errors import IdempotencyMismatch
from model.identifier import Identifier
from tests.migrations.make_dumps import DUMPS, PLACE, WAREHOUSE, append

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
    """The newest may be: all other tests use it."""
    assert {file.stem for file in DUMPS.glob("*.sql")} >= set(_followed()) - {newest()}, "run python -m tests.migrations.make_dumps DSN"


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


def test_a_newer_schema_is_refused_and_left_alone(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerSchema, match="9999"):
        upgrade(dsn)
