"""A catalog that is older than its table's branches and tags: nothing of them goes before somebody has taken them in."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from catalog.backup.archive import restore_archive, write_archive
from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.orphans import remove_orphan_files
from model.errors import TableDamaged, TableDiverged
from model.identifier import Identifier
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.damage import forget_metadata

T = Identifier("default", "t")
EXPIRE = "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)"


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    """A table of four snapshots, the first of them tagged, with a branch from it that has a row of its own."""
    gateway.run("CREATE TABLE t (id INT)")
    gateway.run("INSERT INTO t VALUES (1)")
    gateway.run("CALL sys.create_tag('t', 'one')")
    gateway.run("CALL sys.create_branch('t', 'b', 'one')")
    gateway.run("INSERT INTO `t$branch_b` VALUES (9)")
    gateway.run("TRUNCATE TABLE t")
    gateway.run("INSERT INTO t VALUES (2)")
    gateway.run("INSERT INTO t VALUES (3)")
    assert gateway.run("SELECT id FROM `t$branch_b`").collect() == [(1,), (9,)]
    return warehouse / "default.db/t"


def forgotten(catalog: CatalogStore, lake: Lake) -> None:
    """What a catalog from before the branch knows of it."""
    with catalog.transaction() as tx:
        tx.branches.drop(lake.open(T).table_id, "b")


def test_a_branch_that_only_the_files_have_is_told_kept_and_adopted(
    gateway: Gateway, lake: Lake, catalog: CatalogStore, place: Path
) -> None:
    forgotten(catalog, lake)
    lake.standing.look_around(tables=None)
    assert [(trouble.statement, "branch b" in trouble.problem) for trouble in lake.standing.troubles()] == [
        ("CALL sys.repair_table('default.t')", True)
    ]
    ((branch, _, _, path, _, problem),) = gateway.run("CALL sys.check_table('t')").collect()
    assert (branch, path, "CALL sys.repair_table('default.t')" in str(problem)) == ("b", str(place / "branch/branch-b"), True)
    gateway.run("CALL sys.delete_tag('t', 'one')")
    gateway.run(EXPIRE)
    remove_orphan_files(lake, lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)
    forget_metadata()
    assert gateway.run("CALL sys.repair_table('t', true)").collect() == [("branch registered", 0, "b", True)]
    assert gateway.run("CALL sys.repair_table('t')").collect() == [("branch registered", 0, "b", False)]
    assert gateway.run("SELECT id FROM `t$branch_b`").collect() == [(1,), (9,)]
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
    gateway.run("INSERT INTO `t$branch_b` VALUES (10)")
    lake.standing.look_around(tables=None)
    assert lake.standing.troubles() == []


def orphans_removed(lake: Lake, name: Identifier = T) -> None:
    remove_orphan_files(lake, lake.open(name), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)


@pytest.mark.parametrize("sweep", ["orphans", "orphans of the branch", "expiry"])
def test_what_a_known_branch_or_main_has_beyond_an_older_catalog_stays(
    gateway: Gateway, lake: Lake, dsn: str, place: Path, tmp_path: Path, sweep: str
) -> None:
    """Whichever branch the call names: the data of all lies in one directory."""
    gateway.run("CALL sys.delete_tag('t', 'one')")
    write_archive(dsn, tmp_path / "older", warehouse="")
    gateway.run("INSERT INTO `t$branch_b` VALUES (10)")
    gateway.run("CALL sys.create_tag('t$branch_b', 'late')")
    gateway.run("TRUNCATE TABLE `t$branch_b`")
    gateway.run("INSERT INTO `t$branch_b` VALUES (12)")
    gateway.run("INSERT INTO t VALUES (4)")
    rows = {name: sorted(gateway.run(f"SELECT id FROM `{name}`").collect()) for name in ("t", "t$branch_b")}
    restore_archive(dsn, tmp_path / "older")
    forget_metadata()
    fresh = Lake(lake.catalog, str(place.parents[1]))
    if sweep == "expiry":
        with pytest.raises(TableDiverged):
            gateway.run(EXPIRE)
    else:
        orphans_removed(fresh, T if sweep == "orphans" else replace(T, branch="b"))
    forget_metadata()
    for name, expected in rows.items():
        gateway.run(f"CALL sys.repair_table('{name}')")
        assert sorted(gateway.run(f"SELECT id FROM `{name}`").collect()) == expected
    tagged = fresh.open(replace(T, branch="b"))
    entries = list(tagged.files.live_entries(fresh.history.version(tagged, "late")))
    assert len(entries) == 3
    assert all(Path(tagged.files.data_path(tagged.schema, entry)).exists() for entry in entries)


def test_a_foreign_file_in_the_place_of_a_branchs_snapshot_keeps_its_rows(
    gateway: Gateway, lake: Lake, place: Path, dsn: str, tmp_path: Path
) -> None:
    """The table is diverged; what lies there may be what somebody wants to have back."""
    write_archive(dsn, tmp_path / "older", warehouse="")
    gateway.run("INSERT INTO `t$branch_b` VALUES (10)")
    theirs = max((place / "branch/branch-b/snapshot").glob("snapshot-*"), key=lambda path: int(path.name[9:]))
    held = theirs.read_bytes()
    restore_archive(dsn, tmp_path / "older")
    theirs.unlink()
    gateway.run("INSERT INTO `t$branch_b` VALUES (11)")
    theirs.write_bytes(held)
    before = set(place.glob("bucket-0/*"))
    orphans_removed(lake)
    assert set(place.glob("bucket-0/*")) == before


def test_a_branch_that_was_dropped_is_none(gateway: Gateway, lake: Lake, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory may still lie there."""

    def stuck(*_: object) -> None:
        raise OSError("busy")

    with monkeypatch.context() as patch:
        patch.setattr("table.format.io.file_io.LocalFileIO.delete_tree", stuck)
        gateway.run("CALL sys.delete_branch('t', 'b')")
    assert (place / "branch/branch-b/schema").exists()
    assert gateway.run("CALL sys.check_table('t')").collect() == []
    assert gateway.run("CALL sys.repair_table('t')").collect() == []
    lake.standing.look_around(tables=None)
    assert lake.standing.troubles() == []


