"""CALL sys.check_table finds what is damaged, and sys.remove_unexisting_files makes the rest readable again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from model.identifier import Identifier
from tests.lake.register.damage import BREAKS, data_files, forget_metadata, metadata_files
from tests.short import one_in
from tests.waiting import eventually

T = Identifier("default", "t")


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    gateway.run("CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p)")
    for n in range(4):
        gateway.run(f"INSERT INTO t VALUES ({n}, 'p{n % 2}')")
    return warehouse / "default.db/t"


def check(gateway: Gateway, arguments: str = "") -> list[tuple[object, ...]]:
    return gateway.run(f"CALL sys.check_table('t'{arguments})").collect()


def test_a_whole_table_has_no_faults(gateway: Gateway, place: Path) -> None:
    gateway.run("CALL sys.create_tag('t', 'one', 1)")
    gateway.run("CALL sys.create_branch('t', 'b', 'one')")
    gateway.run("CALL sys.compact('t')")
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 2, retain_min => 1)")
    assert check(gateway) == check(gateway, ", deep => true") == []


@pytest.mark.parametrize("name", ["50% off", "100%", "a%sb"])
def test_a_table_may_have_a_percent_sign_in_its_name(gateway: Gateway, name: str) -> None:
    gateway.run(f"CREATE TABLE `{name}` (id INT)").close()
    gateway.run(f"INSERT INTO `{name}` VALUES (1)").close()
    assert gateway.run(f"CALL sys.check_table('`{name}`')").collect() == []
    assert gateway.run(f"CALL sys.remove_unexisting_files('`{name}`')").collect() == []


def test_branches_with_schemas_of_their_own_are_whole(gateway: Gateway, place: Path) -> None:
    """Their files are read by their schemas, of which main has none."""
    for text in (
        "CALL sys.create_tag('t', 'one', 1)", "CALL sys.create_branch('t', 'b', 'one')", "ALTER TABLE `t$branch_b` ADD (c INT)",
        "INSERT INTO `t$branch_b` VALUES (7, 'p0', 3)", "ALTER TABLE t ADD (d STRING)", "INSERT INTO t VALUES (8, 'p1', 'x')",
    ):  # fmt: skip
        gateway.run(text).close()
    assert check(gateway, ", deep => true") == []
    assert gateway.run("CALL sys.check_table('default.t$branch_b', deep => true)").collect() == []


def test_the_newest_snapshot_that_needs_what_is_lost_is_told(gateway: Gateway, place: Path) -> None:
    """Not the one that brought it, nor a branch's or tag's while the table's latest lacks rows."""
    for text in (
        "CALL sys.create_tag('t', 'one', 1)", "CALL sys.create_branch('t', 'b', 'one')", "INSERT INTO `t$branch_b` VALUES (7, 'p9')",
    ):  # fmt: skip
        gateway.run(text).close()
    first, of_branch = (next(place.glob(f"p={name}/bucket-0/*")) for name in ("p1", "p9"))
    (zeroth,) = (
        Path(str(path)) for (path,) in gateway.run("SELECT file_path FROM `t$files` /*+ OPTIONS('scan.snapshot-id'='1') */").collect()
    )

    def told(*lost: Path) -> list[tuple[object, object, object]]:
        for path in lost:
            path.rename(path.with_name("away"))
        forget_metadata()
        found = [(row[0], row[1], row[3]) for row in check(gateway)]
        for path in lost:
            path.with_name("away").rename(path)
        return found

    assert told(zeroth) == [("main", 4, str(zeroth))]
    assert told(of_branch) == [("b", 2, str(of_branch))]
    assert told(first) == [("main", 4, str(first))]
    gateway.run("ALTER TABLE t DROP PARTITION (p = 'p1')").close()
    assert told(first)[0][:2] == ("main", 4)
    gateway.run("ALTER TABLE t DROP PARTITION (p = 'p0')").close()
    assert told(zeroth) == [("b", 2, str(zeroth))], "which is its latest, while main needs it no more"
    manifest = place / "manifest" / str(gateway.run("SELECT file_name FROM `t$manifests`").collect()[0][0])
    assert told(manifest)[0][:2] == ("main", 6)


