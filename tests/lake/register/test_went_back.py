"""A catalog older than its warehouse whose snapshot ids came again since: after a rollback or a step forward to a branch.

And what looks like it and is none: rollbacks, undone compactions and steps forward of this catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.register.restored.after_restore import differences
from lake.rewrite.expiry import create_tag
from model.errors import TableDiverged
from tests.lake.register.test_standing import older
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table
from tests.short import one_in

Way = Callable[[Lake, int], None]


def before_the_backup(lake: Lake, table: LakeTable) -> None:
    for name in ("a", "b", "c", "d"):
        lake.commit(table, append(name))
    lake._publisher._notifier.close()  # the notes that the files are there are in the backup


def back_and_on(lake: Lake, to: int) -> None:
    lake.history.rollback_to_snapshot(lake.open(T), to)
    lake.commit(lake.open(T), append("e"))


def forward(lake: Lake, to: int) -> None:
    """To a branch of a snapshot before the newest, which has gone on."""
    create_tag(lake, lake.open(T), "early", snapshot_id=to)
    lake.branches.create(lake.open(T), "b", from_tag="early")
    branch = lake.open(replace(T, branch="b"))
    lake.commit(branch, append("e"))
    lake.branches.fast_forward(lake.open(T), "b")
    assert lake.open(T).latest() is not None


@pytest.mark.parametrize("way", [back_and_on, forward])
@pytest.mark.parametrize(("to", "left"), one_in(3, [(2, ["a", "b", "e"]), (3, ["a", "b", "c", "e"]), (1, ["a", "e"])]))
def test_ids_that_came_again_are_noticed_and_nothing_readable_is_lost(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, way: Way, to: int, left: list[str]
) -> None:
    before_the_backup(lake, table)
    older(dsn, tmp_path / "old")
    way(lake, to)
    assert names(lake.open(T)) == left
    lake._publisher.close()
    older(dsn, tmp_path / "old", back=True)

    (told, *_) = differences(catalog, str(warehouse))
    assert "tells another history" in told.what
    assert told.statement == "CALL sys.repair_table('default.t')"
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(TableDiverged):
        fresh.commit(fresh.open(T), append("x"))
    fresh.standing.look_around(tables=None)
    assert next(trouble.statement for trouble in fresh.standing.troubles()) == "CALL sys.repair_table('default.t')"
    done = fresh.repair_table(T)
    assert to + 1 in done.registered
    assert names(fresh.open(T)) == left
    before = fresh.history.version(fresh.open(T), "before-repair-4")
    assert [entry.file.file_name for entry in fresh.open(T).files.live_entries(before)] == ["a", "b", "c", "d"]
    fresh.commit(fresh.open(T), append("f"))
    assert names(fresh.open(T)) == [*left, "f"]
    fresh.standing.look_around(tables=None)
    assert fresh.standing.troubles() == []
    fresh.close()


def test_a_rollback_alone_is_noticed_and_what_the_catalog_has_comes_back(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    before_the_backup(lake, table)
    older(dsn, tmp_path / "old")
    lake.history.rollback_to_snapshot(lake.open(T), 2)
    older(dsn, tmp_path / "old", back=True)
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(TableDiverged, match="LATEST"):
        fresh.commit(fresh.open(T), append("x"))
    assert [number for number, _ in fresh.repair_table(T).rewritten] == [3, 4]
    fresh.commit(fresh.open(T), append("x"))
    assert names(fresh.open(T)) == ["a", "b", "c", "d", "x"]
    fresh.close()


@pytest.mark.parametrize("ahead", ["main", "b", "c"])
def test_main_goes_forward_to_no_branch_while_files_are_ahead(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, ahead: str
) -> None:
    """The repair would undo it, and what it takes away may be all that keeps rows the catalog does not know."""
    before_the_backup(lake, table)
    create_tag(lake, lake.open(T), "early", snapshot_id=2)
    for branch in ("b", "c"):
        lake.branches.create(lake.open(T), branch, from_tag="early")
        lake.commit(lake.open(replace(T, branch=branch)), append(f"on {branch}"))
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    line = replace(T, branch=ahead)
    lake.commit(lake.open(line), append("new"))
    left = names(lake.open(line))
    lake._publisher.close()
    older(dsn, tmp_path / "old", back=True)
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(TableDiverged):
        fresh.commit(fresh.open(line), append("x"))
    for dry_run in (True, False):
        with pytest.raises(TableDiverged):
            fresh.branches.fast_forward(fresh.open(T), "b", dry_run=dry_run)
    assert snapshot_file(warehouse, 4).exists()
    fresh.repair_table(line)
    assert names(fresh.open(line)) == left
    fresh.branches.fast_forward(fresh.open(T), "b")
    assert names(fresh.open(T))[:3] == ["a", "b", "on b"]
    fresh.close()


@pytest.mark.parametrize("way", [back_and_on, forward])
def test_our_own_steps_are_no_divergence(lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path, way: Way) -> None:
    before_the_backup(lake, table)
    other = Lake(catalog, str(warehouse))
    other.commit(other.open(T), append("o"))
    way(lake, 3)
    for number, one in enumerate((other, lake)):
        fresh = Lake(catalog, str(warehouse))
        fresh.standing.look_around(tables=None)
        assert fresh.standing.troubles() == []
        one.commit(one.open(T), append(f"x{number}"))
        fresh.commit(fresh.open(T), append(f"y{number}"))
        fresh.close()
    assert names(lake.open(T)) == ["a", "b", "c", "e", "x0", "y0", "x1", "y1"]
    other.close()


def test_the_file_of_a_snapshot_rolled_back_that_comes_late_is_no_divergence(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path
) -> None:
    """As on an object store, where a publisher that was held up writes over what lies there."""
    before_the_backup(lake, table)
    late = snapshot_file(warehouse, 4).read_bytes()
    back_and_on(lake, 3)
    lake._publisher.close()
    mine = snapshot_file(warehouse, 4).read_bytes()
    snapshot_file(warehouse, 4).write_bytes(late)
    fresh = Lake(catalog, str(warehouse))
    fresh.standing.look_around(tables=None)
    (trouble,) = fresh.standing.troubles()
    assert (trouble.problem, trouble.statement) == (
        "snapshot-4 is another snapshot than the catalog's",
        "CALL sys.check_table('default.t')",
    )
    assert fresh.repair_table(T, dry_run=True).registered == ()
    snapshot_file(warehouse, 4).write_bytes(mine)
    fresh.commit(fresh.open(T), append("x"))
    assert names(fresh.open(T)) == ["a", "b", "c", "e", "x"]
    fresh.close()


def test_a_decided_snapshot_whose_file_is_not_there_is_no_divergence(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path
) -> None:
    before_the_backup(lake, table)

    def dies(step: str) -> None:
        if step == "decided":
            raise RuntimeError(step)

    dying = Lake(catalog, str(warehouse), hook=dies)
    with pytest.raises(RuntimeError):
        dying.commit(dying.open(T), append("e"))
    fresh = Lake(catalog, str(warehouse))
    fresh.standing.look_around(tables=None)
    assert fresh.standing.troubles() == []
    fresh.commit(fresh.open(T), append("f"))
    assert names(fresh.open(T)) == ["a", "b", "c", "d", "e", "f"]
    for one in (dying, fresh):
        one.close()