def tampered(place: Path, name: str) -> Path:
    """A branch that the catalog does not know, of which one file cannot be read."""
    own = place / "branch/branch-b"
    if name == "tag":
        (own / "tag").mkdir(exist_ok=True)
        (own / "tag/tag-x").write_text("{")
        return own / "tag/tag-x"
    if name == "snapshot":
        (own / "snapshot/snapshot-2").write_text("{")
        return own / "snapshot/snapshot-2"
    body = json.loads((own / "snapshot/snapshot-2").read_bytes())
    lost = place / "manifest" / str(body["deltaManifestList"])
    lost.unlink()
    return lost


@pytest.mark.parametrize("name", ["snapshot", "tag", "manifest list"])
def test_nothing_is_deleted_while_a_file_of_an_unknown_branch_cannot_be_read(
    gateway: Gateway, lake: Lake, catalog: CatalogStore, place: Path, name: str
) -> None:
    forgotten(catalog, lake)
    lost = tampered(place, name)
    before = {path for path in place.rglob("*") if path.is_file()}
    forget_metadata()
    sweeps: list[Callable[[], object]] = [lambda: gateway.run(EXPIRE), lambda: orphans_removed(lake)]
    for sweep in sweeps:
        with pytest.raises(TableDamaged, match=rf"{lost.name}.* branch b needs it") as refused:
            sweep()
        assert refused.value.file == str(lost)
    assert {path for path in place.rglob("*") if path.is_file()} == before
    assert [snapshot.id for snapshot in lake.snapshots(lake.open(T))] == [1, 2, 3, 4]
    assert gateway.run("CALL sys.repair_table('t')").collect() == ([] if name != "tag" else [("branch registered", 0, "b", False)])
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(2,), (3,)]


