"""Damage of a table that nobody reads: told by its listings, and told no more once it is mended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.commit.publish import Publisher
from lake.register import listed, standing
from lake.register.restored.after_restore import differences
from model.errors import Unavailable
from model.schema.change import SetOption
from model.schema.schema import column, new_schema
from table.format.io.directory import FileStatus
from table.format.io.file_io import LocalFileIO
from tests.lake.test_commit import T, append
from tests.lake.test_commit import table as table


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def newest_list(lake: Lake) -> str:
    """The newest snapshot's list of what it added."""
    latest = lake.open(T).latest()
    assert latest is not None
    return f"manifest/{latest.delta_manifest_list}"


def manifest(lake: Lake) -> str:
    latest = lake.open(T).latest()
    assert latest is not None
    return f"manifest/{lake.open(T).files.delta_manifests(latest)[0].file_name}"


WAYS: dict[str, tuple[Callable[[Lake], str], Callable[[Path], object]]] = {
    "a hole": (lambda lake: "snapshot/snapshot-2", Path.unlink),
    "no newest": (lambda lake: "snapshot/snapshot-3", Path.unlink),
    "torn newest": (lambda lake: "snapshot/snapshot-3", cut),
    "no schema": (lambda lake: "schema/schema-0", Path.unlink),
    "cut schema": (lambda lake: "schema/schema-0", cut),
    "cut list": (newest_list, cut),
    "no list": (newest_list, Path.unlink),
    "cut manifest": (manifest, cut),
    "no manifest": (manifest, Path.unlink),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_missing_or_cut_is_told_and_told_no_more_once_it_is_mended(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, way: str
) -> None:
    for name in ("a", "b", "c"):
        lake.commit(table, append(name))
    lake.alter_table(T, [SetOption(key="consumer.expiration-time", value="1 d")])
    lake._publisher.close()  # what was published is noted: manifests of others are on their way
    of, damage = WAYS[way]
    path = warehouse / "default.db/t" / of(lake)
    whole = path.read_bytes()
    damage(path)
    lake.standing.look_around(tables=None)
    lake.standing.look_around(tables=None)
    (trouble,) = lake.standing.troubles()
    assert path.name in trouble.problem
    (difference,) = differences(catalog, str(warehouse))
    assert path.name in difference.what.replace("snapshot 3", "snapshot-3")
    assert difference.statement.startswith("CALL sys.")
    path.write_bytes(whole)
    lake.standing.look_around(tables=None)
    assert not lake.standing.troubles()
    assert not [*differences(catalog, str(warehouse))]


def decided_only(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as away:
        away.setattr(Publisher, "publish", failing)
        lake.commit(lake.open(T), append("d"))


def failing(*_: object, **__: object) -> None:
    raise Unavailable("The store cannot be reached.")


def published(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    lake.commit(lake.open(T), append("d"))


def cut_lists(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an undo that removes what a rollback left, half done."""
    del monkeypatch
    there = {name for one in lake.snapshots(lake.open(T)) for name in (one.base_manifest_list, one.delta_manifest_list)}
    for path in Path(lake.open(T).location).glob("manifest/manifest-list-*"):
        if path.name not in there:
            cut(path)


@pytest.mark.parametrize("meanwhile", [decided_only, published, cut_lists])
def test_a_snapshot_that_is_rolled_back_while_it_is_looked_at_is_no_damage(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Lake, pytest.MonkeyPatch], None]
) -> None:
    for name in ("a", "b", "c"):
        lake.commit(table, append(name))
    lake._publisher.close()
    look, done = listed._of_schemas, list[object]()

    def before(*args: Any) -> Iterator[Any]:
        if not done:
            done.append(lake.history.rollback_to_snapshot(lake.open(T), 2))
            meanwhile(lake, monkeypatch)
        return look(*args)

    monkeypatch.setattr(listed, "_of_schemas", before)
    lake.standing.look_around(tables=None)
    assert done
    assert not lake.standing.troubles()


def test_a_schema_of_a_materialized_table_that_is_gone_is_told(lake: Lake, warehouse: Path) -> None:
    options = {"bucket": "-1", "type": "materialized-table"}
    lake.create_table(T, new_schema([column("id", "BIGINT")], options=options))
    lake.standing.look_around(tables=None)
    assert not lake.standing.troubles()
    (warehouse / "default.db/t/schema/schema-0").unlink()
    fresh = Lake(lake.catalog, lake.warehouse)
    fresh.standing.look_around(tables=None)
    (trouble,) = fresh.standing.troubles()
    assert "schema-0" in trouble.problem


def test_what_clients_expired_is_no_damage(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    for name in ("a", "b", "c"):
        lake.commit(table, append(name))
    (warehouse / "default.db/t/snapshot/snapshot-1").unlink()
    lake.standing.look_around(tables=None)
    assert not lake.standing.troubles()


def test_only_tables_that_are_written_to_are_listed_each_hour(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listings of 10,000 tables that nobody touches, once an hour, cost a hundred dollars a month."""
    listed: list[str] = []
    real = LocalFileIO.list

    def listing(io: LocalFileIO, path: str) -> list[FileStatus]:
        listed.append(path.rpartition("/")[2])
        return real(io, path)

    monkeypatch.setattr(LocalFileIO, "list", listing)
    now = [1_000_000.0]
    monkeypatch.setattr(standing, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))

    def looks(*, after: float) -> bool:
        now[0] += after
        listed.clear()
        lake.standing.look_around(tables=20)
        return "schema" in listed

    lake.commit(table, append("a"))
    assert looks(after=0)
    assert not looks(after=7200)
    lake.commit(table, append("b"))
    assert looks(after=60), "the last one is more than an hour ago"
    lake.commit(table, append("c"))
    assert not looks(after=60)
    assert looks(after=3600)
    assert not looks(after=23 * 3600)
    assert looks(after=3600)
    lake.standing.listing_seconds = 600.0
    assert looks(after=600)
