"""Tables written past the catalog: registered where the foreign commits go on from ours, set aside where they contradict them."""

from __future__ import annotations

import contextlib
import errno
import json
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from catalog import CatalogStore
from catalog.objects.directories import DirectoryRepository
from catalog.objects.tables import TableRepository
from lake import Lake, LakeTable
from lake.rewrite.orphans import remove_orphan_files
from model.errors import TableDamaged, TableDiverged, Unavailable
from model.schema.change import SetOption
from model.snapshot import Snapshot
from table.format.io.file_io import LocalFileIO
from table.format.schema_file import schema_bytes
from table.write.snapshot_builder import build_snapshot
from tests.faults.failing_io import FailingFileIO, Faults
from tests.lake.kept import go_on
from tests.lake.register.damage import wait_for_notes
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table
from tests.short import one_in
from tests.waiting import eventually


def write_past(table: LakeTable, name: str) -> None:
    """Commit as a writer does that knows only the files."""
    newest = table.files.latest_on_disk()
    before = table.files.read_snapshot(newest) if newest else None
    made = build_snapshot(table.files, table.schema, before, [append(name)], uuid=str(uuid4()), time_millis=1)
    with table.files.snapshots() as place:
        table.files.publish_snapshot(made, place)
        table.files.write_hints(made.id, place)


