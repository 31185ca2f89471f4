"""Whatever happens to a table, and whenever its process dies: rows, order, every kept snapshot and every live file stay."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from lake.rewrite.compaction import compact, plan
from lake.rewrite.expiry import create_tag, expire_snapshots, rename_tag, rollback, tags_of
from lake.rewrite.orphans import remove_orphan_files
from tests.interop.strict import check_warehouse
from tests.lake.histories import MODES, History, Step
from tests.lake.history_steps import COMING_BACK, STEPS
from tests.lake.kept import go_on, keep
from tests.lake.mortal import Killed, MortalIO
from tests.lake.rewrite.test_compaction import QUEUE, append, ids
from tests.lake.tables.test_tables import Crash, crashing_at
from tests.short import one_in
from tests.sql.tables import make_table

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))


def live(catalog: CatalogStore, warehouse: Path, mode: str, seed: int, *, steps: int, of: Sequence[tuple[Step, int]] = STEPS) -> None:
    """One history, checked at every step and wholly at its end."""
    print(f"{mode}, seed {seed}")
    history = History(catalog, warehouse, mode, seed)
    history.run(steps, of)
    history.check_all()
    history.check_nothing_left()
    history.check_all()
    history.lake.close()
    check_warehouse(warehouse)


@pytest.mark.parametrize("seed", one_in(2, range(2)))
@pytest.mark.parametrize("mode", MODES)
def test_any_history(catalog: CatalogStore, warehouse: Path, mode: str, seed: int) -> None:
    live(catalog, warehouse, mode, SEED + seed, steps=40)


@pytest.mark.parametrize("mode", MODES)
def test_any_history_in_which_files_come_back(catalog: CatalogStore, warehouse: Path, mode: str) -> None:
    live(catalog, warehouse, mode, SEED, steps=40, of=COMING_BACK)


@pytest.mark.torture
@pytest.mark.parametrize("mode", MODES)
def test_many_histories(catalog: CatalogStore, warehouse: Path, mode: str) -> None:
    for seed in range(int(os.environ.get("SLUICE_TEST_HISTORIES", "300"))):
        live(catalog, warehouse, mode, SEED + 1000 + seed, steps=80, of=COMING_BACK if seed % 4 == 3 else STEPS)


# What the histories have found


def test_an_expiry_that_was_killed_is_not_in_the_way_of_going_back(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(6):
        append(lake, table, [n])
    tag = create_tag(lake, table, "two", snapshot_id=2)
    with pytest.raises(Crash):
        expire_snapshots(crashing_at("expiry decided", catalog, warehouse), table, keep(1))
    assert table.files.snapshot_ids() == [1, 2, 3, 4, 5, 6]
    rollback(lake, table, tag.snapshot, tag="two")
    append(lake, table, [9])
    assert ids(table) == [0, 1, 9]
    assert table.files.snapshot_ids() == [2, 3]


def test_files_of_expired_snapshots_are_orphans_whatever_a_tag_keeps(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(6):
        append(lake, table, [n])
    create_tag(lake, table, "one", snapshot_id=1)
    with pytest.raises(Crash):
        expire_snapshots(crashing_at("expiry decided", catalog, warehouse), table, keep(1))
    found = remove_orphan_files(lake, table, older_than_millis=time.time_ns() // 1_000_000, dry_run=True, check=go_on)
    assert {Path(path).name for path in found.paths} >= {f"snapshot-{n}" for n in range(1, 6)}
    remove_orphan_files(lake, table, check=go_on)  # too young for files of a write, but no write makes snapshots of the past
    assert table.files.snapshot_ids() == [6]


@pytest.mark.parametrize("changes", range(5))
def test_a_tag_has_one_name_whenever_its_renaming_is_killed(catalog: CatalogStore, lake: Lake, warehouse: Path, changes: int) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "old")
    io = MortalIO()
    dying = Lake(catalog, str(warehouse), file_io=io, hook=io.change)
    opened = dying.open(table.identifier)
    io.changes_left = changes
    with contextlib.suppress(Killed):
        rename_tag(dying, opened, "old", "new")
    dying.close()
    lake.recover()
    assert [tag.name for tag in tags_of(lake, lake.open(table.identifier))] in (["old"], ["new"])
    assert len(list(warehouse.rglob("tag-*"))) == 1


def test_going_forward_twice_to_the_same_place_leaves_its_files(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "one")
    lake.branches.create(table, "b", from_tag="one")
    for _ in range(2):
        lake.branches.fast_forward(table, "b")
        latest = table.latest()
        assert latest is not None
        assert table.files.read_snapshot(latest.id) == latest


def test_merged_files_are_named_in_the_order_of_the_queue(lake: Lake) -> None:
    """pypaimon reads files as manifests name them."""
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        append(lake, table, [n])
    tasks = plan(table, full=False)
    for n in (4, 5):  # while it is merged
        append(lake, table, [n])
    assert compact(lake.commit, table, tasks).files_before == 4
    named = [entry.file.min_sequence_number for entry in table.files.live_entries(table.latest())]
    assert named == [0, 4, 5]
