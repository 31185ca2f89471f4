"""What clients change past the catalog, expired snapshots and tags as files, is noticed before it is offered."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.register.expired import forget_expired, is_past, left_by_expiry
from lake.rewrite.compaction import compact, plan
from lake.rewrite.expiry import create_tag, expire_snapshots, replace_tag, rollback, tags_of
from lake.rewrite.orphans import remove_orphan_files
from lake.streams.snapshot_steps import TableStream
from model.errors import SnapshotNotExist, TableDamaged
from model.identifier import Identifier
from table.format.store import _LISTS, TableFiles
from tests.lake.kept import NOW, all_files, go_on, history, keep, overwrite, six_commits
from tests.lake.mortal import Killed
from tests.lake.register.damage import forget_metadata, wait_for_notes
from tests.lake.rewrite.test_compaction import append, ids
from tests.sql.tables import make_table


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    made = six_commits(lake)
    lake._publisher.close()  # which notes that the files are there
    return made


def expired_by_client(table: LakeTable, below: int) -> None:
    """Do what Java's expiry does: manifests and data only they need, then the snapshots, then the hint."""
    for snapshot_id in range(1, below):
        snapshot = table.files.read_snapshot(snapshot_id)
        if snapshot is None:
            continue
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            table.files.io.delete(table.files.layout.manifest(name))
        table.files.io.delete(table.files.layout.snapshot_file(snapshot_id))
    table.files.io.write(table.files.layout.earliest_hint(), str(below).encode())


def test_a_catalog_of_which_nothing_is_there_is_older_than_its_warehouse_and_no_bug(lake: Lake, table: LakeTable, dsn: str) -> None:
    """A dump made right after a commit, whose snapshot was not noted yet, brought back when clients had expired all of it."""
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_snapshot SET published = snapshot_id < 3 WHERE snapshot_id < 4")
        conn.execute("UPDATE snapshot_pointer SET snapshot_id = 3")
        conn.execute("DELETE FROM table_snapshot WHERE snapshot_id > 3")
    expired_by_client(table, 6)
    fresh = Lake(lake.catalog, lake.warehouse)
    assert not forget_expired(fresh.catalog, fresh.open(table.identifier))
    assert [number for number, _ in known(dsn)] == [1, 2, 3]
    fresh.close()