@pytest.mark.parametrize("branch", ["", "branch/branch-b/"])
def test_nothing_is_deleted_while_a_clients_tag_cannot_be_read(gateway: Gateway, lake: Lake, place: Path, branch: str) -> None:
    torn = place / f"{branch}tag/tag-x"
    torn.parent.mkdir(exist_ok=True)
    torn.write_text("{")
    for sweep in (lambda: gateway.run(EXPIRE), lambda: orphans_removed(lake)):
        with pytest.raises(TableDamaged, match="tag-x is no tag"):
            sweep()
    torn.unlink()
    gateway.run(EXPIRE)
    orphans_removed(lake)


@pytest.mark.parametrize("change", ["no schema", "no name of a branch"])
def test_what_only_may_be_a_branch_keeps_its_files_too(
    gateway: Gateway, lake: Lake, catalog: CatalogStore, place: Path, change: str
) -> None:
    """Its schemas are lost, or its name is one that only other engines give."""
    forgotten(catalog, lake)
    gateway.run("CALL sys.delete_tag('t', 'one')")
    own = place / "branch/branch-b"
    if change == "no schema":
        shutil.rmtree(own / "schema")
    else:
        own.rename(own.with_name("branch-b$1"))
    before = set(place.glob("bucket-0/*"))
    gateway.run(EXPIRE)
    orphans_removed(lake)
    assert set(place.glob("bucket-0/*")) == before
    shutil.rmtree(place / "branch")
    orphans_removed(lake)
    assert len(set(place.glob("bucket-0/*"))) == len(before) - 2


def a_file(place: Path) -> None:
    (place / "tag/tag-one").unlink()


def all_files(place: Path) -> None:
    shutil.rmtree(place / "tag")


@pytest.mark.parametrize(("lost", "expired"), [(a_file, True), (all_files, True), (all_files, False)])
def test_a_tag_whose_file_is_lost_stays_and_is_written_again(
    gateway: Gateway, lake: Lake, place: Path, lost: Callable[[Path], None], expired: bool
) -> None:
    """Where no client could have removed it, or where it alone keeps its rows."""
    gateway.run("CALL sys.delete_branch('t', 'b')")
    if expired:
        gateway.run(EXPIRE)
    lost(place)
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["one"]
    remove_orphan_files(lake, lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)
    ((_, snapshot_id, _, path, _, problem),) = gateway.run("CALL sys.check_table('t', deep => true)").collect()
    assert (snapshot_id, path, str(problem)[:10]) == (1, str(place / "tag/tag-one"), "is missing")
    assert gateway.run("CALL sys.repair_table('t')").collect() == [("written again", 1, path, False)]
    forget_metadata()
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
    gateway.run("CALL sys.create_branch('t', 'back', 'one')")
    assert gateway.run("SELECT id FROM `t$branch_back`").collect() == [(1,)]


def test_a_tag_that_only_the_catalog_has_can_be_deleted(gateway: Gateway, lake: Lake, place: Path) -> None:
    """Such as one that pypaimon deleted after its snapshot had expired: it removes nothing but the tag's file."""
    gateway.run("CALL sys.delete_branch('t', 'b')")
    gateway.run(EXPIRE)
    a_file(place)
    gateway.run("CALL sys.delete_tag('t', 'one')")
    assert lake.tags.all(lake.open(T)) == []
    assert gateway.run("CALL sys.check_table('t')").collect() == []


def test_a_tag_whose_file_a_client_removed_is_none(gateway: Gateway, lake: Lake, place: Path) -> None:
    """While its snapshot is there, another tag has the snapshot, or what it named went with it, as Java's client does."""
    gateway.run("CALL sys.delete_branch('t', 'b')")
    gateway.run("CALL sys.create_tag('t', 'two', 2)")
    a_file(place)
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["two"]
    gateway.run("CALL sys.create_tag('t', 'one', 1)")
    gateway.run(EXPIRE)
    (place / "tag/tag-one").rename(place / "tag/tag-renamed")
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["renamed", "two"]
    snapshot = next(tag.snapshot for tag in lake.tags.all(lake.open(T)) if tag.name == "two")
    (place / "tag/tag-two").unlink()
    for name in ("baseManifestList", "deltaManifestList"):
        (place / "manifest" / snapshot[name]).unlink()
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["renamed"]
    assert gateway.run("CALL sys.repair_table('t')").collect() == []
