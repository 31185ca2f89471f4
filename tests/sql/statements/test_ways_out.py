"""What is told of damage leads on: no statement that is named is refused with the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from model.identifier import Identifier
from tests.lake.register.damage import forget_metadata, metadata_files

T = Identifier("default", "t")
REPAIR = "CALL sys.repair_table('default.t', true)"


def run(gateway: Gateway, text: str) -> list[tuple[object, ...]]:
    return gateway.run(text).collect()


def lost(place: Path, name: str) -> None:
    """Take a file of the table's metadata away, which no server remembers."""
    (place / "manifest" / name).unlink()
    forget_metadata()


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    run(gateway, "CREATE TABLE t (id INT)")
    run(gateway, "INSERT INTO t VALUES (1)")
    return warehouse / "default.db/t"


def test_a_lost_list_leads_to_the_repair(gateway: Gateway, lake: Lake, place: Path) -> None:
    run(gateway, "INSERT INTO t VALUES (2)")
    newest = lake.open(T).latest()
    assert newest is not None
    lost(place, newest.base_manifest_list)
    for text in ("SELECT * FROM t", "CALL sys.remove_unexisting_files('t', dry_run => false)"):
        with pytest.raises(TableDamaged) as raised:
            run(gateway, text)
        assert REPAIR in raised.value.message
        assert "remove_unexisting_files" not in raised.value.message
    told = [str(row[-1]) for row in run(gateway, "CALL sys.check_table('t')")]
    assert any(REPAIR in problem for problem in told), told
    run(gateway, REPAIR.replace(", true", ""))
    assert run(gateway, "SELECT * FROM t") == [(1,)]
    assert run(gateway, "CALL sys.check_table('t')") == []


def test_a_lost_manifest_is_told_as_what_it_is(gateway: Gateway, lake: Lake, place: Path) -> None:
    (manifest,) = metadata_files(place, "manifest")
    lost(place, manifest.name)
    with pytest.raises(TableDamaged) as raised:
        run(gateway, "CALL sys.repair_table('t')")
    assert raised.value.file == str(manifest)
    assert "is missing" in raised.value.message
    assert "no other snapshot can" in raised.value.message
    assert "CALL sys.remove_unexisting_files('default.t')" in raised.value.message
    run(gateway, "CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert run(gateway, "SELECT * FROM t") == []


def test_where_nothing_is_left_only_a_copy_helps(gateway: Gateway, lake: Lake, place: Path) -> None:
    newest = lake.open(T).latest()
    assert newest is not None
    lost(place, newest.delta_manifest_list)
    with pytest.raises(TableDamaged) as raised:
        run(gateway, "CALL sys.repair_table('t')")
    assert raised.value.file.endswith(newest.delta_manifest_list)
    assert "a backup brings all of it back" in raised.value.message
    assert "sys.repair_table" not in raised.value.message
    assert "sys.remove_unexisting_files" not in raised.value.message


def test_a_damaged_branch_is_told_by_its_name(gateway: Gateway, lake: Lake, place: Path) -> None:
    run(gateway, "CALL sys.create_tag('t', 'one', 1)")
    run(gateway, "CALL sys.create_branch('t', 'b', 'one')")
    run(gateway, "INSERT INTO `t$branch_b` VALUES (3)")
    newest = lake.open(Identifier("default", "t", "b")).latest()
    assert newest is not None
    lost(place, newest.base_manifest_list)
    with pytest.raises(TableDamaged) as raised:
        run(gateway, "CALL sys.fast_forward('t', 'b')")
    assert raised.value.resource_name == "default.t$branch_b"
    assert str(place) not in raised.value.message
    assert "CALL sys.repair_table('default.t$branch_b', true)" in raised.value.message
    run(gateway, "CALL sys.repair_table('default.t$branch_b')")
    run(gateway, "CALL sys.fast_forward('t', 'b')")
    assert run(gateway, "SELECT * FROM t") == [(1,)]
