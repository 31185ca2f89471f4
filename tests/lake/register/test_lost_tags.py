"""Tags whose files are gone though no client removed them: they stay, and a repair writes the files again."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.auto_tags import create_automatic_tags
from lake.rewrite.expiry import create_tag, delete_tags, expire_snapshots, rename_tag, replace_tag, tags_of
from lake.rewrite.orphans import remove_orphan_files
from model.errors import TagNotExist
from table.format.io.file_io import LocalFileIO
from tests.lake.kept import at, data_files, go_on, keep, overwrite, six_commits, with_options
from tests.lake.register.damage import forget_metadata
from tests.lake.register.test_standing import older
from tests.lake.rewrite.test_compaction import append
from tests.short import short


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return six_commits(lake)


class ObjectStore(LocalFileIO):
    """A store without directories."""

    atomic_rename = False


@pytest.fixture
def on_a_store(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=ObjectStore())) as lake:
        yield lake


@pytest.mark.parametrize("other_tag", [True, False])
@pytest.mark.parametrize("gone_on", [False, True])
def test_a_copy_put_back_from_before_a_tag_loses_none(
    lake: Lake, table: LakeTable, tmp_path: Path, *, other_tag: bool, gone_on: bool
) -> None:
    """Its snapshot is there and in the catalog's line, as where a client removes a tag's file."""
    place = Path(table.location)
    if other_tag:
        create_tag(lake, table, "before", snapshot_id=2)
    lake._publisher._notifier.close()
    shutil.copytree(place, tmp_path / "copy")
    create_tag(lake, table, "since", snapshot_id=3)
    append(lake, table, [7])
    lake._publisher._notifier.close()  # it is noted that the file is there
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    (place / "tag").mkdir(exist_ok=True)
    if gone_on:  # somebody writes past the catalog meanwhile
        body = json.loads((place / "snapshot/snapshot-6").read_text())
        for number in (7, 8):
            (place / f"snapshot/snapshot-{number}").write_text(json.dumps(body | {"id": number, "uuid": str(uuid4())}))
        lake.standing.look_around(tables=None)
        assert lake.standing.troubles() != []

    expected = ["before", "since"] if other_tag else ["since"]
    assert [tag.name for tag in tags_of(lake, table)] == expected
    assert (3, str(place / "tag/tag-since")) in lake.repair_table(table.identifier).rewritten
    assert [tag.name for tag in tags_of(lake, lake.open(table.identifier))] == expected
    expire_snapshots(lake, lake.open(table.identifier), keep(1))
    since = tags_of(lake, lake.open(table.identifier))[-1]
    assert at(table, since.snapshot) == [0, 1, 2]


def test_no_tag_is_lost_with_a_prefix_of_a_store(on_a_store: Lake) -> None:
    table = six_commits(on_a_store)
    for name, number in (("one", 1), ("three", 3)):
        create_tag(on_a_store, table, name, snapshot_id=number)
    shutil.rmtree(Path(table.location) / "tag")
    assert [tag.name for tag in tags_of(on_a_store, table)] == ["one", "three"]
    assert len(on_a_store.repair_table(table.identifier).rewritten) == 2
    (Path(table.location) / "tag/tag-one").unlink()  # as a client does
    assert [tag.name for tag in tags_of(on_a_store, table)] == ["three"]


WRITES: dict[str, tuple[Callable[[Lake, LakeTable], object], list[str]]] = {
    "create": (lambda lake, table: create_tag(lake, table, "new", snapshot_id=table.files.snapshot_ids()[-2]), ["new", "one", "three"]),
    "rename": (lambda lake, table: rename_tag(lake, table, "one", "uno"), ["three", "uno"]),
    "replace": (lambda lake, table: replace_tag(lake, table, "one", snapshot_id=table.files.snapshot_ids()[-6]), ["one", "three"]),
    "automatic": (lambda lake, table: create_automatic_tags(lake, table, now=dt.datetime(2031, 1, 1)), ["2030-12-31", "one", "three"]),
}
"""What writes the file of a tag, and the tags that there are then."""


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("branch", short([False, True], [True]))
def test_a_tag_that_is_written_where_all_were_lost_leaves_the_others(
    lake: Lake, on_a_store: Lake, monkeypatch: pytest.MonkeyPatch, write: str, killed: bool, stored: bool, branch: bool
) -> None:
    """They counted as removed by a client beside the one file, and expiry took their rows."""
    lake = on_a_store if stored else lake
    table = six_commits(lake)
    change, names = WRITES[write]
    if branch:
        create_tag(lake, table, "start", snapshot_id=6)
        lake.branches.create(table, "b", from_tag="start")
        table = lake.open(replace(table.identifier, branch="b"))
        with contextlib.suppress(TagNotExist):
            delete_tags(lake, table, ["start"])
        for value in range(6, 12):
            append(lake, table, [value])
    first = table.files.snapshot_ids()[-6]
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "daily"} if write == "automatic" else {}
    table = with_options(lake, table, **options) if options else table
    for name, number in (("one", first), ("three", first + 2)):
        create_tag(lake, table, name, snapshot_id=number)
    held = {name: at(table, tag.snapshot) for name in ("one", "three") for tag in tags_of(lake, table) if tag.name == name}
    place = Path(table.files.layout.tag_dir())
    shutil.rmtree(place)
    if killed:
        real = LocalFileIO.write
        written: list[str] = []

        def dies(io: LocalFileIO, path: str, data: bytes) -> None:
            if path.startswith(str(place)):
                if written:
                    raise OSError(errno.EIO, "the power went")
                written.append(path)
            real(io, path, data)

        monkeypatch.setattr(LocalFileIO, "write", dies)
    change(lake, table)
    if killed:
        assert len(list(place.iterdir())) == 1
        monkeypatch.undo()
        table = lake.open(table.identifier)
    assert [tag.name for tag in tags_of(lake, table)] == names
    assert sorted(path.name for path in place.iterdir()) == [f"tag-{name}" for name in names]
    expire_snapshots(lake, table, keep(1))
    orphans_removed(lake, table)
    rows = {tag.name: at(table, tag.snapshot) for tag in tags_of(lake, table)}
    assert rows["three"] == held["three"]
    assert rows.get("one", rows.get("uno")) == held["one"]


def orphans_removed(lake: Lake, table: LakeTable) -> None:
    forget_metadata()
    remove_orphan_files(lake, table, older_than_millis=time.time_ns() // 1_000_000, check=go_on)


def test_a_tag_whose_changelog_went_with_its_snapshot_keeps_the_rest(lake: Lake, table: LakeTable) -> None:
    """Java's expiry takes the changelog of a tagged snapshot along (`FileDeletionBase.manifestSkippingSet`)."""
    place = Path(table.location)
    body = json.loads((place / "snapshot/snapshot-3").read_text())
    changelog = place / "manifest/manifest-list-changelog-0"
    changelog.write_bytes((place / "manifest" / body["deltaManifestList"]).read_bytes())
    (place / "tag").mkdir()
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(2))  # 6 is left, which has the files of 3
    tagged = json.loads((place / "snapshot/snapshot-6").read_text()) | {"id": 3, "changelogManifestList": changelog.name}
    (place / "tag/tag-java").write_text(json.dumps(tagged))
    assert [tag.name for tag in tags_of(lake, table)] == ["java"]
    changelog.unlink()
    (place / "tag/tag-later").write_text(json.dumps(tagged))
    assert [tag.name for tag in tags_of(lake, table)] == ["java", "later"]
    expire_snapshots(lake, table, keep(1))
    orphans_removed(lake, table)
    assert at(table, tags_of(lake, table)[0].snapshot) == [0, 1, 2, 3, 4, 5]
    delete_tags(lake, table, ["java", "later"])
    orphans_removed(lake, table)
    assert len(data_files(table)) == 1


