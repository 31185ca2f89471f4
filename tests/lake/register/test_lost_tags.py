"""Tags whose files are gone though no client removed them: they stay, and a repair writes the files again."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.expiry import create_tag, expire_snapshots, tags_of
from table.format.io.file_io import LocalFileIO
from tests.lake.kept import at, keep, six_commits
from tests.lake.rewrite.test_compaction import append


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