def test_foreign_commits_that_go_on_from_ours_are_adopted(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    lake.commit(table, append("ours"))
    write_past(table, "theirs")
    write_past(table, "theirs too")
    with pytest.raises(TableDiverged):
        lake.commit(table, append("b"))
    assert lake.repair_table(T, dry_run=True).registered == (2, 3)
    assert names(table) == ["ours"]
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((2, 3), ())
    lake.commit(table, append("b"))
    assert names(table) == ["ours", "theirs", "theirs too", "b"]
    assert (warehouse / "default.db/t/snapshot/LATEST").read_text() == "4"


def test_the_way_out_names_the_branch_that_was_written_past(lake: Lake, table: LakeTable) -> None:
    """Commits to all of the table stop, and a repair of main alone changes nothing."""
    lake.commit(table, append("ours"))
    lake.branches.create(table, "b")
    branch = lake.open(replace(T, branch="b"))
    lake.commit(branch, append("ours too"))
    write_past(branch, "theirs")
    with pytest.raises(TableDiverged, match=r"repair_table\('default.t\$branch_b'"):
        lake.commit(branch, append("b"))
    with pytest.raises(TableDiverged, match=r"repair_table\('default.t\$branch_b'"):
        lake.commit(table, append("b"))
    lake.standing.look_around(tables=None)
    (trouble,) = lake.standing.troubles()
    assert trouble.statement == "CALL sys.repair_table('default.t$branch_b')"
    assert lake.repair_table(replace(T, branch="b")).registered
    lake.commit(table, append("b"))


def test_a_repair_of_a_branch_leaves_the_mark_of_main(catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path) -> None:
    """A foreign file of a schema is looked for once: without its mark nobody would find it again."""
    lake.commit(table, append("ours"))
    lake.branches.create(table, "b")
    branch = lake.open(replace(T, branch="b"))
    lake.commit(branch, append("ours too"))

    def overtaken(step: str) -> None:
        if step == "schema decided":
            (warehouse / "default.db/t/schema/schema-1").write_bytes(schema_bytes(replace(table.schema, id=1, time_millis=1).to_json()))

    slow = Lake(catalog, str(warehouse), hook=overtaken)
    slow.alter_table(T, [SetOption(key="consumer.expiration-time", value="1 d")])
    slow.close()
    write_past(branch, "theirs")
    with pytest.raises(TableDiverged, match="schema-1"):
        lake.commit(lake.open(T), append("b"))
    lake.standing.look_around(tables=None)
    assert [trouble.table for trouble in lake.standing.troubles()] == [T]
    assert lake.repair_table(replace(T, branch="b")).registered
    with pytest.raises(TableDiverged, match="schema-1"):
        lake.commit(lake.open(T), append("b"))
    assert lake.repair_table(T).rewritten
    lake.commit(lake.open(T), append("b"))


def test_what_another_branch_has_is_marked_when_one_is_repaired(lake: Lake, table: LakeTable) -> None:
    lake.commit(table, append("ours"))
    lake.branches.create(table, "b")
    branch = lake.open(replace(T, branch="b"))
    lake.commit(branch, append("ours too"))
    write_past(branch, "theirs")
    write_past(table, "theirs, too")
    with pytest.raises(TableDiverged, match=r"repair_table\('default.t', true"):
        lake.commit(table, append("b"))
    lake.repair_table(T)
    with pytest.raises(TableDiverged, match=r"repair_table\('default.t\$branch_b', true"):
        lake.commit(table, append("b"))
    lake.repair_table(replace(T, branch="b"))
    lake.commit(table, append("b"))


def test_a_table_that_is_ahead_is_not_altered(lake: Lake, table: LakeTable) -> None:
    """Its later snapshots may have a schema of the version that an ALTER takes: a repair registers them and could not read their rows."""
    lake.commit(table, append("ours"))
    write_past(table, "theirs")
    with pytest.raises(TableDiverged):
        lake.alter_table(T, [SetOption(key="target-file-size", value="1 mb")])
    lake.repair_table(T)
    assert lake.alter_table(T, [SetOption(key="target-file-size", value="1 mb")]).id == 1


def test_another_tables_directory_is_not_adopted(lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path) -> None:
    """Its rows would stand under this table's name, and whoever may read this one would read them."""
    other = replace(T, table="u")
    lake.create_table(other, table.schema)
    lake.commit(table, append("ours"))
    for name in ("theirs", "theirs too"):
        lake.commit(lake.open(other), append(name))
    root = warehouse / "default.db"

    def exchange() -> None:
        for name, to in (("t", "x"), ("u", "t"), ("x", "u")):
            (root / name).rename(root / to)

    exchange()
    fresh = Lake(catalog, str(warehouse))
    for dry_run in (True, False):
        for identifier, theirs in ((T, "default.u"), (other, "default.t")):
            with pytest.raises(TableDamaged, match=f"the snapshots of table {theirs} and none of its own"):
                fresh.repair_table(identifier, dry_run=dry_run)
    exchange()
    fresh = Lake(catalog, str(warehouse))
    assert (names(fresh.open(T)), names(fresh.open(other))) == (["ours"], ["theirs", "theirs too"])
    fresh.commit(fresh.open(T), append("b"))


def test_a_table_first_written_past_the_catalog_is_adopted(lake: Lake, table: LakeTable) -> None:
    write_past(table, "theirs")
    assert lake.repair_table(T).registered == (1,)
    assert names(table) == ["theirs"]


@pytest.mark.parametrize("text", ["{}", "[]", "not JSON"])
def test_what_is_no_snapshot_is_set_aside(lake: Lake, table: LakeTable, warehouse: Path, text: str) -> None:
    lake.commit(table, append("ours"))
    snapshot_file(warehouse, 2).write_text(text)
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((), (2,))
    assert Path(done.directory, "snapshot-2").read_text() == text
    lake.commit(table, append("b"))
    assert names(table) == ["ours", "b"]


def test_a_history_that_is_not_ours_is_set_aside(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    lake.commit(table, append("ours"))
    write_past(table, "theirs")
    body = json.loads(snapshot_file(warehouse, 2).read_text())
    snapshot_file(warehouse, 2).write_text(json.dumps(body | {"baseManifestList": body["deltaManifestList"]}))
    assert lake.repair_table(T).set_aside == (2,)
    assert names(table) == ["ours"]


@pytest.mark.parametrize("garbage", [True, False])
def test_a_foreign_file_after_the_decision_stops_later_commits_until_repaired(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, garbage: bool
) -> None:
    def overtaken(step: str) -> None:
        if step == "decided" and garbage:
            snapshot_file(warehouse, 1).parent.mkdir(parents=True, exist_ok=True)
            snapshot_file(warehouse, 1).write_text("{}")
        elif step == "decided":
            write_past(table, "theirs")

    slow = Lake(catalog, str(warehouse), hook=overtaken)
    slow.commit(table, append("ours"))
    slow.close()
    with pytest.raises(TableDiverged):
        lake.commit(table, append("b"))
    assert names(table) == ["ours"]
    assert lake.repair_table(T).set_aside == (1,)
    assert json.loads(snapshot_file(warehouse, 1).read_text())["uuid"]
    lake.commit(table, append("b"))
    assert names(lake.open(T)) == ["ours", "b"]


def test_a_whole_table_needs_no_repair(lake: Lake, table: LakeTable) -> None:
    lake.commit(table, append("a"))
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((), ())


def test_what_is_set_aside_is_on_disk_before_the_repair_is_on_record(
    lake: Lake, table: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut that brought it back would make the table diverged, with nothing on record."""
    lake.commit(table, append("ours"))
    snapshot_file(warehouse, 2).write_text("{}")
    steps = flushes(monkeypatch)
    done = lake.repair_table(T)
    assert done.set_aside == (2,)
    recorded = steps.index("clear_diverged")
    for directory in (str(warehouse / "default.db/t/snapshot"), done.directory):
        assert directory in steps[:recorded]


def test_a_branchs_new_name_is_on_disk_before_the_old_one_is_off_the_record(
    lake: Lake, table: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(table, append("ours"))
    lake.branches.create(table, "b")
    lake.commit(lake.open(replace(T, branch="b")), append("ours too"))
    steps = flushes(monkeypatch)
    lake.branches.rename(table, "b", "c")
    assert (warehouse / "default.db/t/branch/branch-c").is_dir()
    assert str(warehouse / "default.db/t/branch") in steps[: steps.index("directory_removed")]


def flushes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed from here on, and what of the catalog's records is changed in between, in this order."""
    steps: list[str] = []
    sync = LocalFileIO.sync

    def flushed(io: LocalFileIO, paths: Collection[str]) -> None:
        sync(io, paths)
        steps.extend(paths)

    def recorded(repository: type, name: str) -> None:
        change = getattr(repository, name)

        def done(*arguments: object) -> object:
            steps.append(name)
            return change(*arguments)

        monkeypatch.setattr(repository, name, done)

    monkeypatch.setattr(LocalFileIO, "sync", flushed)
    recorded(TableRepository, "clear_diverged")
    recorded(DirectoryRepository, "directory_removed")
    return steps


def write_beside(table: LakeTable, name: str, *, at: int = 3) -> Snapshot:
    """Commit as a writer does that decided another snapshot in the place of the catalog's, on nothing of what is there."""
    made = replace(build_snapshot(table.files, table.schema, None, [append(name)], uuid=str(uuid4()), time_millis=1), id=at)
    with table.files.snapshots() as place:
        table.files.publish_snapshot(made, place)
        table.files.write_hints(made.id, place)
    for entry in table.files.live_entries(made):
        table.files.io.write(table.files.data_path(table.schema, entry), b"rows")
    return made


CALLS = 80
"""More than such a repair makes to its files."""


def gone_at_the_end(*_: object) -> None:
    raise Unavailable("Postgres went away.")


@pytest.mark.parametrize("cut_off", one_in(4, ["Postgres", *range(1, CALLS + 1)]))
def test_what_is_set_aside_stays_readable_wherever_a_repair_is_cut_off(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch, cut_off: int | str
) -> None:
    """Its file was moved, and the tag that keeps its rows rolled back: the next repair knew of nothing, and its rows were orphans."""
    lake.commit(table, append("ours"))
    lake.commit(table, append("ours too"))
    theirs = write_beside(table, "theirs")
    faults = Faults()
    dying = Lake(catalog, str(warehouse), file_io=FailingFileIO(faults))
    with monkeypatch.context() as patch, contextlib.suppress(Unavailable):
        if isinstance(cut_off, int):
            faults.arm(cut_off, errno.EIO)
        else:
            patch.setattr(TableRepository, "clear_diverged", gone_at_the_end)
        dying.repair_table(T)
    assert cut_off != CALLS or not faults.faults, "there are more calls to cut off"
    dying.close()
    lake.recover()
    lake.repair_table(T)
    (kept,) = lake.tags.all(lake.open(T))
    assert (kept.name, kept.snapshot["uuid"]) == ("before-repair-3", theirs.uuid)
    remove_orphans(lake)
    for entry in table.files.live_entries(theirs):
        assert table.files.io.exists(table.files.data_path(table.schema, entry))
    assert names(lake.open(T)) == ["ours", "ours too"]
    lake.commit(table, append("b"))
    assert names(lake.open(T)) == ["ours", "ours too", "b"]


def remove_orphans(lake: Lake) -> None:
    time.sleep(0.002)  # files of this very millisecond are not older than it
    remove_orphan_files(lake, lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=go_on)


def test_what_lies_in_the_place_of_a_snapshot_stays_readable(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    """Ours came back there, and no tag kept the rows of the other."""
    for name in ("a", "b", "c"):
        lake.commit(table, append(name))
    wait_for_notes(lake)
    snapshot_file(warehouse, 2).unlink()
    theirs = write_beside(table, "theirs", at=2)
    (warehouse / "default.db/t/snapshot/LATEST").write_text("3")
    assert lake.repair_table(T).kept == (("before-repair-2", 2),)
    remove_orphans(lake)
    for entry in table.files.live_entries(theirs):
        assert table.files.io.exists(table.files.data_path(table.schema, entry))
    ours = lake.history.version(lake.open(T), "2")
    assert eventually(lambda: table.files.read_snapshot(2) == ours), "whoever writes files of the table now does it"
    assert lake.repair_table(T).kept == ()
    lake.commit(table, append("d"))
    assert names(lake.open(T)) == ["a", "b", "c", "d"]
