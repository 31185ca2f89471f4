"""A partition whose row clients write in two ways: pypaimon leaves out the slot of a NULL in a long DECIMAL or TIMESTAMP."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lake import Lake
from lake.rewrite.partition_expiry import PartitionExpiry, drop_partitions, expired_partitions
from lake.tables.partitions import partitions
from model.errors import AnalysisError
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.format.manifests.entries import NewFile
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.fix_gateway import Ask
from tests.interop.strict import check_warehouse

T = Identifier("default", "t")
SHORT = 4 + 8 + 8
"""Bytes of pypaimon's row of one NULL: how many columns there are, which are NULL, and their slots."""
TYPES = ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "DECIMAL(20, 2)")


@pytest.fixture(params=TYPES)
def filled(request: pytest.FixtureRequest, ask: Ask, lake: Lake) -> Ask:
    """Two rows without a partition, of which a client wrote one, and one row with."""
    value = "12.50" if request.param.startswith("DECIMAL") else "TIMESTAMP '2024-01-02 03:04:05'"
    ask(f"CREATE TABLE t (id INT, p {request.param}) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    ask(f"INSERT INTO t VALUES (1, NULL), (2, {value})")
    written_by_pypaimon(lake, 3)
    assert sorted(row[0] for row in ask("SELECT id FROM t WHERE p IS NULL")) == [1, 3]
    return ask


def written_by_pypaimon(lake: Lake, row: int) -> None:
    table = lake.open(T)
    rows = pa.RecordBatch.from_pylist([{"id": row, "p": None}], schema=arrow_schema(table.schema.fields))
    (new,) = write_batches(table.files, table.schema, [rows])
    assert len(new.partition) > SHORT
    short = NewFile(partition=new.partition[:SHORT], bucket=new.bucket, file=new.file)
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(short,), commit_user="pypaimon"))


def left(ask: Ask) -> list[int]:
    return sorted(row[0] for row in ask("SELECT id FROM t"))


def test_it_is_one_partition(filled: Ask) -> None:
    assert sorted(row[0] for row in filled("SHOW PARTITIONS t"))[-1:] == ["p=__DEFAULT_PARTITION__"]
    assert len(filled("SHOW PARTITIONS t")) == 2
    assert filled("SELECT record_count, file_count FROM t$partitions WHERE `partition` LIKE '%DEFAULT%'") == [(2, 2)]


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t DROP PARTITION (p = NULL)", "CALL sys.drop_partition('t', 'p=__DEFAULT_PARTITION__')"],
)
def test_it_goes_whole(filled: Ask, warehouse: Path, statement: str) -> None:
    filled(statement)
    assert left(filled) == [2]
    check_warehouse(warehouse)


def test_it_is_compacted_as_one(filled: Ask, warehouse: Path) -> None:
    filled("CALL sys.compact('t', compact_strategy => 'full')")
    assert sorted(filled("SELECT record_count, file_count FROM t$partitions")) == [(1, 1), (2, 1)]
    assert left(filled) == [1, 2, 3]
    assert sorted(row[0] for row in filled("SELECT id FROM t WHERE p IS NULL")) == [1, 3]
    check_warehouse(warehouse)


def test_it_expires_whole_and_stays_where_something_came(filled: Ask, lake: Lake) -> None:
    table = lake.open(T)
    rules = PartitionExpiry.of(table, {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"})
    assert rules is not None
    old = expired_partitions(lake.catalog, table, partitions(table, table.latest()), rules)
    assert len(old) == 2
    written_by_pypaimon(lake, 4)
    drop_partitions(lake, table, old, idle=True)
    assert left(filled) == [1, 3, 4]
    old = expired_partitions(lake.catalog, table, partitions(table, lake.open(T).latest()), rules)
    drop_partitions(lake, table, old, idle=True)
    assert left(filled) == []


BYTES = ("FF", "FE", "EDA080", "61", "782736312720", "")
"""In hexadecimal; the first two are shown by the same text, and the fifth is the text ``x'61'`` and a blank."""


@pytest.mark.parametrize("present_only", ["", "IF EXISTS "])
def test_bytes_name_the_partition_of_just_these(ask: Ask, present_only: str) -> None:
    """Where the partition was only to go if it is there, it was answered as gone."""
    ask("CREATE TABLE t (id INT, p BYTES) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    ask("INSERT INTO t VALUES " + ", ".join(f"({n}, x'{value}')" for n, value in enumerate(BYTES)))
    ask(f"ALTER TABLE t DROP {present_only}PARTITION (p = x'FF')")
    assert left(ask) == [1, 2, 3, 4, 5]
    ask(f"ALTER TABLE t DROP {present_only}PARTITION (p = X'eda080'), PARTITION (p = x'')")
    assert left(ask) == [1, 3, 4]
    ask(f"ALTER TABLE t DROP {present_only}PARTITION (p = x'61')")
    assert left(ask) == [1, 4]
    ask(f"ALTER TABLE t DROP {present_only}PARTITION (p = 'x\\'61\\' ')")
    assert left(ask) == [1]
    with pytest.raises(AnalysisError, match=r"has no partition \(p = x'FD'\)"):
        ask("ALTER TABLE t DROP PARTITION (p = x'FD')")
    ask("ALTER TABLE t DROP IF EXISTS PARTITION (p = x'FD')")
    assert left(ask) == [1]


def test_bytes_are_no_partition_of_another_type(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    ask("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(AnalysisError, match="p is STRING"):
        ask("ALTER TABLE t DROP IF EXISTS PARTITION (p = x'61')")