def known(dsn: str) -> list[tuple[int, bool]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("SELECT snapshot_id, published FROM table_snapshot ORDER BY snapshot_id").fetchall()


def test_who_is_several_expired_snapshots_behind_is_told_that_they_expired(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    """And of no rollback: the one it has read is in the past of the branch, however much of that is gone."""
    read = lake.snapshots(table)[0]
    expire_snapshots(lake, table, keep(1))
    with catalog.reading() as tx:
        assert tx.snapshots.last_expired(table.table_id, "main") is not None
        assert is_past(tx, table.table_id, "main", read.id, read.key)


def test_what_an_earlier_server_expired_since_is_of_the_past(lake: Lake, catalog: CatalogStore, table: LakeTable, dsn: str) -> None:
    """It keeps no record of the last one, and this server's is an older one: a stream at the cut goes on."""
    first, read, *_ = sorted(lake.snapshots(table), key=lambda snapshot: snapshot.id)
    with catalog.transaction() as tx:
        tx.snapshots.forget(table.table_id, "main", below=read.id)
        assert tx.snapshots.last_expired(table.table_id, "main") == first.to_json()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DELETE FROM table_snapshot WHERE snapshot_id = %s", (read.id,))
    with catalog.reading() as tx:
        assert is_past(tx, table.table_id, "main", read.id, read.key)
        assert not is_past(tx, table.table_id, "main", first.id, "another")


def test_what_is_committed_meanwhile_is_nothing_the_catalog_lacks(
    lake: Lake, catalog: CatalogStore, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an expiry of a busy table leaves the files of the snapshots whose data it deletes."""
    listed = TableFiles.snapshot_ids

    def busy(files: TableFiles) -> list[int]:
        monkeypatch.setattr(TableFiles, "snapshot_ids", listed)
        append(lake, table, [77])
        return listed(files)

    monkeypatch.setattr(TableFiles, "snapshot_ids", busy)
    with catalog.transaction() as tx:
        tx.snapshots.forget(table.table_id, "main", below=3)
        assert left_by_expiry(tx, table.table_id, table.files) == [1, 2]


LOOKS: dict[str, Callable[[Lake, LakeTable], object]] = {
    "rollback": lambda lake, table: lake.history.rollback_to_snapshot(table, 2),
    "tag": lambda lake, table: create_tag(lake, table, "two", snapshot_id=2),
    "time travel": lambda lake, table: lake.scan(table, {"scan.snapshot-id": "2"}),
    "version": lambda lake, table: lake.history.version(table, "2"),
    "incremental": lambda lake, table: lake.scan(table, {"incremental-between": "1,3"}),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_a_client_expired_is_not_offered(lake: Lake, table: LakeTable, look: str) -> None:
    expired_by_client(table, 4)
    with pytest.raises(SnapshotNotExist):
        LOOKS[look](lake, table)
    assert history(lake, table) == [4, 5, 6]
    assert ids(table) == list(range(6))


def test_what_a_client_expired_is_no_tag_to_be_replaced_by(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "t", snapshot_id=5)
    expired_by_client(table, 4)
    with pytest.raises(SnapshotNotExist):
        replace_tag(lake, table, "t", snapshot_id=2)


def test_looks_at_the_past_show_what_is_left(lake: Lake, table: LakeTable) -> None:
    expired_by_client(table, 3)
    assert [s.id for s in lake.history.page(table, below=None, limit=9)] == [6, 5, 4, 3]
    expired_by_client(table, 5)
    assert lake.history.version(table, "EARLIEST").id == 5
    expire_snapshots(lake, table, keep(1))
    assert table.files.snapshot_ids() == [6]
    remove_orphan_files(lake, table, check=go_on)
    assert ids(table) == list(range(6))


def test_our_expiry_and_orphans_go_on_after_a_clients(lake: Lake, table: LakeTable) -> None:
    expired_by_client(table, 4)
    remove_orphan_files(lake, table, check=go_on)
    expired_by_client(table, 5)
    assert expire_snapshots(lake, table, NOW).snapshots == (5,)
    assert ids(table) == list(range(6))


def test_a_stream_whose_start_a_client_expired_is_out_of_range(lake: Lake, table: LakeTable) -> None:
    stream = lake.follow(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "consumer-id": "c"})
    steps = stream.steps()
    assert next(steps) is not None
    stream.close()
    table.files.io.write(table.files.layout.consumer_file("c"), json.dumps({"nextSnapshot": 2}).encode())
    expired_by_client(table, 4)
    with pytest.raises(SnapshotNotExist, match="snapshot 2, which has expired; the snapshots 4 to 6 are there"):
        lake.follow(table, {"consumer-id": "c"})


def test_a_running_stream_that_a_client_expired_past_is_out_of_range(lake: Lake, table: LakeTable) -> None:
    stream: TableStream = lake.follow(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"})
    # Another process's caches do not know the manifests this one wrote.
    expired_by_client(table, 4)
    _LISTS.clear()
    with pytest.raises(SnapshotNotExist, match="would go on at snapshot 2, which has expired"):
        next(stream.steps())


def test_a_hole_is_damage_and_nothing_is_forgotten(lake: Lake, table: LakeTable) -> None:
    table.files.io.delete(table.files.layout.snapshot_file(3))
    assert history(lake, table) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(TableDamaged, match=r"snapshot-3 is missing between snapshots"):
        lake.history.rollback_to_snapshot(table, 3)
    with pytest.raises(TableDamaged, match=r"snapshot-3 is missing"):
        create_tag(lake, table, "three", snapshot_id=3)
    expired_by_client(table, 2)
    assert history(lake, table) == [2, 3, 4, 5, 6]


COMMITS: dict[str, Callable[[Lake, LakeTable], object]] = {
    "append": lambda lake, table: append(lake, table, [100]),
    "append of another server": lambda lake, table: append_elsewhere(lake, table),
    "compaction": lambda lake, table: compact(lake.commit, table, plan(table, full=True)),
    "overwrite": lambda lake, table: overwrite(lake, table, [100]),
    "replacement": lambda lake, table: lake.replace_table(table.identifier, replace(table.schema, comment="anew")),
    "append while the store fails": lambda lake, table: append_put_off(lake, table),
    "append by a server that was killed": lambda lake, table: append_by_killed(lake, table),
}


def append_put_off(lake: Lake, table: LakeTable) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "the store fails")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake._publisher, "publish_next", fails)
        append(lake, table, [100])
    assert not Path(table.files.layout.snapshot_file(7)).exists()
    table.latest()


def append_by_killed(lake: Lake, table: LakeTable) -> None:
    def dies(step: str) -> None:
        if step == "decided":
            raise Killed

    with contextlib.closing(Lake(lake.catalog, lake.warehouse, hook=dies)) as other, pytest.raises(Killed):
        append(other, other.open(table.identifier), [100])
    lake.recover()


def append_elsewhere(lake: Lake, table: LakeTable) -> None:
    with contextlib.closing(Lake(lake.catalog, lake.warehouse)) as other:
        append(other, other.open(table.identifier), [100])


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("gone", ["directory", "all files", "the newest three", "all, and the lists of the first"])
def test_a_commit_where_files_of_snapshots_are_lost_makes_no_expiry_of_it(lake: Lake, table: LakeTable, commit: str, gone: str) -> None:
    """The next snapshot stood alone, and all before it went for one that a client had expired."""
    place = Path(table.files.layout.snapshot_dir())
    bodies = {path.name: path.read_bytes() for path in place.glob("snapshot-*")}
    create_tag(lake, table, "three", snapshot_id=3)
    first = table.files.read_snapshot(1)
    assert first is not None
    if gone == "directory":
        shutil.rmtree(place)
    else:
        for path in sorted(place.iterdir())[-3 if "three" in gone else 0 :]:
            path.unlink()
    if "lists" in gone:
        for name in (first.base_manifest_list, first.delta_manifest_list):
            table.files.io.delete(table.files.layout.manifest(name))
        del bodies["snapshot-1"]
    forget_metadata()
    COMMITS[commit](lake, table)
    lake._publisher.close()
    table = lake.open(table.identifier)
    forget_expired(lake.catalog, table)
    assert {path.name: path.read_bytes() for path in place.glob("snapshot-?")} == bodies | {
        "snapshot-7": (place / "snapshot-7").read_bytes()
    }
    assert history(lake, table) == [*sorted(int(name.rpartition("-")[2]) for name in bodies), 7]
    assert (place / "LATEST").read_text() == "7"
    stream = lake.follow(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"})
    assert next(stream.steps()) is not None
    stream.close()
    faults = lake.check_table(table, deep=False, threads=1, checked=lambda *_: None)
    assert list(faults) == []


@pytest.mark.parametrize("hint", ["", "lost", "behind"])
def test_of_lost_snapshots_those_come_back_that_no_client_expired(lake: Lake, table: LakeTable, hint: str) -> None:
    """A tag keeps the lists of one that expired: it was written again, alone before the others, and the past ended behind it for good."""
    place = Path(table.files.layout.snapshot_dir())
    create_tag(lake, table, "two", snapshot_id=2)
    lists = Path(table.files.layout.manifest("x")).parent
    second = table.files.read_snapshot(2)
    assert second is not None
    kept = {name: (lists / name).read_bytes() for name in (second.base_manifest_list, second.delta_manifest_list)}
    wait_for_notes(lake)
    expired_by_client(table, 4)
    for name, content in kept.items():
        (lists / name).write_bytes(content)
    if hint == "lost":
        (place / "EARLIEST").unlink()
    elif hint == "behind":
        (place / "EARLIEST").write_text("1")
    for number in (5, 6):
        (place / f"snapshot-{number}").unlink()
    forget_metadata()
    append(lake, table, [100])
    lake._publisher.close()
    assert table.files.snapshot_ids() == [4, 5, 6, 7]
    forget_expired(lake.catalog, table)
    assert history(lake, table) == [4, 5, 6, 7]


def test_a_directory_that_is_away_is_no_expiry(lake: Lake, table: LakeTable) -> None:
    place = Path(table.location) / "snapshot"
    place.rename(place.with_name("away"))
    assert history(lake, table) == [1, 2, 3, 4, 5, 6]
    place.with_name("away").rename(place)
    assert ids(table) == list(range(6))


def test_what_is_decided_and_not_published_is_no_expiry(lake: Lake, table: LakeTable, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_snapshot SET published = false WHERE snapshot_id = 1")
    table.files.io.delete(table.files.layout.snapshot_file(1))
    assert history(lake, table) == [1, 2, 3, 4, 5, 6]


def test_what_was_published_without_a_note_and_expired_is_not_published_again(lake: Lake, table: LakeTable, dsn: str) -> None:
    """As after a dump of Postgres that was made within a moment of the commits, or after a crash of it that lost the notes."""
    expired_by_client(table, 4)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_snapshot SET published = false WHERE snapshot_id <> 3")
    started = Lake(lake.catalog, lake.warehouse)
    try:
        assert started.finish_half_done(lambda: True).failed == 0
        opened = started.open(table.identifier)
        append(started, opened, [6])
        assert opened.files.snapshot_ids() == [4, 5, 6, 7]
        assert history(started, opened) == [4, 5, 6, 7]
    finally:
        started.close()


# Tags that clients write as files


def tagged_by_client(table: LakeTable, name: str, snapshot_id: int) -> None:
    """A tag as pypaimon and Java write it, which nobody tells the catalog of."""
    body = json.loads(table.files.io.read(table.files.layout.snapshot_file(snapshot_id)))
    table.files.io.write(table.files.layout.tag_file(name), json.dumps(body).encode())


def test_going_back_takes_clients_tags_along(lake: Lake, table: LakeTable) -> None:
    tagged_by_client(table, "two", 2)
    tagged_by_client(table, "five", 5)
    lake.history.rollback_to_snapshot(table, 3)
    assert [tag.name for tag in tags_of(lake, table)] == ["two"]
    assert {name for name in all_files(table) if name.startswith("tag/")} == {"tag/tag-two"}
    lake.history.rollback_to_tag(table, "two")
    assert ids(table) == [0, 1]


def test_a_tag_of_a_line_that_was_left_is_no_way_back(lake: Lake, table: LakeTable) -> None:
    """A client may write a tag of what it read before the rollback, at any time after it."""
    body = table.files.io.read(table.files.layout.snapshot_file(5))
    lake.history.rollback_to_snapshot(table, 3)
    table.files.io.write(table.files.layout.tag_file("five"), body)
    with pytest.raises(SnapshotNotExist, match="none of the table's"):
        lake.history.rollback_to_tag(table, "five")
    append(lake, table, [10])
    append(lake, table, [11])
    append(lake, table, [12])
    with pytest.raises(SnapshotNotExist, match="none of the table's"):
        rollback(lake, table, tags_of(lake, table)[0].snapshot, tag="five")
    assert ids(table) == [0, 1, 2, 10, 11, 12]


def test_going_forward_takes_clients_tags_of_main_away_and_the_branchs_along(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "three", snapshot_id=3)
    lake.branches.create(table, "b", from_tag="three")
    branch = lake.open(Identifier("default", "t", "b"))
    append(lake, branch, [30])
    tagged_by_client(branch, "of-branch", 4)
    tagged_by_client(table, "of-main", 5)
    tagged_by_client(table, "two", 2)
    lake.branches.fast_forward(table, "b")
    assert [(tag.name, tag.snapshot.id) for tag in tags_of(lake, table)] == [("of-branch", 4), ("three", 3), ("two", 2)]
    assert ids(table) == [0, 1, 2, 30]


@pytest.mark.parametrize("way", ["back to a tag", "forward to a branch"])
def test_snapshots_that_live_again_are_not_behind_the_hint(lake: Lake, table: LakeTable, way: str) -> None:
    """Clients take the hint for the beginning of the past while its file is there, and expire from it on: that left a hole."""
    create_tag(lake, table, "two", snapshot_id=2)
    lake.branches.create(table, "b", from_tag="two")
    for snapshot_id in range(1, 5):  # what the tag needs stays
        table.files.io.delete(table.files.layout.snapshot_file(snapshot_id))
    table.files.io.write(table.files.layout.earliest_hint(), b"5")
    if way == "back to a tag":
        lake.history.rollback_to_tag(table, "two")
    else:
        lake.branches.fast_forward(table, "b")
    for value in range(10, 14):
        append(lake, table, [value])
    assert history(lake, table) == [2, 3, 4, 5, 6]
    assert table.files.read_hint(table.files.layout.earliest_hint()) == 2


def test_nothing_to_tag_is_told(lake: Lake) -> None:
    empty = make_table(lake, "e", id="INT")
    with pytest.raises(SnapshotNotExist, match="has no snapshot to tag yet"):
        create_tag(lake, empty, "x")