@pytest.mark.parametrize("how", BREAKS)
def test_a_damaged_data_file_is_found_and_taken_away(gateway: Gateway, place: Path, how: str) -> None:
    file = data_files(place)[0]
    BREAKS[how](file)
    ((branch, snapshot, partition, path, rows, problem),) = check(gateway, ", deep => true")
    assert (branch, partition, path, rows) == ("main", file.parent.parent.name, str(file), 1)
    assert snapshot is not None
    assert problem
    with pytest.raises(TableDamaged):
        gateway.run("SELECT * FROM t").collect()
    told = gateway.run("CALL sys.remove_unexisting_files('t', deep => true)").collect()
    assert [(row[3], row[-1]) for row in told] == [(str(file), True)]
    with pytest.raises(TableDamaged):  # a dry run it was
        gateway.run("SELECT * FROM t").collect()
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false, deep => true)")
    assert len(gateway.run("SELECT * FROM t").collect()) == 3
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(3,)]
    assert gateway.run("CALL sys.remove_unexisting_files('t')").collect() == []
    gateway.run("INSERT INTO t VALUES (9, 'p0')")
    assert len(gateway.run("SELECT * FROM t").collect()) == 4


@pytest.mark.damages
@pytest.mark.parametrize("how", BREAKS)
def test_a_damaged_manifest_is_found_and_what_it_told_of_is_lost(gateway: Gateway, lake: Lake, place: Path, how: str) -> None:
    file = metadata_files(place, "manifest")[1]
    BREAKS[how](file)
    assert {row[3] for row in check(gateway)} == {str(file)}  # whatever this process remembers of it
    forget_metadata()
    with pytest.raises(TableDamaged):
        gateway.run("SELECT * FROM t").collect()
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    forget_metadata()
    assert len(gateway.run("SELECT * FROM t").collect()) == 3
    latest = lake.open(T).latest()
    assert latest is not None
    assert latest.total_record_count == 3
    gateway.run("INSERT INTO t VALUES (9, 'p0')")
    gateway.run("CALL sys.compact('t')")
    assert len(gateway.run("SELECT * FROM t").collect()) == 4


@pytest.mark.parametrize("deletion", ["ALTER TABLE t DROP PARTITION (p = 'p0')", "TRUNCATE TABLE t"])
def test_what_a_lost_manifest_deleted_never_comes_back(gateway: Gateway, lake: Lake, place: Path, deletion: str) -> None:
    gateway.run(deletion)
    before, file = lake.open(T).latest(), metadata_files(place, "manifest")[-1]
    file.unlink()
    forget_metadata()
    told = gateway.run("CALL sys.remove_unexisting_files('t')").collect()
    with pytest.raises(TableDamaged, match=rf"{file.name} .*which files it deleted is told by nothing else") as refused:
        gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert [refused.value.problem] == [row[5] for row in told]
    assert lake.open(T).latest() == before
    (statement,) = re.findall(r"CALL sys\.repair_table\('[^']+'\)", refused.value.problem)
    gateway.run(statement)
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(0,), (1,), (2,), (3,)]  # as before the deletion, which is told


def test_what_a_lost_manifest_deleted_is_no_matter_where_nothing_of_it_is_left(gateway: Gateway, place: Path) -> None:
    gateway.run("ALTER TABLE t DROP PARTITION (p = 'p0')")
    metadata_files(place, "manifest")[-1].unlink()
    forget_metadata()
    for file in data_files(place / "p=p0"):
        file.unlink()
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(1,), (3,)]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another(path: Path) -> None:
    """What lay there of another one of its kind, as after a copy under the wrong name."""
    other = {"snapshot-4": "snapshot-1", "snapshot-2": "snapshot-1", "schema-0": "schema-1", "schema-1": "schema-0"}[path.name]
    path.write_bytes((path.parent / other).read_bytes())


def a_letter(path: Path) -> None:
    """A name in it is another; it is read as well as before."""
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b"manifest-list-", b"manifest-lisu-", 1).replace(b'"p"', b'"q"', 1))
    assert path.read_bytes() != kept


def all_published(lake: Lake) -> bool:
    """Whether Postgres was told of every snapshot's file; until then a torn one is written again by whoever needs it."""
    table = lake.open(T)
    with lake.catalog.reading() as tx:
        return all(row.published for branch in ("main", "b") for row in tx.snapshots.history(table.table_id, branch))


