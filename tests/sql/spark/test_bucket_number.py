"""A table whose number of buckets was changed: a partition keeps its own until it is written anew, so that each key stays in one queue."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import InvalidOption

pytestmark = pytest.mark.spark


def test_a_partition_takes_no_rows_by_another_number_until_it_is_written_anew(on_spark: Gateway) -> None:
    on_spark.run(
        "CREATE TABLE t (id INT, n INT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '4', 'bucket-key' = 'id');"
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'a'), (3, 1, 'a'), (1, 1, 'b');"
        "INSERT INTO t VALUES (1, 2, 'a'), (2, 2, 'a'), (3, 2, 'a');"
        "ALTER TABLE t SET ('bucket' = '3')"
    )
    for text in ("INSERT INTO t VALUES (1, 3, 'a')", "INSERT INTO t SELECT id, 3, p FROM t WHERE p = 'a'"):
        with pytest.raises(InvalidOption, match=r"written with 4 buckets and the table now has 3.*INSERT OVERWRITE"):
            on_spark.run(text)
    on_spark.run("INSERT INTO t VALUES (1, 1, 'c')")  # a new partition has the new number at once
    assert sorted(on_spark.run("SELECT p, count(*) FROM t GROUP BY p").collect()) == [("a", 6), ("b", 1), ("c", 1)]
    on_spark.run("INSERT OVERWRITE t PARTITION (p = 'a') SELECT id, n FROM t WHERE p = 'a'")
    on_spark.run("INSERT INTO t VALUES (1, 3, 'a'), (2, 3, 'a'), (3, 3, 'a')")
    with pytest.raises(InvalidOption, match="written with 4 buckets"):
        on_spark.run("INSERT INTO t VALUES (9, 9, 'b')")
    rows = on_spark.run("SELECT id, n FROM t WHERE p = 'a'").collect()
    assert {key: [n for one, n in rows if one == key] for key in (1, 2, 3)} == {1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3]}
    assert {total for (total,) in on_spark.run("SELECT total_buckets FROM t$partitions WHERE partition <> 'p=b'").collect()} == {3}
