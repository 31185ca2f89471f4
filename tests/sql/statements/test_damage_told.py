"""Whatever is wrong with a table's files: who meets it is told statements that find and mend it, and it stays on record until then."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from model.identifier import Identifier
from sql.statements.procedures.analyze import commit_statistics
from tests.bare import without_rights
from tests.lake.register.damage import BREAKS, data_files, forget_metadata, metadata_files, wait_for_notes
from tests.short import diagonal, one_in

T = Identifier("default", "t")
STATEMENTS = re.compile(r"CALL sys\.\w+\((?:[^()']|'[^']*')*\)")


def turn_a_bit(share: float) -> Callable[[Path], None]:
    """One bit of a file, at a share of its length: of a page, of what stands before it, or of the footer."""

    def turn(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(len(data) * share)] ^= 0x10
        path.write_bytes(data)

    return turn


def swap(path: Path) -> None:
    """Put another file of the table in its place."""
    shutil.copy(next(other for other in data_files(path.parents[1]) if other != path), path)


def fill(path: Path) -> None:
    """The same length of zeros, as a disk leaves after the power went."""
    path.write_bytes(bytes(path.stat().st_size))


HOW = BREAKS | {"swapped": swap, "zeros": fill} | {f"bit at {share}": turn_a_bit(share) for share in (0.05, 0.2, 0.4, 0.6, 0.97)}


def run(gateway: Gateway, text: str) -> list[tuple[object, ...]]:
    return gateway.run(text).collect()


def met(gateway: Gateway) -> TableDamaged | None:
    """The damage that a reader of all rows meets; None where all of them are read as they were written."""
    forget_metadata()
    try:
        assert sorted(run(gateway, "SELECT id, name FROM t")) == [(n, f"name {n}") for n in range(600)]
    except TableDamaged as damage:
        return damage
    return None


@pytest.mark.parametrize(("how", "format_"), diagonal(HOW, ["parquet", "orc"]))
def test_what_is_told_of_a_data_file_finds_and_mends_it(gateway: Gateway, lake: Lake, warehouse: Path, format_: str, how: str) -> None:
    run(gateway, f"CREATE TABLE t (id INT, name STRING) WITH ('file.format' = '{format_}')")
    for part in range(3):
        rows = ", ".join(f"({n}, 'name {n}')" for n in range(part * 200, part * 200 + 200))
        run(gateway, f"INSERT INTO t VALUES {rows}")
    file = data_files(warehouse / "default.db/t")[0]
    whole = file.read_bytes()
    HOW[how](file)
    damage = met(gateway)
    if damage is None:
        return  # that bit changes nothing that is read
    check, remove, *_ = STATEMENTS.findall(damage.message)
    for _ in range(2):
        lake.standing.look_around(tables=None)
        (trouble,) = lake.standing.troubles()
        assert trouble.statement == check
    found = run(gateway, check)
    assert [row[3] for row in found] == [str(file)], damage.message
    assert [row[3] for row in run(gateway, remove)] == [str(file)]
    file.write_bytes(whole)
    assert met(gateway) is None
    lake.standing.look_around(tables=None)
    if how != "missing":  # of bytes nobody knows that they are well again until they are looked at
        assert lake.standing.troubles() != []
        assert run(gateway, check) == []
    assert lake.standing.troubles() == []
    HOW[how](file)
    run(gateway, remove.replace(")", ", dry_run => false)"))
    forget_metadata()
    assert len(run(gateway, "SELECT id, name FROM t")) == 400
    assert run(gateway, check) == found, "earlier snapshots name it"


@pytest.mark.parametrize("kind", ["manifest", "list", "snapshot"])
def test_a_file_that_may_not_be_read_is_told_until_it_may(gateway: Gateway, lake: Lake, warehouse: Path, kind: str) -> None:
    """That it is there says nothing of whether it can be read."""
    place = warehouse / "default.db/t"
    run(gateway, "CREATE TABLE t (id INT)")
    run(gateway, "INSERT INTO t VALUES (1)")
    lake.standing.look_around(tables=None)
    assert lake.standing.troubles() == []
    wait_for_notes(lake)
    file = place / "snapshot/snapshot-1" if kind == "snapshot" else metadata_files(place, kind)[-1]
    damage = TableDamaged("default.t", file=str(file), problem="cannot be read: Permission denied")
    with without_rights(file):
        lake.standing.met(damage)
        for _ in range(2):
            lake.standing.look_around(tables=None)
            (trouble,) = lake.standing.troubles()
            assert trouble.problem.startswith(f"{file.name} {damage.problem}")
    lake.standing.look_around(tables=None)
    assert lake.standing.troubles() == []


@pytest.mark.parametrize("to", ["itself", "nowhere"])
@pytest.mark.parametrize("name", ["snapshot/snapshot-1", "snapshot/snapshot-2", "snapshot/snapshot-3", "schema/schema-0", "tag/tag-one"])
def test_a_link_that_leads_nowhere_is_a_file_that_is_missing(gateway: Gateway, lake: Lake, warehouse: Path, name: str, to: str) -> None:
    """It is told as damage, never as a store that is away, and the repair writes the file in its place."""
    place = warehouse / "default.db/t"
    run(gateway, "CREATE TABLE t (id INT)")
    for number in range(3):
        run(gateway, f"INSERT INTO t VALUES ({number})")
    run(gateway, "CALL sys.create_tag('t', 'one', 1)")
    run(gateway, "CALL sys.create_tag('t', 'too', 1)")
    file = place / name
    whole = file.read_bytes()
    wait_for_notes(lake)
    file.unlink()
    file.symlink_to(file.name if to == "itself" else to)
    forget_metadata()
    assert sorted(run(gateway, "SELECT id FROM t")) == [(0,), (1,), (2,)]
    if name == "snapshot/snapshot-1" or name.startswith("tag"):  # as where a client expired it, or removed the tag
        run(gateway, "CALL sys.repair_table('t')")
        assert run(gateway, "CALL sys.check_table('t')") == []
        return
    found, *others = run(gateway, "CALL sys.check_table('t')")
    assert others == []
    assert found[3] == str(file)
    assert "sys.repair_table" in str(found[-1])
    run(gateway, "CALL sys.repair_table('t')")
    assert run(gateway, "CALL sys.check_table('t')") == []
    assert not file.is_symlink()
    assert json.loads(file.read_bytes()) == json.loads(whole)


@pytest.mark.damages
@pytest.mark.parametrize("how", ["missing", "cut", "zeros", "another key", "no numbers"])
def test_damaged_statistics_are_told_by_their_file_and_cost_nothing_else(gateway: Gateway, lake: Lake, warehouse: Path, how: str) -> None:
    """They were a bug of the server's, and no check named them."""
    run(gateway, "CREATE TABLE t (id INT)")
    run(gateway, "INSERT INTO t VALUES (1)")
    table = lake.open(T)
    found = {"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 1, "mergedRecordSize": 9, "colStats": {}}
    commit_statistics(lake, table, found)
    assert [row[:2] for row in run(gateway, "SELECT * FROM t$statistics")] == [(1, 0)]
    (file,) = (warehouse / "default.db/t/statistics").iterdir()
    if how in HOW:
        HOW[how](file)
    else:
        file.write_text(json.dumps({"snapshotIx": 1} if how == "another key" else found | {"snapshotId": 1e308}))
    with pytest.raises(TableDamaged) as raised:
        run(gateway, "SELECT * FROM t$statistics")
    assert file.name in raised.value.message
    assert "CALL sys.analyze_table('default.t')" in raised.value.message
    (fault,) = run(gateway, raised.value.check)
    assert fault[3] == str(file)
    assert "CALL sys.analyze_table('default.t')" in str(fault[-1])
    assert run(gateway, "SELECT * FROM t") == [(1,)]
    assert run(gateway, "CALL sys.remove_unexisting_files('t')") == []
    commit_statistics(lake, lake.open(T), found)
    assert [row[:2] for row in run(gateway, "SELECT * FROM t$statistics")] == [(1, 0)]


NO_CONSUMERS = (
    "",
    "null",
    "[]",
    "{}",
    '{"nextSnapshot": 1e400}',
    '{"nextSnapshot": "x"}',
    '{"nextSnapshot": null}',
    "\x00",
    '{"nextSnapshot": [1]}',
)


@pytest.mark.parametrize("text", one_in(3, NO_CONSUMERS))
def test_a_file_that_tells_no_consumer_is_damage_until_it_is_reset(gateway: Gateway, warehouse: Path, text: str) -> None:
    run(gateway, "CREATE TABLE t (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    run(gateway, "INSERT INTO t VALUES (1)")
    run(gateway, "CALL sys.reset_consumer('t', 'c', 1)")
    file = warehouse / "default.db/t/consumer/consumer-c"
    file.write_text(text)
    run(gateway, "SELECT * FROM t$consumers")
    with pytest.raises(TableDamaged, match="tells no consumer"):
        run(gateway, "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
    run(gateway, "CALL sys.reset_consumer('t', 'c', 1)")
    assert run(gateway, "SELECT * FROM t$consumers") == [("c", 1)]
    run(gateway, "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")


STRAYS = {
    "tag/tag-new": "sys.create_tag('default.t', 'new')",
    "tag/tag-": "remove the file",
    "snapshot/snapshot-50": "sys.repair_table('default.t')",
    "consumer/consumer-c": "sys.reset_consumer",
}


@pytest.mark.damages
@pytest.mark.parametrize(("text", "name"), diagonal(["", "{", "[]", "\x00\xff"], STRAYS))
def test_what_stops_expiry_is_found_by_what_its_refusal_names(gateway: Gateway, warehouse: Path, name: str, text: str) -> None:
    """A file that a client left torn stopped expiry for good, and each way out that was named found nothing."""
    expire = "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)"
    run(gateway, "CREATE TABLE t (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    for number in range(3):
        run(gateway, f"INSERT INTO t VALUES ({number})")
    file = warehouse / "default.db/t" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    with pytest.raises(TableDamaged) as raised:
        run(gateway, expire)
    assert STRAYS[name] in raised.value.message
    assert "remove_unexisting_files" not in raised.value.message or name.startswith("consumer")
    (fault,) = run(gateway, raised.value.check)
    assert fault[3] == str(file)
    assert STRAYS[name] in str(fault[-1])
    helps = STATEMENTS.findall(str(fault[-1]))
    if name == "consumer/consumer-c":
        helps = ["CALL sys.reset_consumer('t', 'c', 4)"]
    if helps:
        run(gateway, helps[0])
    else:
        file.unlink()
    assert run(gateway, "CALL sys.check_table('t')") == []
    run(gateway, expire)
    assert sorted(run(gateway, "SELECT id FROM t")) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("branch", ["main", "b"])
@pytest.mark.parametrize("number", [1, 2])
def test_another_tables_snapshot_is_told_by_who_removes_orphans(gateway: Gateway, warehouse: Path, branch: str, number: int) -> None:
    """It was told as a warehouse that is away, without the file at fault."""
    for name in ("t", "other"):
        run(gateway, f"CREATE TABLE {name} (id INT)")
        for value in range(3):
            run(gateway, f"INSERT INTO {name} VALUES ({value})")
    run(gateway, "CALL sys.create_tag('t', 'one', 1)")
    run(gateway, "CALL sys.create_branch('t', 'b', 'one')")
    run(gateway, "INSERT INTO t$branch_b VALUES (7)")
    run(gateway, "INSERT INTO t$branch_b VALUES (8)")
    place = warehouse / "default.db/t"
    file = (place if branch == "main" else place / "branch/branch-b") / f"snapshot/snapshot-{number}"
    shutil.copy(warehouse / f"default.db/other/snapshot/snapshot-{number}", file)
    for path in place.rglob("*-*"):
        os.utime(path, (time.time() - 3600,) * 2)
    remove = f"CALL sys.remove_orphan_files(`table` => 'default.t', older_than => '{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S}')"
    with pytest.raises(TableDamaged) as raised:
        run(gateway, remove)
    assert raised.value.file == str(file)
    (repair,) = [text for text in STATEMENTS.findall(raised.value.message) if "repair" in text]
    run(gateway, repair)
    run(gateway, remove)
    assert sorted(run(gateway, "SELECT id FROM t")) == [(0,), (1,), (2,)]
    assert sorted(run(gateway, "SELECT id FROM t$branch_b")) == [(0,), (7,), (8,)]