def test_a_tag_of_a_schema_that_the_catalog_lacks_keeps_its_files(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """The catalog is older than its warehouse, and does not take such a tag in."""
    place = Path(table.location)
    create_tag(lake, table, "known", snapshot_id=3)
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    append(lake, with_options(lake, table, **{"write-only": "true"}), [7])
    (place / "tag/tag-newer").write_text((place / "snapshot/snapshot-7").read_text())
    lake._publisher.close()
    (place / "snapshot/snapshot-7").unlink()  # it expired, or was rolled back
    (place / "snapshot/LATEST").write_text("6")
    body = json.loads((place / "tag/tag-newer").read_text())
    (place / "tag/tag-forged").write_text(json.dumps(body | {"id": 8, "deltaManifestList": "manifest-list-none-0"}))
    older(dsn, tmp_path / "old", back=True)
    forget_metadata()
    with contextlib.closing(Lake(catalog, str(warehouse))) as fresh:
        before = set(place.rglob("*"))
        opened = fresh.open(table.identifier)
        assert [tag.name for tag in tags_of(fresh, opened)] == ["known"]
        orphans_removed(fresh, opened)
        assert set(place.rglob("*")) == before


@pytest.mark.parametrize("branch", [False, True])
def test_a_repair_that_is_cut_off_between_two_lost_tags_loses_none(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, *, branch: bool
) -> None:
    """Beside the first file the others counted as removed by a client, as their snapshots were there."""
    if branch:
        create_tag(lake, table, "start", snapshot_id=6)
        lake.branches.create(table, "b", from_tag="start")
        delete_tags(lake, table, ["start"])
        table = lake.open(replace(table.identifier, branch="b"))
        for value in (6, 7):
            append(lake, table, [value])
    ids = table.files.snapshot_ids()[-3:]
    for number in ids:
        create_tag(lake, table, f"t{number}", snapshot_id=number)
    names = [tag.name for tag in tags_of(lake, table)]
    place, written, real = Path(table.files.layout.tag_dir()), list[str](), LocalFileIO.create
    shutil.rmtree(place)

    def dies(io: LocalFileIO, path: str, data: bytes) -> bool:
        if path.startswith(str(place)):
            if written:
                raise OSError(errno.EIO, "the power went")
            written.append(path)
        return real(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", dies)
    with pytest.raises(OSError, match="the power went"):
        lake.repair_table(table.identifier)
    assert len(list(place.iterdir())) == 1
    monkeypatch.undo()
    rest = lake.repair_table(table.identifier, dry_run=True).rewritten
    assert [tag.name for tag in tags_of(lake, table)] == names
    assert sorted(path.name for path in place.iterdir()) == [f"tag-{name}" for name in names]
    assert rest == ()  # a look at the tags, with which a repair begins, has written them
    assert lake.repair_table(table.identifier).rewritten == ()


@pytest.mark.parametrize("stored", [False, True])
def test_a_clients_tag_in_a_directory_that_was_lost_leaves_the_others(lake: Lake, on_a_store: Lake, stored: bool) -> None:
    lake = on_a_store if stored else lake
    table = six_commits(lake)
    for name, number in (("one", 1), ("three", 3)):
        create_tag(lake, table, name, snapshot_id=number)
    place = Path(table.files.layout.tag_dir())
    shutil.rmtree(place)
    place.mkdir()
    (place / "tag-client").write_bytes((Path(table.location) / "snapshot/snapshot-5").read_bytes())
    assert [tag.name for tag in tags_of(lake, table)] == ["client", "one", "three"]
    assert sorted(path.name for path in place.iterdir()) == ["tag-client", "tag-one", "tag-three"]
    expire_snapshots(lake, table, keep(1))
    orphans_removed(lake, table)
    assert [at(table, tag.snapshot) for tag in tags_of(lake, table)] == [[0, 1, 2, 3, 4], [0], [0, 1, 2]]
    (place / "tag-one").unlink()  # as a client does
    assert [tag.name for tag in tags_of(lake, lake.open(table.identifier))] == ["client", "one", "three"]  # which alone keeps its rows
    (place / "tag-three").unlink()


@pytest.mark.parametrize("before", [["a"], ["a", "b"]])
def test_tags_that_a_client_renamed_are_no_lost_ones(lake: Lake, table: LakeTable, before: list[str]) -> None:
    for name in before:
        create_tag(lake, table, name, snapshot_id=2)
    assert len(tags_of(lake, table)) == len(before)
    place = Path(table.files.layout.tag_dir())
    for name in before:
        (place / f"tag-{name}").rename(place / f"tag-{name}2")
    assert [tag.name for tag in tags_of(lake, table)] == [f"{name}2" for name in before]


def test_tags_that_java_removed_with_what_they_name_are_no_lost_ones(lake: Lake, table: LakeTable) -> None:
    """They came back, and as they could not be read no expiry of the table removed a file any more."""
    for name, number in (("one", 1), ("two", 2)):
        create_tag(lake, table, name, snapshot_id=number)
    expire_snapshots(lake, table, keep(2))
    place = Path(table.files.layout.tag_dir())
    for tag in tags_of(lake, table):
        (place / f"tag-{tag.name}").unlink()
        for name in (tag.snapshot.base_manifest_list, tag.snapshot.delta_manifest_list):
            Path(table.files.layout.manifest(name)).unlink(missing_ok=True)
    newest = max(table.files.snapshot_ids())
    (place / "tag-client").write_bytes((Path(table.location) / f"snapshot/snapshot-{newest}").read_bytes())
    table = lake.open(table.identifier)
    assert [tag.name for tag in tags_of(lake, table)] == ["client"]
    assert [path.name for path in place.iterdir()] == ["tag-client"]
    expire_snapshots(lake, table, keep(1))
    assert table.files.snapshot_ids() == [newest]
