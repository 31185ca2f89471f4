"""Snapshots and tags of earlier versions are written again once, whenever that is killed, and never read as somebody else's."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lake import Lake, LakeTable
from lake.register import upgrade
from lake.register.upgrade import in_background, upgrade_operations
from lake.rewrite.compaction import compact, plan
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots, rollback, tags_of
from model.errors import Unavailable
from model.identifier import Identifier
from model.snapshot import OPERATION, Operation, Snapshot
from tests.interop.strict import check_warehouse
from tests.lake.kept import history, keep
from tests.lake.rewrite.test_compaction import QUEUE, append, ids
from tests.maintenance.test_coordinator import until
from tests.sql.tables import make_table

T = Identifier("default", "t")
_UPGRADING = """
import os, signal, sys
from catalog import CatalogStore
from lake import Lake
from lake.register.upgrade import upgrade_operations

dsn, warehouse, step, count = sys.argv[1:]
left = int(count)
def hook(name):
    global left
    if name == step:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
upgrade_operations(Lake(CatalogStore(dsn), warehouse, hook=hook))
"""


@pytest.fixture
def old(lake: Lake, dsn: str, warehouse: Path) -> LakeTable:
    """A table as version 0.1 left it: four compactions in main and a branch, two tags of them."""
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(12):
        append(lake, table, [n])
        if n % 3 == 2:
            compact(lake.commit, table, plan(table, full=True))
    create_tag(lake, table, "three", snapshot_id=4)
    create_tag(lake, table, "newest")
    lake.branches.create(table, "b", from_tag="three")
    lake.open(Identifier("default", "t", "b")).latest()  # which puts its files there
    lake._publisher.close()
    aged(warehouse, dsn)
    return lake.open(T)


def aged(warehouse: Path, dsn: str) -> None:
    """Spell operations as version 0.1 did, in the files and in Postgres."""
    for path in (*warehouse.rglob("snapshot-*"), *warehouse.rglob("tag-*")):
        path.write_text(json.dumps(older(json.loads(path.read_text()))))
    with psycopg.connect(dsn) as conn:
        for table, column in (("table_snapshot", "body"), ("table_tag", "snapshot")):
            conn.execute(
                f"UPDATE {table} SET {column} = ({column} - 'properties') || jsonb_build_object('operation', {column} #>> '{{properties,"
                f"{OPERATION}}}') WHERE {column} #>> '{{properties,{OPERATION}}}' IS NOT NULL"
            )


def older(body: dict[str, Any]) -> dict[str, Any]:
    word = body.get("properties", {}).get(OPERATION)
    return body if word is None else {**{k: v for k, v in body.items() if k != "properties"}, "operation": word}


def spelled(dsn: str, *tables: str) -> set[str | None]:
    """The operations that Postgres holds."""
    queries = {
        "table_snapshot": "SELECT body ->> 'operation' FROM table_snapshot",
        "table_tag": "SELECT snapshot ->> 'operation' FROM table_tag",
    }
    with psycopg.connect(dsn) as conn:
        query = " UNION ".join(queries[table] for table in tables or queries)
        return {word for (word,) in conn.execute(query)}


def test_what_commits_do_is_told_in_words_of_paimon(lake: Lake, warehouse: Path) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(3):
        append(lake, table, [n])
    compact(lake.commit, table, plan(table, full=True))
    latest = table.latest()
    assert latest is not None
    assert (latest.operation, latest.done, latest.properties) == (None, "COMPACT", {OPERATION: "COMPACT"})
    check_warehouse(warehouse)


def test_an_older_spelling_fails_the_strict_reader(old: LakeTable, warehouse: Path) -> None:
    with pytest.raises(AssertionError, match="operation = 'COMPACT'"):
        check_warehouse(warehouse)


def test_old_files_are_written_again(lake: Lake, old: LakeTable, dsn: str, warehouse: Path) -> None:
    before = lake.snapshots(old)
    assert [s.done for s in before] == [None, None, None, "COMPACT"] * 4  # read as if it were done
    assert upgrade_operations(lake) == 4 + 2 + 1 + 1  # main's, its tags, the branch's, its tag
    assert spelled(dsn) == {None}
    counts = check_warehouse(warehouse)
    assert (counts["snapshot"], counts["tag"], counts["branch"]) == (16, 2, 3)
    assert lake.snapshots(old) == before
    assert [old.files.read_snapshot(s.id) for s in before] == before
    assert upgrade_operations(lake) == 0
    append(lake, old, [12])
    assert ids(old) == list(range(13))


@pytest.mark.parametrize(("step", "count"), [("operation rewritten", 1), ("operation rewritten", 3), ("tag's operation rewritten", 2)])
def test_killed_while_files_are_written_again(lake: Lake, old: LakeTable, dsn: str, warehouse: Path, step: str, count: int) -> None:
    command = [sys.executable, "-c", _UPGRADING, dsn, str(warehouse), step, str(count)]
    ended = subprocess.run(command, timeout=300, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert "COMPACT" in spelled(dsn)  # files are ahead of their rows, which is no divergence:
    append(lake, old, [12])
    opened = lake.open(T)
    assert ids(opened) == list(range(13))
    assert [tag.name for tag in tags_of(lake, opened)] == ["newest", "three"]
    delete_tag(lake, opened, "three")
    lake.recover()
    assert spelled(dsn) == {None}
    check_warehouse(warehouse)
    assert not lake.repair_table(T, dry_run=True).set_aside


def test_a_server_writes_them_again_while_it_answers(lake: Lake, old: LakeTable, dsn: str, warehouse: Path) -> None:
    """Also where the warehouse is away at first."""
    tag = Path(old.location) / "tag"
    tag.rename(tag.with_name("tag-away"))
    tag.write_text("no directory")
    stop = in_background(lake, pause=0.05)
    until(lambda: spelled(dsn, "table_snapshot") == {None})
    tag.unlink()
    tag.with_name("tag-away").rename(tag)
    until(lambda: spelled(dsn) == {None})
    stop.set()
    check_warehouse(warehouse)


def test_a_table_that_was_dropped_meanwhile_is_written_again_when_it_is_brought_back(
    lake: Lake, old: LakeTable, dsn: str, warehouse: Path
) -> None:
    lake.drop_retention = dt.timedelta(days=1)
    lake.drop_table(T)
    assert upgrade_operations(lake) == 0
    lake.undrop_table(T)
    assert spelled(dsn) == {None}
    check_warehouse(warehouse)


def test_a_table_that_is_renamed_meanwhile_is_written_again_in_the_next_round(
    lake: Lake, old: LakeTable, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = lake.open_any

    def renamed(table: Identifier) -> LakeTable:
        monkeypatch.setattr(lake, "open_any", opened)
        lake.rename_table(T, Identifier("default", "elsewhere"))
        return opened(table)

    monkeypatch.setattr(lake, "open_any", renamed)
    stop = in_background(lake, pause=0.05)
    until(lambda: spelled(dsn) == {None})
    stop.set()


def test_a_place_that_cannot_be_cleared_keeps_no_table_from_it(
    lake: Lake, old: LakeTable, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Lake) -> None:
        raise Unavailable("The directory is another user's.")

    monkeypatch.setattr(upgrade, "remove_schema_files", refused)
    stop = in_background(lake, pause=0.05)
    until(lambda: spelled(dsn) == {None})
    stop.set()


def test_what_expired_or_was_rolled_back_does_not_come_back(lake: Lake, old: LakeTable, warehouse: Path) -> None:
    expire_snapshots(lake, old, keep(3))
    rollback(lake, old, next(s for s in lake.snapshots(old) if s.id == 14))
    upgrade_operations(lake)
    assert history(lake, old) == old.files.snapshot_ids() == [14]
    check_warehouse(warehouse)


def test_a_branch_that_is_half_done_goes_forward(lake: Lake, old: LakeTable, dsn: str, warehouse: Path) -> None:
    with psycopg.connect(dsn) as conn:  # main's rows are done, the branch's are not
        conn.execute("UPDATE table_snapshot SET body = body - 'operation' WHERE branch = 'main'")
    lake.branches.fast_forward(old, "b")
    upgrade_operations(lake)
    assert ids(lake.open(T)) == [0, 1, 2]
    check_warehouse(warehouse)


def test_a_registered_table_of_an_earlier_version_is_written_again(lake: Lake, old: LakeTable, dsn: str, warehouse: Path) -> None:
    """Also a tag that a client made of such a snapshot, which no catalog knows yet."""
    with psycopg.connect(dsn) as conn:
        conn.execute("DELETE FROM sluice_table")
    registered = Identifier("default", "again")
    lake.register_table(registered, old.location)
    tags_of(lake, lake.open(registered))
    tags_of(lake, lake.open(Identifier("default", "again", "b")))
    check_warehouse(warehouse)
    assert ids(lake.open(registered)) == list(range(12))


def test_a_word_of_another_catalog_is_kept_as_a_property() -> None:
    """Clients' own words are stored as they are where Paimon has them; any other would lock readers out."""
    body: dict[str, Any] = {
        "version": 3, "id": 1, "schemaId": 0, "baseManifestList": "a", "deltaManifestList": "b", "commitUser": "u", "commitIdentifier": 1,
        "commitKind": "APPEND", "timeMillis": 1, "totalRecordCount": 0, "deltaRecordCount": 0,
    }  # fmt: skip
    for word in Operation:
        assert Snapshot.from_json({**body, "operation": word.value}).to_json()["operation"] == word
    told = Snapshot.from_json({**body, "operation": "VACUUM", "properties": {"k": "v"}}).to_json()
    assert "operation" not in told
    assert told["properties"] == {"k": "v", OPERATION: "VACUUM"}


def test_a_table_is_registered_though_its_old_operations_cannot_be_written_again(
    lake: Lake, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decided by then."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("lake.register.register", "lake.register.repair"):
        monkeypatch.setattr(f"{name}.rewrite_operations", full)
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    place = shutil.copytree(table.location, warehouse / "outside" / "u")
    registered = Identifier("default", "u")
    lake.register_table(registered, str(place))
    assert lake.open(registered).latest() is not None
    lake.branches.create(lake.open(registered), "b")
    branch = lake.open(Identifier("default", "u", "b"))
    append(lake, branch, [2])
    lake._publisher.close()
    with lake.catalog.transaction() as tx:
        tx.branches.drop(branch.table_id, "b")
    assert lake.repair_table(registered).branches == ("b",)
