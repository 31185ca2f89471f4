"""CALL sys.check_table finds what is damaged, and sys.remove_unexisting_files makes the rest readable again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from model.identifier import Identifier
from tests.lake.register.damage import BREAKS, data_files, forget_metadata, metadata_files

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
