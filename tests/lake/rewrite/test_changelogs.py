"""Changes that Java's clients keep longer than snapshots (`changelog.num-retained.max`): what streams read of them stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lake import Lake, LakeTable
from lake.rewrite.compaction import compact, plan
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots, rollback
from lake.rewrite.orphans import remove_orphan_files
from model.errors import TableDamaged
from model.snapshot import Snapshot
from table.format.store import TableFiles
from tests.lake.kept import data_files, go_on, history, keep, overwrite, six_commits
from tests.lake.register.damage import forget_metadata, wait_for_notes
from tests.lake.rewrite.test_compaction import append, ids


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return six_commits(lake)


def kept_by_java(lake: Lake, table: LakeTable, until: int) -> list[Snapshot]:
    """As `ExpireSnapshotsImpl` does it: a changelog of each snapshot, then the snapshot goes; lists, manifests and what was added stay."""
    wait_for_notes(lake)
    expired = [snapshot for snapshot in lake.snapshots(table) if snapshot.id <= until]
    layout = table.files.layout
    for snapshot in expired:
        file = Path(layout.snapshot_file(snapshot.id))
        changelog = Path(layout.branch_dir, "changelog", f"changelog-{snapshot.id}")
        changelog.parent.mkdir(exist_ok=True)
        changelog.write_bytes(file.read_bytes())
        file.unlink()
    Path(layout.branch_dir, "changelog", "EARLIEST").write_text("1")
    Path(layout.branch_dir, "changelog", "LATEST").write_text(str(until))
    Path(layout.earliest_hint()).write_text(str(until + 1))
    return expired


def changes(table: LakeTable, changelogs: list[Snapshot]) -> list[int]:
    """What a stream reads that is behind, by files alone."""
    files = TableFiles(table.files.io, table.location).apart()
    read = []
    for changelog in changelogs:
        for entry in files.delta_entries(changelog):
            assert Path(files.data_path(table.schema, entry)).is_file()
            read.append(entry.file.row_count)
        for meta in files.manifest_list(changelog.base_manifest_list):
            files.manifest(meta)
    return read


def old(table: LakeTable) -> None:
    for path in Path(table.location).rglob("*"):
        os.utime(path, (1, 1))


def test_what_changelogs_need_outlives_expiry_and_orphans(lake: Lake, table: LakeTable) -> None:
    changelogs = kept_by_java(lake, table, 3)
    compact(lake.commit, table, plan(table, full=True))
    append(lake, table, [6])
    removed = expire_snapshots(lake, table, keep(1))
    assert (history(lake, table), removed.snapshots) == ([8], (4, 5, 6, 7))
    assert changes(table, changelogs) == [1, 1, 1]
    assert ids(table) == list(range(7))
    assert len(data_files(table)) == 5, "what is merged and appended, and three files of changelogs"
    old(table)
    assert remove_orphan_files(lake, table, check=go_on).paths == ()
    assert changes(table, changelogs) == [1, 1, 1]
    for changelog in changelogs:
        Path(table.location, "changelog", f"changelog-{changelog.id}").unlink()
    assert remove_orphan_files(lake, table, check=go_on).paths
    assert len(data_files(table)) == 2


def test_what_compactions_made_goes_beside_changelogs(lake: Lake, table: LakeTable) -> None:
    """Streams do not read it, and Java's expiry removes it with the snapshots."""
    compact(lake.commit, table, plan(table, full=True))
    append(lake, table, [6])
    changelogs = kept_by_java(lake, table, 7)
    assert len(data_files(table)) == 8
    overwrite(lake, table, [100])
    assert expire_snapshots(lake, table, keep(1)).data_files == 2, "what was merged, and what was appended and no changelog tells"
    assert changes(table, changelogs[:6]) == [1] * 6


def test_a_rollback_and_a_dropped_tag_spare_changelogs(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "first", snapshot_id=2)
    changelogs = kept_by_java(lake, table, 3)
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    delete_tag(lake, table, "first")
    assert changes(table, changelogs) == [1, 1, 1]
    append(lake, table, [101])
    rollback(lake, table, lake.snapshots(table)[0])
    assert ids(table) == [100]
    assert changes(table, changelogs) == [1, 1, 1]


def test_of_a_changelog_whose_manifests_are_gone_nothing_is_kept(lake: Lake, table: LakeTable) -> None:
    """As earlier versions of this server left them."""
    changelogs = kept_by_java(lake, table, 3)
    gone = changelogs[1]
    for name in (gone.base_manifest_list, gone.delta_manifest_list):
        Path(table.files.layout.manifest(name)).unlink()
    forget_metadata()
    overwrite(lake, table, [100])
    assert expire_snapshots(lake, table, keep(1)).data_files == 4
    assert changes(table, [changelogs[0], changelogs[2]]) == [1, 1]


def test_nothing_goes_while_a_changelog_cannot_be_read(lake: Lake, table: LakeTable) -> None:
    kept_by_java(lake, table, 3)
    changelog = Path(table.location, "changelog", "changelog-2")
    changelog.write_text("{")
    overwrite(lake, table, [100])
    before = data_files(table)
    expire_snapshots(lake, table, keep(1))
    assert (history(lake, table), data_files(table)) == ([7], before)
    with pytest.raises(TableDamaged, match="changelog-2 is no changelog"):
        remove_orphan_files(lake, table, older_than_millis=time.time_ns() // 1_000_000, check=go_on)
    changelog.unlink()
    remove_orphan_files(lake, table, older_than_millis=time.time_ns() // 1_000_000, check=go_on)
    assert len(data_files(table)) == 3
