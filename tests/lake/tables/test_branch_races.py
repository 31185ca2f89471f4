"""Branches that are dropped, renamed and gone forward to while others write to them."""

from __future__ import annotations

import contextlib
import copy
import logging
import shutil
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog import CatalogStore
from catalog.objects.branches import BranchRepository
from catalog.objects.directories import DirectoryRepository
from lake import Lake
from lake.commit.decided import follow
from lake.register.unknown_branches import unknown_branches
from lake.register.whole import require_whole
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots, rename_tag, replace_tag, rollback, tags_of
from lake.rewrite.orphans import remove_orphan_files
from lake.tables.tags import Tags
from model.catalog_errors import BranchNotExist, ChangedMeanwhile
from model.errors import LakeError, TableNotExist
from model.identifier import Identifier
from model.schema.change import AddColumn
from model.schema.types import IntType
from model.snapshot import CommitKind
from table.retention.expiry import ExpiryRules
from table.write.snapshot_builder import everything
from tests.lake.rewrite.test_compaction import QUEUE, append, ids
from tests.sql.tables import make_table

T = Identifier("default", "t")
EVERYTHING = ExpiryRules(at_least=1, at_most=1, retained=timedelta(0), per_run=None)
B = Identifier("default", "t", "b")


@pytest.mark.parametrize("how", ["drop", "rename"])
def test_a_commit_that_waits_for_the_end_of_its_branch_is_none(lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It looked at the branch before that was gone, and waited for the table's row: it landed on a branch that was not there."""
    table = make_table(lake, options=QUEUE, id="INT")
    lake.branches.create(table, "b")
    branch = lake.open(B)
    append(lake, branch, [1])
    outcome: list[BaseException | None] = []

    def late() -> None:
        try:
            append(lake, branch, [2])
        except LakeError as problem:
            outcome.append(problem)
        else:
            outcome.append(None)

    thread = threading.Thread(target=late)
    ending = getattr(BranchRepository, how)

    def while_one_commits(self: BranchRepository, *wanted: Any, **more: Any) -> Any:
        ended = ending(self, *wanted, **more)
        thread.start()
        time.sleep(0.5)  # it is at the table's row by now
        return ended

    monkeypatch.setattr(BranchRepository, how, while_one_commits)
    if how == "drop":
        lake.branches.drop(table, ["b"])
    else:
        lake.branches.rename(table, "b", "c")
    monkeypatch.undo()
    thread.join()
    assert isinstance(outcome[0], TableNotExist)
    assert not (Path(table.location.removeprefix("file://")) / "branch" / "branch-b").exists()
    lake.branches.create(lake.open(T), "b")
    assert ids(lake.open(B)) == []
    append(lake, lake.open(B), [3])
    assert ids(lake.open(B)) == [3]
    assert ids(lake.open(Identifier("default", "t", "c"))) == [1] if how == "rename" else True


def test_a_tag_that_waits_for_the_end_of_its_branch_is_none(lake: Lake) -> None:
    """It looked at the branch before that was gone: the branch had a tag that nobody saw and the next of that name could not be made."""
    table = make_table(lake, options=QUEUE, id="INT")
    for name in ("b", "c"):
        lake.branches.create(table, name)
        append(lake, lake.open(Identifier("default", "t", name)), [1])
    create_tag(lake, lake.open(Identifier("default", "t", "c")), "one")
    late = lake.open(B)
    late.latest()
    lake.branches.drop(table, ["b"])
    with pytest.raises(TableNotExist):
        create_tag(lake, late, "one")
    with pytest.raises(BranchNotExist):
        lake.branches.rename(table, "b", "c")
    lake.branches.rename(table, "c", "b")
    assert [tag.name for tag in lake.tags.all(lake.open(B))] == ["one"]


@pytest.mark.parametrize("meanwhile", ["renamed", "dropped"])
def test_a_rename_that_is_slow_moves_nothing_to_a_name_that_is_no_branchs(
    lake: Lake, catalog: CatalogStore, warehouse: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Its directory would lie there on no record, and what it names would never go."""
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "one")
    lake.branches.create(table, "b", from_tag="one")
    lake.reset_consumer(lake.open(B), "me", 2)

    def late(*asked: Any) -> bool:
        monkeypatch.undo()
        with contextlib.closing(Lake(catalog, str(warehouse))) as other:
            if meanwhile == "renamed":
                other.branches.rename(other.open(T), "c", "d")
            else:
                other.branches.drop(other.open(T), ["c"])
        return follow(*asked)

    monkeypatch.setattr("lake.tables.branches.follow", late)
    lake.branches.rename(table, "b", "c")
    there = [place.name for place in Path(f"{table.location.removeprefix('file://')}/branch").iterdir()]
    assert there == (["branch-d"] if meanwhile == "renamed" else [])
    for name in lake.branches.names(table):
        renamed = lake.open(replace(T, branch=name))
        assert lake.consumers(renamed) == {"me": 2}
        assert ids(renamed) == [1]
    lake.branches.create(table, "c")
    with catalog.reading() as tx:
        assert tx.directories.dropped_directories() == []


def test_what_main_took_away_on_another_way_stays_the_branch_s(lake: Lake) -> None:
    """Expiry goes by what each snapshot took away; main had taken away files that the branch still has."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(4):
        append(lake, table, [number])
    create_tag(lake, table, "four")
    lake.branches.create(table, "b", from_tag="four")
    lake.history.rollback_to_snapshot(table, 2)
    overwrite(lake)
    lake.branches.fast_forward(lake.open(T), "b")
    lake.branches.drop(lake.open(T), ["b"])
    delete_tag(lake, lake.open(T), "four")
    for number in range(4, 7):
        append(lake, lake.open(T), [number])
    assert ids(lake.open(T)) == list(range(7))
    expire_snapshots(lake, lake.open(T), EVERYTHING, now_millis=2**45)
    assert ids(lake.open(T)) == list(range(7))


def test_a_rollback_that_is_slow_to_clean_up_takes_nothing_that_is_back(lake: Lake, catalog: CatalogStore, warehouse: Path) -> None:
    """Main goes forward to what was rolled back before the files of that are looked for."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(4):
        append(lake, table, [number])
    create_tag(lake, table, "four")
    lake.branches.create(table, "b", from_tag="four")
    to = lake.snapshots(table)[1]

    def beside(step: str) -> None:
        if step == "rolled back":
            lake.branches.fast_forward(lake.open(T), "b")
            lake.branches.drop(lake.open(T), ["b"])

    slow = Lake(catalog, str(warehouse), hook=beside)
    rollback(slow, slow.open(T), to)
    slow.close()
    assert ids(lake.open(T)) == [0, 1, 2, 3]
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["four"]


@pytest.mark.parametrize("how", ["rollback", "orphans"])
def test_what_a_branch_keeps_is_seen_while_it_is_renamed(lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Clean-up asks for the branches, then for the snapshots of each: the name it was told had none any more."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(4):
        append(lake, table, [number])
    create_tag(lake, table, "four")
    lake.branches.create(table, "b", from_tag="four")
    if how == "orphans":  # else main has the files, too
        lake.history.rollback_to_snapshot(table, 2)
    names = BranchRepository.names
    renamed: list[str] = []

    def then_renamed(self: BranchRepository, table_id: Any) -> list[str]:
        told = names(self, table_id)
        asked, who = sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name
        if not renamed and asked == "known_lines" and who in ("_kept_elsewhere", "_known"):
            renamed.append("c")
            lake.branches.rename(lake.open(T), "b", "c")
        return told

    monkeypatch.setattr(BranchRepository, "names", then_renamed)
    if how == "rollback":
        rollback(lake, lake.open(T), lake.snapshots(table)[1])
    else:
        time.sleep(0.01)
        remove_orphan_files(lake, lake.open(T), older_than_millis=int(time.time() * 1000), check=lambda: None)
    assert renamed
    assert ids(lake.open(T)) == [0, 1]
    assert ids(lake.open(Identifier("default", "t", "c"))) == [0, 1, 2, 3]


def test_a_branch_that_is_renamed_while_it_is_looked_for_is_none_unknown(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    lake.branches.create(table, "b")
    append(lake, lake.open(B), [1])
    directory = Path(lake.open(B).files.layout.branch_dir.removeprefix("file://"))
    moved = directory.with_name("branch-c")
    asked = DirectoryRepository.is_discarded

    def late(self: DirectoryRepository, location: str) -> bool:
        if location.endswith("branch-c"):
            shutil.rmtree(moved)  # it was on the record, and is removed and off it now
        return asked(self, location)

    shutil.copytree(directory, moved)
    monkeypatch.setattr(DirectoryRepository, "is_discarded", late)
    with lake.catalog.reading() as tx:
        assert unknown_branches(tx, table.files.io, table.table_id, table.location) == []


def test_versions_that_main_lost_come_back_with_the_branch_that_has_them(lake: Lake) -> None:
    """Main goes forward to a branch of an early version, then to one of a late version, whose files name those between."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(3):
        append(lake, lake.open(T), [number])
        create_tag(lake, lake.open(T), f"tag{number}")
        lake.alter_table(T, [AddColumn(name=f"c{number}", type=IntType())])
    lake.branches.create(lake.open(T), "early", from_tag="tag0")
    lake.branches.create(lake.open(T), "late", from_tag="tag2")
    lake.branches.fast_forward(table, "early")
    assert ids(lake.open(T)) == [0]
    lake.branches.fast_forward(lake.open(T), "late")
    assert ids(lake.open(T)) == [0, 1, 2]
    schemas = Path(table.location.removeprefix("file://")) / "schema"
    assert sorted(file.name for file in schemas.iterdir()) == ["schema-0", "schema-1", "schema-2"]
    assert not list(lake.check_table(lake.open(T), deep=True, threads=1, checked=lambda *_: None))


def test_a_tag_whose_version_main_loses_goes_with_it(lake: Lake) -> None:
    """It is older than the branch, but of another way, with columns that the branch does not know."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(3):
        append(lake, table, [number])
    create_tag(lake, table, "base")
    lake.branches.create(table, "b", from_tag="base")
    rollback(lake, table, lake.snapshots(table)[0])
    create_tag(lake, lake.open(T), "first")
    lake.alter_table(T, [AddColumn(name="c", type=IntType())])
    append(lake, lake.open(T), [7])
    create_tag(lake, lake.open(T), "other")
    lake.branches.fast_forward(lake.open(T), "b")
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["base", "first"]
    assert ids(lake.open(T)) == [0, 1, 2]
    assert not list(lake.check_table(lake.open(T), deep=True, threads=1, checked=lambda *_: None))


def test_a_tag_beside_tags_of_another_way_takes_nothing_of_theirs(lake: Lake) -> None:
    """The tag before it, of main's other way, has not the files that an older one has: the nearest say nothing of those beyond."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(6):
        append(lake, table, [number])
        if number == 1:
            create_tag(lake, table, "older")
    create_tag(lake, table, "six")
    lake.branches.create(table, "b", from_tag="six")
    rollback(lake, table, lake.snapshots(table)[1])
    overwrite(lake)
    create_tag(lake, lake.open(T), "before")
    lake.branches.fast_forward(lake.open(T), "b")
    lake.branches.drop(lake.open(T), ["b"])
    overwrite(lake)
    expire_snapshots(lake, lake.open(T), EVERYTHING, now_millis=2**45)
    delete_tag(lake, lake.open(T), "six")
    assert not list(lake.check_table(lake.open(T), deep=True, threads=1, checked=lambda *_: None))
    rollback(lake, lake.open(T), next(tag.snapshot for tag in tags_of(lake, lake.open(T)) if tag.name == "older"), tag="older")
    assert ids(lake.open(T)) == [0, 1]


def overwrite(lake: Lake) -> None:
    """Take away all rows of main."""
    main = lake.open(T)
    with main.write() as write:
        lake.commit(main, write.request(CommitKind.OVERWRITE, overwrite=everything))


def test_a_tag_that_is_made_while_tags_are_looked_at_stays(
    lake: Lake, catalog: CatalogStore, warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file was not in the directory yet, and the catalog called it published a moment later."""
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "first")
    other = Lake(catalog, str(warehouse))
    looks = iter(range(9))

    class Slow(type(table.files.io)):  # type: ignore[misc]
        def list(self, path: str) -> list[Any]:
            found = super().list(path)
            if path.endswith("/tag") and next(looks) == 0:
                create_tag(other, other.open(T), "second")
            return list(found)

    slow = lake.open(T)
    io = copy.copy(slow.files.io)
    io.__class__ = Slow
    slow.files.io = io
    with caplog.at_level(logging.INFO):
        lake.tags.all(slow)
    assert "is no more" not in caplog.text
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["first", "second"]
    other.close()


def test_a_tag_that_is_gone_before_its_file_was_written_stays_gone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    publish = Tags.publish

    def late(self: Tags, opened: Any, tag: Any) -> None:
        monkeypatch.undo()
        delete_tag(lake, lake.open(T), "gone")
        publish(self, opened, tag)

    monkeypatch.setattr(Tags, "publish", late)
    create_tag(lake, table, "gone")
    assert lake.tags.all(lake.open(T)) == []


@pytest.mark.parametrize("how", ["rename", "rollback"])
def test_the_file_of_a_tag_of_before_is_no_client_s_tag(lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A tag was given to another snapshot and renamed before its file told so: the file was taken for a tag of what it had kept."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(3):
        append(lake, table, [number])
    create_tag(lake, table, "g", snapshot_id=1)
    with monkeypatch.context() as slow:
        slow.setattr(Tags, "publish", lambda *_: None)
        replace_tag(lake, table, "g", snapshot_id=3)
        if how == "rename":
            rename_tag(lake, table, "g", "h")
        else:
            lake.history.rollback_to_snapshot(table, 2)
    expected = [("h", 3)] if how == "rename" else []
    assert [(tag.name, tag.snapshot.id) for tag in tags_of(lake, lake.open(T))] == expected


def test_a_snapshot_that_expires_while_it_is_looked_at_is_no_damage(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(3):
        append(lake, table, [number])
    looked = require_whole

    def late(*asked: Any, **how: Any) -> None:
        monkeypatch.undo()
        expire_snapshots(lake, lake.open(T), EVERYTHING)
        looked(*asked, **how)

    monkeypatch.setattr("lake.tables.history.require_whole", late)
    with pytest.raises(ChangedMeanwhile):
        lake.history.rollback_to_snapshot(lake.open(T), 1)
    assert ids(lake.open(T)) == [0, 1, 2]


def test_a_file_that_was_to_be_removed_is_wanted_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Main loses a version of its schema to one branch, and gets it back with the next one before its file is gone."""
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "old")
    lake.alter_table(T, [AddColumn(name="c", type=IntType())])
    append(lake, lake.open(T), [2])
    create_tag(lake, lake.open(T), "new")
    lake.branches.create(lake.open(T), "old", from_tag="old")
    lake.branches.create(lake.open(T), "new", from_tag="new")
    with monkeypatch.context() as slow:
        slow.setattr(lake._publisher, "remove_stale", lambda *_: 0)
        lake.branches.fast_forward(table, "old")
        lake.branches.fast_forward(table, "new")
    assert ids(lake.open(T)) == [1, 2]
    schemas = Path(table.location.removeprefix("file://")) / "schema"
    assert sorted(file.name for file in schemas.iterdir()) == ["schema-0", "schema-1"]
    append(lake, lake.open(T), [3])
    assert ids(lake.open(T)) == [1, 2, 3]
