"""History does not go on from a snapshot that nobody can read, and keeps none: it is refused as damage, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lake import Lake, LakeTable
from model.errors import TableDamaged
from tests.lake.kept import at, history, six_commits
from tests.lake.register.damage import cut, remove
from tests.short import diagonal

BREAKS: dict[str, Callable[[Path], None]] = {"missing": remove, "cut": cut}
ACTIONS: dict[str, Callable[[Lake, LakeTable], object]] = {
    "rollback": lambda lake, table: lake.history.rollback_to_snapshot(table, 3),
    "rollback to a tag": lambda lake, table: lake.history.rollback_to_tag(table, "kept"),
    "a tag": lambda lake, table: lake.tags.create(table, "new", snapshot_id=3),
    "a branch": lambda lake, table: lake.branches.create(table, "new", from_tag="kept"),
    "fast-forward": lambda lake, table: lake.branches.fast_forward(table, "other"),
}


@pytest.mark.parametrize(("how", "kind", "action"), diagonal(BREAKS, ["base", "delta", "manifest"], ACTIONS))
def test_a_snapshot_that_cannot_be_read_is_not_gone_on_from(lake: Lake, action: str, kind: str, how: str) -> None:
    table = six_commits(lake)
    lake.tags.create(table, "kept", snapshot_id=3)
    lake.branches.create(table, "other", from_tag="kept")
    snapshot = lake.history.version(table, "3")
    assert at(table, snapshot) == [0, 1, 2]  # what is remembered of it hides nothing
    names = {"base": snapshot.base_manifest_list, "delta": snapshot.delta_manifest_list}
    name = names.get(kind) or table.files.manifest_list(snapshot.delta_manifest_list)[-1].file_name
    BREAKS[how](Path(table.files.layout.manifest(name)))
    with pytest.raises(TableDamaged) as told:
        ACTIONS[action](lake, table)
    assert name in told.value.message
    assert told.value.snapshot_id == 3
    assert history(lake, table) == [1, 2, 3, 4, 5, 6]
    assert [tag.name for tag in lake.tags.all(table)] == ["kept"]
    assert lake.branches.names(table) == ["other"]


def test_a_list_that_is_none_is_told(lake: Lake) -> None:
    table = six_commits(lake)
    snapshot = lake.history.version(table, "3")
    path = Path(table.files.layout.manifest(snapshot.base_manifest_list))
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(TableDamaged, match="cannot be decoded"):
        lake.tags.create(table, "new", snapshot_id=3)


@pytest.mark.parametrize("action", ACTIONS)
def test_damage_of_other_snapshots_is_in_nobodys_way(lake: Lake, action: str) -> None:
    table = six_commits(lake)
    lake.tags.create(table, "kept", snapshot_id=3)
    lake.branches.create(table, "other", from_tag="kept")
    remove(Path(table.files.layout.manifest(lake.history.version(table, "5").delta_manifest_list)))
    ACTIONS[action](lake, table)
    opened = lake.open(replace(table.identifier))
    latest = opened.latest()
    assert latest is not None
    assert at(opened, lake.history.version(opened, "3")) == [0, 1, 2]