SMALL_FILES = ["snapshot/snapshot-4", "snapshot/snapshot-2", "schema/schema-0", "tag/tag-one"]
IN_BRANCH = ["branch/branch-b/snapshot/snapshot-2", "branch/branch-b/schema/schema-0"]
NO_DAMAGE = {
    ("tag/tag-one", "missing"),
    ("tag/tag-one", "another"),
    ("tag/tag-one", "a letter"),
    *((name, "another") for name in IN_BRANCH),
}
"""Whoever removes a tag's file removes the tag, and whoever writes one moves it; the branch has no other to put there."""
CHANGES: dict[str, Callable[[Path], None]] = {
    **BREAKS,
    "emptied": emptied,
    "a directory": a_directory,
    "another": of_another,
    "a letter": a_letter,
}


@pytest.mark.parametrize(
    ("name", "how"),
    one_in(3, [(name, how) for name in (*SMALL_FILES, *IN_BRANCH) for how in CHANGES if (name, how) not in NO_DAMAGE]),
)
def test_a_changed_file_of_a_snapshot_schema_or_tag_is_told_and_written_again(
    gateway: Gateway, lake: Lake, place: Path, name: str, how: str
) -> None:
    """By the very statement that the check names; SQL needs none of these, readers of files do."""
    gateway.run("ALTER TABLE t SET ('snapshot.time-retained' = '2 d')")
    gateway.run("CALL sys.create_tag('t', 'one', 1)")
    gateway.run("CALL sys.create_branch('t', 'b', 'one')")
    gateway.run("INSERT INTO `t$branch_b` VALUES (7, 'p0')")
    assert eventually(lambda: all_published(lake))
    path, kept = place / name, (place / name).read_bytes()
    CHANGES[how](path)
    ((_, _, _, told, _, problem),) = check(gateway)
    assert told == str(path)
    (statement,) = re.findall(r"CALL sys\.repair_table\('[^']+'\)", str(problem))
    done = gateway.run(statement).collect()
    assert ("written again", str(path)) in [(row[0], row[2]) for row in done]
    assert json.loads(path.read_bytes()) == json.loads(kept)
    assert check(gateway, ", deep => true") == []
    assert gateway.run(statement).collect() == []
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(0,), (1,), (2,), (3,)]
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["one"]
    gateway.run("INSERT INTO t VALUES (8, 'p1')")


@pytest.mark.parametrize("kind", ["manifest", "list"])
def test_a_directory_in_place_of_metadata_is_damage(gateway: Gateway, place: Path, kind: str) -> None:
    file = metadata_files(place, kind)[-1]
    a_directory(file)
    forget_metadata()
    with pytest.raises(TableDamaged, match="named by snapshot"):
        gateway.run("SELECT * FROM t").collect()
    assert str(file) in {row[3] for row in check(gateway)}


@pytest.mark.damages
@pytest.mark.parametrize("kind", ["manifest", "list"])
@pytest.mark.parametrize("how", ["missing", "cut", "changed"])
def test_what_a_lost_manifest_told_is_not_lost_while_it_is_remembered(gateway: Gateway, place: Path, kind: str, how: str) -> None:
    """A server that has read it writes it anew, with every row; who restarts it first loses what the manifest told."""
    assert len(gateway.run("SELECT * FROM t").collect()) == 4
    file = metadata_files(place, kind)[-1]
    BREAKS[how](file)
    assert str(file) in {row[3] for row in check(gateway)}
    ((_, _, _, path, _, problem, *_),) = gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false, deep => true)").collect()
    assert (path, "is known still and written anew" in problem) == (str(file), True)
    forget_metadata()
    assert len(gateway.run("SELECT * FROM t").collect()) == 4
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(4,)]
    assert gateway.run("CALL sys.remove_unexisting_files('t', deep => true)").collect() == []
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
    assert check(gateway, ", deep => true") == []


@pytest.mark.damages
@pytest.mark.parametrize("name", ["manifest", "list", "tag/tag-one", "schema/schema-0", "snapshot/snapshot-2"])
def test_a_link_that_leads_out_of_the_table_is_one_row_of_the_check(gateway: Gateway, lake: Lake, place: Path, name: str) -> None:
    gateway.run("CALL sys.create_tag('t', 'one', 1)")
    assert eventually(lambda: all_published(lake))
    file = metadata_files(place, name)[-1] if name in ("manifest", "list") else place / name
    file.unlink()
    file.symlink_to("/etc/hostname")
    forget_metadata()
    assert str(file) in {row[3] for row in check(gateway)}
    if name not in ("manifest", "list"):
        gateway.run("CALL sys.repair_table('t')")
        assert check(gateway, ", deep => true") == []
        assert not file.is_symlink()
