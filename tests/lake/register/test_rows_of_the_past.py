"""Nobody goes back, or forward, to rows whose files are missing: what can be read stays, and the refusal says how the rest is reached."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from model.identifier import Identifier
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.damage import cut, remove
from tests.short import diagonal
from tests.sql.statements.test_deletions import delete, make

pytestmark = pytest.mark.damages
T = Identifier("default", "t")
ROLLBACKS = {
    "snapshot": "CALL sys.rollback_to(`table` => 't', snapshot_id => 2{})",
    "tag": "CALL sys.rollback_to(`table` => 't', tag => 'two'{})",
    "time": "CALL sys.rollback_to_timestamp(`table` => 't', `timestamp` => MILLIS{})",
    "Spark's": "CALL sys.rollback(`table` => 't', version => '2'{})",
}
HURT: dict[str, Callable[[Path], None]] = {"missing": remove, "cut": cut}


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    gateway.run("CREATE TABLE t (p INT, id INT) PARTITIONED BY (p)").close()
    for number in (1, 2, 3):
        gateway.run(f"INSERT INTO t VALUES ({number}, {number})").close()
    gateway.run("CALL sys.create_tag('t', 'two', 2)").close()
    return warehouse / "default.db/t"


def ids(gateway: Gateway, of: str = "t") -> list[int]:
    return sorted(row[0] for row in gateway.run(f"SELECT id FROM `{of}`").collect())


def data_file(place: Path, partition: int) -> Path:
    (path,) = place.glob(f"p={partition}/bucket-0/*.parquet")
    return path


@pytest.mark.parametrize("dry", [", dry_run => true", ""])
@pytest.mark.parametrize(("how", "to"), diagonal(HURT, ROLLBACKS))
def test_a_rollback_to_rows_that_are_lost_is_refused(gateway: Gateway, lake: Lake, place: Path, how: str, to: str, dry: str) -> None:
    lost = data_file(place, 1)
    HURT[how](lost)
    gateway.run("CALL sys.remove_unexisting_files('t', false)").close()
    assert ids(gateway) == [2, 3]
    moment = str(lake.snapshots(lake.open(T))[1].time_millis)
    with pytest.raises(TableDamaged) as told:
        gateway.run(ROLLBACKS[to].format(dry).replace("MILLIS", moment)).close()
    assert (lost.name in told.value.message, told.value.snapshot_id) == (True, 2)
    assert ids(gateway) == [2, 3]
    assert [tag.name for tag in lake.tags.all(lake.open(T))] == ["two"]
    for call in re.findall(r"CALL sys\.(?:create|remove|fast)\w+\(.*?\)", told.value.message):
        gateway.run(call).close()
    assert ids(gateway) == [2], "what is left of the snapshot"


def test_going_forward_to_rows_that_are_lost_is_refused(gateway: Gateway, place: Path) -> None:
    gateway.run("CALL sys.create_branch('t', 'b', 'two')").close()
    remove(data_file(place, 1))
    gateway.run("CALL sys.remove_unexisting_files('t', false)").close()
    with pytest.raises(TableDamaged, match="is missing; nothing was changed"):
        gateway.run("CALL sys.fast_forward('t', 'b')").close()
    assert ids(gateway) == [2, 3]
    gateway.run("CALL sys.remove_unexisting_files('t$branch_b', false)").close()
    gateway.run("CALL sys.fast_forward('t', 'b')").close()
    assert ids(gateway) == [2]


def test_rows_that_only_later_snapshots_lack_are_in_nobodys_way(gateway: Gateway, place: Path) -> None:
    remove(data_file(place, 3))
    gateway.run("CALL sys.rollback_to('t', 2)").close()
    assert ids(gateway) == [1, 2]


def test_one_of_many_files_of_a_directory_is_missed(gateway: Gateway, warehouse: Path) -> None:
    gateway.run("CREATE TABLE t (id INT) WITH ('write-only' = 'true')").close()
    for number in range(20):
        gateway.run(f"INSERT INTO t VALUES ({number})").close()
    gateway.run("CALL sys.create_tag('t', 'all')").close()
    lost = sorted((warehouse / "default.db/t/bucket-0").glob("*.parquet"))[11]
    gateway.run("TRUNCATE TABLE t").close()
    kept = lost.read_bytes()
    remove(lost)
    with pytest.raises(TableDamaged, match=lost.name):
        gateway.run("CALL sys.rollback_to('t', 'all')").close()
    assert ids(gateway) == []
    lost.write_bytes(kept)
    gateway.run("CALL sys.rollback_to('t', 'all')").close()
    assert ids(gateway) == [*range(20)]


def test_a_rollback_by_which_deleted_rows_would_come_back_is_refused(gateway: Gateway, warehouse: Path) -> None:
    make(gateway, "CREATE TABLE t (id INT) WITH ('bucket' = '-1')")
    gateway.run("INSERT INTO t VALUES (0), (1), (2), (3)").close()
    delete(gateway, 1)
    gateway.run("TRUNCATE TABLE t").close()
    (vectors,) = (warehouse / "default.db/t/index").iterdir()
    remove(vectors)
    with pytest.raises(TableDamaged, match=vectors.name):
        gateway.run("CALL sys.rollback_to('t', 2)").close()
    gateway.run("CALL sys.rollback_to('t', 1)").close()
    assert ids(gateway) == [0, 1, 2, 3]
