"""CREATE OR REPLACE TABLE against disks that fill up and writers that are faster: no snapshot without the schema it is read by."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog import CatalogStore
from catalog.commits.reservations import Client
from lake import Lake, LakeTable
from lake.commit.built import decide_built
from lake.rewrite import replace as replace_module
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.change import AddColumn
from model.schema.schema import Schema, column, new_schema
from model.schema.types import parse_type
from model.snapshot import CommitKind
from table.format.store import Published, TableFiles
from tests.lake.commit.test_faults import T, insert, rows
from tests.waiting import eventually

SCHEMA = new_schema([column("id", "BIGINT")], options={"bucket": "-1"})


def replace(lake: Lake, table: Identifier = T) -> None:
    lake.replace_table(table, SCHEMA)


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, SCHEMA)
    insert(lake, 1)
    insert(lake, 2)
    return lake.open(T)


@pytest.fixture
def other(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()


def without_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full whenever a schema's file is to be written."""

    def full(_: TableFiles, schema: Schema) -> Published:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TableFiles, "write_schema", full)


def orphaned(table: LakeTable) -> list[int]:
    """The published snapshots whose schema has no file."""
    snapshots = [table.files.read_snapshot(number) for number in table.files.snapshot_ids()]
    return [s.id for s in snapshots if s is not None and not Path(table.files.layout.schema_file(s.schema_id)).exists()]


def test_a_replaced_table_has_its_schema_file_before_its_snapshot(
    lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        without_schemas(full)
        replace(lake)
        latest = table.latest()
        assert latest is not None
        assert latest.total_record_count == 0, "it is decided"
        assert orphaned(table) == []
        assert other._publisher.latest(table.table_id, table.files, MAIN_BRANCH) == latest
        assert orphaned(table) == [], "whoever looks next writes it no sooner"
    table.latest()
    assert table.files.read_snapshot(latest.id) == latest, "the next look makes up for both"
    assert orphaned(table) == []


def test_at_no_step_of_a_replacement_a_snapshot_is_without_its_schema(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path
) -> None:
    seen: list[list[int]] = []

    def hook(step: str) -> None:
        if step in ("decided", "schema published", "published"):
            seen.append(orphaned(table))

    looking = Lake(catalog, str(warehouse), hook=hook)
    replace(looking)
    looking.close()
    assert len(seen) >= 3
    assert not any(seen)


def test_main_moved_forward_has_the_branchs_schema_file_before_its_snapshot(
    lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.tags.create(table, "start")
    lake.branches.create(table, "b", from_tag="start")
    branch = Identifier(T.database, T.table, "b")
    lake.alter_table(branch, [AddColumn(name="n", type=parse_type("INT"))])
    replace(lake, branch)
    with monkeypatch.context() as full:
        without_schemas(full)
        lake.branches.fast_forward(table, "b")
        other._publisher.latest(table.table_id, table.files, MAIN_BRANCH)
        assert orphaned(table) == []
    assert lake.open(T).latest() is not None
    assert orphaned(table) == []


def test_a_replacement_waits_for_a_client_for_whom_the_next_decision_is_reserved(
    catalog: CatalogStore, lake: Lake, table: LakeTable
) -> None:
    place = (table.table_id, MAIN_BRANCH)
    with catalog.turn([place], seconds=30) as turn:
        assert turn is not None
        turn.reserve(Client("principal", "client"), 0.5)
    replace(lake)
    with catalog.reading() as tx:
        assert tx.turns.line(*place).reserved_seconds == 0


def test_a_replacement_that_lost_a_race_is_next(lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    check_free = lake._publisher.check_free
    writers: list[threading.Thread] = []

    def beaten(*args: Any) -> None:
        check_free(*args)
        assert len(writers) < 5, "it starves"
        writers.append(threading.Thread(target=insert, args=(other, 10 + len(writers))))
        writers[-1].start()
        writers[-1].join(60 if len(writers) == 1 else 1)  # the first has committed, the next waits for its turn

    monkeypatch.setattr(lake._publisher, "check_free", beaten)
    replace(lake)
    for writer in writers:
        writer.join(120)
    assert len(writers) == 2
    assert rows(lake.open(T)) == [11], "the second INSERT came after it"


def test_a_first_commit_that_is_being_decided_is_waited_for(lake: Lake, other: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table without a snapshot has no pointer to race for: the rows of its first commit would stay in the table that is replaced."""
    lake.create_table(T, SCHEMA)
    halted = 4711
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            f"""
            CREATE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock_shared({halted}); RETURN NEW; END $$;
            CREATE TRIGGER halt AFTER INSERT ON snapshot_pointer FOR EACH ROW EXECUTE FUNCTION halt()
            """
        )
        conn.execute("SELECT pg_advisory_lock(%s)", (halted,))
        writer = threading.Thread(target=insert, args=(other, 1))

        def commit_begins(*args: Any, **more: Any) -> Any:
            found = decide_built(*args, **more)
            if not writer.ident:
                writer.start()
                assert eventually(lambda: waiting(conn) == 1, pause=0.01)
                threading.Timer(1, lambda: conn.execute("SELECT pg_advisory_unlock(%s)", (halted,))).start()
            return found

        monkeypatch.setattr(replace_module, "decide_built", commit_begins)
        replace(lake)
        writer.join()
    latest = lake.open(T).latest()
    assert latest is not None
    assert (latest.id, latest.commit_kind, latest.total_record_count) == (2, CommitKind.OVERWRITE, 0)


def waiting(conn: psycopg.Connection[Any]) -> int:
    """How many wait for an advisory lock of this database."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
    found = conn.execute(query).fetchone()
    assert found is not None
    return int(found[0])
