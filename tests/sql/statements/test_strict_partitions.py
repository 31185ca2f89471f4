"""`partition.timestamp-format.strict`: no rows of a partition without a time, by any way in; those that are there are kept and merged."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import InvalidData
from model.identifier import Identifier

TABLE = (
    "CREATE TABLE t (id INT, dt STRING, hour STRING) PARTITIONED BY (dt, hour) "
    "WITH ('bucket' = '-1', 'partition.timestamp-pattern' = '$dt $hour:00', 'partition.timestamp-formatter' = 'yyyyMMdd HH:mm'{})"
)
STRICT = ", 'partition.timestamp-format.strict' = 'true'"
NO_TIME = [("'2024'", "'01'"), ("'20240102'", "'25'"), ("'20240102'", "NULL"), ("''", "''"), ("'2024-01-02'", "'01'")]


@pytest.mark.parametrize(("day", "hour"), NO_TIME)
def test_rows_of_a_partition_without_a_time_are_refused(gateway: Gateway, lake: Lake, day: str, hour: str) -> None:
    gateway.run(TABLE.format(STRICT))
    gateway.run("INSERT INTO t VALUES (1, '20240102', '03')")
    with pytest.raises(InvalidData, match=r"^Partition dt=.*/hour=.* has no time that .* Nothing was committed\.$"):
        gateway.run(f"INSERT INTO t VALUES (2, '20240102', '04'), (3, {day}, {hour})")
    assert gateway.run("SELECT id FROM t").collect() == [(1,)]
    table = lake.open(Identifier("default", "t"))
    assert len(list(table.files.live_entries(table.latest()))) == 1


def test_what_was_written_before_is_merged_and_changed(gateway: Gateway) -> None:
    gateway.run(TABLE.format(", 'rows.erasable' = 'true'"))
    for id_ in range(1, 7):
        gateway.run(f"INSERT INTO t VALUES ({id_}, 'never', '03')")
    gateway.run("ALTER TABLE t SET ('partition.timestamp-format.strict' = 'true')")
    gateway.run("CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')")
    gateway.run("DELETE FROM t WHERE id = 1")
    gateway.run("UPDATE t SET id = 9 WHERE id = 2")
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(3,), (4,), (5,), (6,), (9,)]
    with pytest.raises(InvalidData, match="dt=ever/hour=03"):
        gateway.run("UPDATE t SET dt = 'ever' WHERE id = 3")
    gateway.run("UPDATE t SET dt = '20240102' WHERE id = 3")
    assert gateway.run("SELECT id FROM t WHERE dt = '20240102'").collect() == [(3,)]


def test_without_a_format_nothing_is_asked(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt) WITH ('partition.timestamp-format.strict' = 'true')")
    gateway.run("INSERT INTO t VALUES (1, 'any')")
    assert gateway.run("SELECT id FROM t").collect() == [(1,)]
