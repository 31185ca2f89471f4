"""Other clients go by files alone: those of a branch are there when a call answers, or a server puts them there."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.auto_tags import expire_tags
from lake.rewrite.expiry import create_tag, delete_tag
from model.identifier import Identifier
from table.format.io.file_io import LocalFileIO
from tests.lake.mortal import Killed, MortalIO
from tests.lake.rewrite.test_compaction import QUEUE, append, ids
from tests.lake.tables.test_consumers import ObjectStore
from tests.sql.tables import make_table

B = Identifier("default", "t", "b")
WHOLE = {"schema/schema-0", "snapshot/snapshot-2", "tag/tag-two"}
"""What a branch made of the tag needs: its schema, its snapshot, and the tag that keeps it."""


def tagged(lake: Lake) -> LakeTable:
    """A table whose second of three snapshots has a tag."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(3):
        append(lake, table, [number])
    create_tag(lake, table, "two", snapshot_id=2)
    return table


def directory(table: LakeTable, branch: str = "b") -> Path:
    return Path(table.location.removeprefix("file://")) / "branch" / f"branch-{branch}"


def files(table: LakeTable, branch: str = "b") -> set[str]:
    """The schemas, snapshots and tags of a branch, as they lie there."""
    here = directory(table, branch)
    return {str(path.relative_to(here)) for path in here.glob("*/*-*")}


def test_a_branch_that_was_made_is_there(lake: Lake) -> None:
    table = tagged(lake)
    lake.branches.create(table, "empty")
    lake.branches.create(table, "b", from_tag="two")
    assert files(table, "empty") == {"schema/schema-0"}
    assert files(table) == WHOLE


@pytest.mark.parametrize("io", [LocalFileIO, ObjectStore])
def test_a_branch_that_was_renamed_is_there(catalog: CatalogStore, warehouse: Path, io: type[LocalFileIO]) -> None:
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=io())) as lake:
        table = tagged(lake)
        lake.branches.create(table, "a", from_tag="two")
        append(lake, lake.open(Identifier("default", "t", "a")), [9])
        lake.branches.rename(table, "a", "b")
        assert files(table) == {*WHOLE, "snapshot/snapshot-3"}
        assert not directory(table, "a").exists()


def test_what_main_went_forward_to_is_there(lake: Lake) -> None:
    table = tagged(lake)
    lake.branches.create(table, "b", from_tag="two")
    append(lake, lake.open(B), [9])
    create_tag(lake, lake.open(B), "three")
    lake.branches.fast_forward(table, "b")
    lake.branches.drop(table, ["b"])
    main = Path(table.location.removeprefix("file://"))
    assert sorted(path.name for path in main.glob("snapshot/snapshot-*")) == ["snapshot-1", "snapshot-2", "snapshot-3"]
    assert sorted(path.name for path in main.glob("tag/*")) == ["tag-three", "tag-two"]
    assert ids(lake.open(table.identifier)) == [0, 1, 9]


def test_opening_a_branch_puts_all_of_it_there(lake: Lake) -> None:
    """A client that only loads it, and then removes what it takes for orphans, removed all files that only the branch needed."""
    table = tagged(lake)
    lake.branches.create(table, "b", from_tag="two")
    as_earlier_versions_left_it(lake, table)
    lake.open_any(B)
    assert files(table) == WHOLE


def test_a_server_puts_a_branch_there_that_nobody_opened(lake: Lake) -> None:
    table = tagged(lake)
    lake.branches.create(table, "b", from_tag="two")
    as_earlier_versions_left_it(lake, table)
    assert lake.finish_half_done().failed == 0
    assert files(table) == WHOLE


def as_earlier_versions_left_it(lake: Lake, table: LakeTable) -> None:
    shutil.rmtree(directory(table))
    with lake.catalog.transaction() as tx:
        tx.tables.set_schema(table.table_id, "b", 0, published=-1)
        row = tx.snapshots.get(table.table_id, "b", 2)
        assert row is not None
        tx.snapshots.remove(table.table_id, "b", above=1)
        tx.snapshots.insert(table.table_id, "b", replace(row, published=False))
        tx.snapshots.point(table.table_id, "b", row)
        tx.tags.published(table.table_id, "two", "b", published=False)


CHANGES: dict[str, Callable[[Lake, LakeTable], object]] = {
    "create": lambda lake, table: lake.branches.create(table, "b", from_tag="two"),
    "rename": lambda lake, table: lake.branches.rename(table, "a", "b"),
    "fast_forward": lambda lake, table: lake.branches.fast_forward(table, "a"),
}


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_branch_whose_server_died_is_finished_by_the_next(catalog: CatalogStore, warehouse: Path, step: int) -> None:
    """Before its snapshot, its tag or its schema was written."""
    assert died_and_finished(catalog, warehouse, "create", step)


@pytest.mark.torture
@pytest.mark.parametrize("change", CHANGES)
def test_a_branch_whose_server_died_at_any_step_is_finished_by_the_next(catalog: CatalogStore, warehouse: Path, change: str) -> None:
    steps = 0
    while died_and_finished(catalog, warehouse, change, steps):
        steps += 1
    assert steps > 2


def died_and_finished(catalog: CatalogStore, warehouse: Path, change: str, steps: int) -> bool:
    """Whether a server died before this step of a change; then the branch is not there, or the next puts all of it there, unasked."""
    io = MortalIO()
    dying = Lake(catalog, str(warehouse), file_io=io)
    table = tagged(dying)
    a = Identifier("default", "t", "a")
    if change != "create":
        dying.branches.create(table, "a", from_tag="two")
        append(dying, dying.open(a), [9])
    io.changes_left = steps
    try:
        CHANGES[change](dying, table)
    except Killed:
        died = True
    else:
        died = False
    with contextlib.closing(Lake(catalog, str(warehouse))) as lake:
        assert lake.finish_half_done().failed == 0
        names = lake.branches.names(table)
        if change == "fast_forward":
            assert (directory(table).parents[1] / "snapshot" / "snapshot-3").exists()
        elif "b" in names:
            assert files(table) >= WHOLE
            assert [path.name for path in directory(table).parent.iterdir()] == ["branch-b"]
        lake.drop_table(table.identifier)
    return died


def test_a_tag_whose_file_could_not_be_written_is_finished_by_the_next_server(lake: Lake) -> None:
    table = tagged(lake)
    path = Path(table.location.removeprefix("file://")) / "tag"
    shutil.rmtree(path)
    with lake.catalog.transaction() as tx:
        tx.tags.published(table.table_id, "two", published=False)
    assert lake.finish_half_done().failed == 0
    assert (path / "tag-two").exists()
    delete_tag(lake, lake.open(table.identifier), "two")
    assert ids(lake.open(table.identifier)) == [0, 1, 2]


def test_the_tag_of_a_branch_does_not_end_by_its_time(lake: Lake) -> None:
    """Java's clients expire main's snapshots by its tags and consumers alone: the branch would lose its files."""
    table = tagged(lake)
    create_tag(lake, table, "one", snapshot_id=1)
    lake.branches.create(table, "b", from_tag="two")
    late = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert [tag.name for tag in expire_tags(lake, table, older_than=late)] == ["one"]
    lake.branches.drop(table, ["b"])
    assert [tag.name for tag in expire_tags(lake, table, older_than=late)] == ["two"]
