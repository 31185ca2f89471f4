"""Data files in each other's place, of the same size, rows and bounds: whoever reads one tells damage, and nobody gives its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from model.errors import TableDamaged
from tests.lake.register.damage import data_files, forget_metadata
from tests.short import short

OPTIONS = "'bucket' = '2', 'bucket-key' = 'b', 'file.compression' = 'none', 'parquet.enable.dictionary' = 'false', 'file.format' = '{}'"
BUCKETS = (1, 3)
"""Values of ``b`` that lie in two buckets."""
READS = (
    "SELECT * FROM {}",
    "SELECT v FROM {} WHERE v > 5",
    "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM {} /*+ OPTIONS('scan.mode' = 'latest-full') */ LIMIT 24",
    "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM {} /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */ "
    "LIMIT 24",
)
ON_SPARK = (
    "SELECT SUM(v * 7), MAX(upper(CAST(v AS STRING))) FROM {}",
    "INSERT INTO copy SELECT p, b, abs(v) FROM {}",
)


def filled(gateway: Gateway, format_: str, insert: str) -> None:
    """Tables t and u of two partitions, two buckets and two snapshots: sixteen files, alike but for one value."""
    for number, table in enumerate("tu"):
        gateway.run(f"CREATE TABLE {table} (p INT, b INT, v BIGINT) PARTITIONED BY (p) WITH ({OPTIONS.format(format_)})")
        for snapshot in range(2):
            first = 10 * number + 40 * snapshot + 100
            values = [(p, b, v) for p in (1, 2) for b in BUCKETS for v in (0, first + 4 * p + b, 1000)]
            gateway.run(insert.format(table, ", ".join(map(str, values))))


def swapped(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def told(gateway: Gateway, text: str, wanted: Sequence[str]) -> None:
    forget_metadata()
    with pytest.raises(TableDamaged) as damage:
        gateway.run(text).collect()
    assert damage.value.status == 503
    assert any(name in damage.value.message for name in wanted)


def pairs(files: Sequence[Path]) -> list[tuple[Path, Path]]:
    found = [(one, other) for one, other in combinations(files, 2) if one.stat().st_size == other.stat().st_size]
    assert {_kind(*pair) for pair in found} == {"other table", "other partition", "other bucket", "other snapshot"}
    return found


def _kind(one: Path, other: Path) -> str:
    if one.parents[2] != other.parents[2]:
        return "other table"
    if one.parents[1] != other.parents[1]:
        return "other partition"
    return "other bucket" if one.parent != other.parent else "other snapshot"


def campaign(gateway: Gateway, warehouse: Path, texts: Sequence[str], every: int) -> int:
    files = [file for table in "tu" for file in data_files(warehouse / f"default.db/{table}")]
    assert len(files) == 16
    for file in files:
        os.utime(file, ns=(1, 1))  # as files of one statement, whose times the system's clock does not tell apart
    for text in set(texts) & set(ON_SPARK[:1]):
        gateway.run(text.format("t")).collect()  # what was found sound is not looked at again
    whole = {table: gateway.run(f"SELECT * FROM {table}").collect() for table in "tu"}
    tried = pairs(files)[::every]
    for one, other in tried:
        swapped(one, other)
        for table in {file.parents[2].name for file in (one, other)}:
            names = [file.name for file in (one, other) if file.parents[2].name == table]
            for text in texts:
                told(gateway, text.format(table), names)
            faults = gateway.run(f"CALL sys.check_table('default.{table}', deep => true)").collect()
            assert {name for name in names if name in str(faults)} == set(names)
        swapped(one, other)
    assert {table: gateway.run(f"SELECT * FROM {table}").collect() for table in "tu"} == whole
    return len(tried)


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_merge_of_files_in_each_others_place_is_told(gateway: Gateway, warehouse: Path, format_: str) -> None:
    """A queue's rows would change their order."""
    gateway.run(f"CREATE TABLE t (b INT, v BIGINT) WITH ({OPTIONS.format(format_)})")
    for v in (10, 20, 30):
        gateway.run(f"INSERT INTO t VALUES (1, 0), (1, {v}), (1, 1000)")
    whole = gateway.run("SELECT * FROM t").collect()
    one, other, _ = data_files(warehouse / "default.db/t")
    swapped(one, other)
    told(gateway, "CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')", [one.name, other.name])
    swapped(one, other)
    assert gateway.run("SELECT * FROM t").collect() == whole
    gateway.run("CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')").collect()
    assert gateway.run("SELECT * FROM t").collect() == whole


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_files_in_each_others_place_are_told_here(gateway: Gateway, warehouse: Path, format_: str) -> None:
    filled(gateway, format_, "INSERT INTO {} VALUES {}")
    campaign(gateway, warehouse, READS, every=7)


@pytest.mark.spark
@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["orc"]))
def test_files_of_spark_in_each_others_place_are_told(on_spark: Gateway, warehouse: Path, format_: str) -> None:
    filled(on_spark, format_, "INSERT INTO {} SELECT /*+ COALESCE(1) */ * FROM (VALUES {}) AS x(p, b, v) WHERE abs(v) >= 0")
    on_spark.run("CREATE TABLE copy (p INT, b INT, v BIGINT) WITH ('bucket' = '-1')")
    campaign(on_spark, warehouse, (*READS, *ON_SPARK), every=40)
    assert on_spark.run("SELECT COUNT(*) FROM copy").collect() == [(0,)]


@pytest.mark.spark
@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("writer", ["here", "spark"])
@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_each_pair_of_files_in_each_others_place_is_told(on_spark: Gateway, warehouse: Path, format_: str, writer: str) -> None:
    values = "VALUES {}" if writer == "here" else "SELECT /*+ COALESCE(1) */ * FROM (VALUES {}) AS x(p, b, v) WHERE abs(v) >= 0"
    filled(on_spark, format_, "INSERT INTO {} " + values)
    on_spark.run("CREATE TABLE copy (p INT, b INT, v BIGINT) WITH ('bucket' = '-1')")
    print(f"{format_} of {writer}: {campaign(on_spark, warehouse, (*READS, *ON_SPARK), every=1)} pairs", flush=True)
