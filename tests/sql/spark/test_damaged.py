"""A table with files that are missing, cut off or changed: every way of reading names the table, the file and the way out."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import SnapshotNotExist, TableDamaged, Unavailable
from model.identifier import Identifier
from sql.spark.session.damage import Reading
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from tests.lake.register.damage import BREAKS, cut, data_files, forget_metadata, metadata_files, remove
from tests.short import diagonal

if TYPE_CHECKING:
    from sql.spark.session.pool import SparkPool

T = Identifier("default", "t")


def made(gateway: Gateway, warehouse: Path, *, options: str = "'bucket' = '1', 'bucket-key' = 'id'") -> Path:
    gateway.run(f"CREATE TABLE t (id INT, s STRING) WITH ({options})")
    gateway.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    gateway.run("INSERT INTO t VALUES (3, 'c')")
    return warehouse / "default.db/t"


@contextlib.contextmanager
def damage_told(file: str) -> Iterator[None]:
    with pytest.raises(TableDamaged) as told:
        yield
    assert told.value.status == 503
    assert file in told.value.message
    assert "CALL sys.check_table('default.t'" in told.value.message
    assert "again later" not in told.value.message
    assert "default.db" not in told.value.message, "where the warehouse lies is nobody's business"


@pytest.mark.parametrize(("how", "format_"), diagonal(BREAKS, ["parquet", "orc"]))
def test_a_damaged_data_file_is_told_by_scans_and_streams(gateway: Gateway, warehouse: Path, how: str, format_: str) -> None:
    place = made(gateway, warehouse, options=f"'file.format' = '{format_}'")
    file = data_files(place)[0]
    if (how, format_) == ("changed", "orc"):
        file.write_bytes(b"\0" * file.stat().st_size)  # ORC has no checksums: single flips are counted by the campaign
    else:
        BREAKS[how](file)
    with damage_told(file.name):
        gateway.run("SELECT * FROM t").collect()
    with damage_told(file.name):
        text = "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM t /*+ OPTIONS('scan.mode' = 'latest-full') */ LIMIT 3"
        gateway.run(text).collect()
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(3,)]  # nobody needs the file for it


@pytest.mark.parametrize(("how", "kind"), diagonal(BREAKS, ["manifest", "list"]))
def test_damaged_metadata_is_told_once_it_is_read_again(gateway: Gateway, warehouse: Path, how: str, kind: str) -> None:
    place = made(gateway, warehouse)
    file = metadata_files(place, kind)[-1]
    BREAKS[how](file)
    forget_metadata()
    for text in ("SELECT * FROM t", "SELECT COUNT(*) FROM t", "SELECT * FROM `t$files`", "CALL sys.compact('default.t')"):
        with damage_told(file.name):
            gateway.run(text).collect()


def test_a_schema_that_is_gone_is_told_and_missed_by_no_query(gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    """The catalog has it; who reads files alone misses it."""
    place = made(gateway, warehouse)
    gateway.run("ALTER TABLE t ADD x INT")
    rows = gateway.run("SELECT * FROM t").collect()
    remove(place / "schema/schema-0")
    assert gateway.run("SELECT * FROM t").collect() == rows
    assert any("schema-0" in str(row) for row in gateway.run("CALL sys.check_table('t')").collect())


def test_a_file_whose_snapshot_expired_meanwhile_is_no_damage(gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    made(gateway, warehouse)
    gateway.run("INSERT INTO t VALUES (4, 'd'), (5, 'e')")
    table, before = lake.open(T), lake.open(T).latest()
    assert before is not None
    file = data_files(warehouse / "default.db/t")[0]
    gateway.run("TRUNCATE TABLE t")
    assert isinstance(table.files.missing(str(file)), TableDamaged)  # a snapshot that is kept names it still
    gateway.run("CALL sys.expire_snapshots('default.t', retain_max => 1, retain_min => 1)")
    assert not file.exists()
    assert isinstance(table.files.missing(str(file)), Unavailable)
    forget_metadata()
    with pytest.raises((Unavailable, SnapshotNotExist)):
        list(table.files.live_entries(before))


def test_damage_of_one_table_leaves_the_others_alone(gateway: Gateway, warehouse: Path) -> None:
    place = made(gateway, warehouse)
    gateway.run("CREATE TABLE u (id INT)")
    gateway.run("INSERT INTO u VALUES (1)")
    cut(data_files(place)[0])
    assert gateway.run("SELECT * FROM u").collect() == [(1,)]


@pytest.mark.spark
@pytest.mark.parametrize("how", BREAKS)
def test_spark_tells_damage_as_everybody_does(on_spark: Gateway, warehouse: Path, how: str) -> None:
    place = made(on_spark, warehouse, options="'bucket' = '-1'")
    kept = {file: file.read_bytes() for file in data_files(place)}
    file = data_files(place)[0]
    texts = (
        "SELECT SUM(id), MAX(upper(s)) FROM t",
        "INSERT INTO t SELECT id + 1, s FROM t",
        "CALL sys.compact(`table` => 'default.t', order_strategy => 'order', order_by => 'id')",
        "CALL sys.analyze_table('t')",
    )
    for text in texts:
        BREAKS[how](file)
        with damage_told(file.name):
            on_spark.run(text).collect()
        file.write_bytes(kept[file])
    assert on_spark.run("SELECT SUM(id), MAX(upper(s)) FROM t").collect() == [(6, "C")]


@pytest.mark.spark
def test_a_failure_that_is_none_of_the_files_stays_what_it_is(on_spark: Gateway, warehouse: Path) -> None:
    made(on_spark, warehouse)
    with pytest.raises(Exception, match="zero") as told:
        on_spark.run("SELECT SUM(id / (id - id)) FROM t").collect()
    assert not isinstance(told.value, TableDamaged)


WORKER = 'Traceback (most recent call last):\n  File "pieces.py", line 118, in read_split\nmodel.errors.'
"""How Spark quotes what a reader of ours raised in a task."""


@pytest.mark.parametrize("kind", ["data", "list"])
def test_what_a_task_could_not_find_is_looked_for_by_who_can_tell(gateway: Gateway, lake: Lake, warehouse: Path, kind: str) -> None:
    """A stream that is behind: the file is live no more, and a snapshot that is kept still names it."""
    place = made(gateway, warehouse)
    file = data_files(place)[0] if kind == "data" else metadata_files(place, kind)[0]
    gateway.run("TRUNCATE TABLE t")
    table = lake.open(T)
    nobody_to_ask = TableFiles(LocalFileIO(), str(place), name="default.t").missing(str(file))
    told = f"{WORKER}{nobody_to_ask.error_class}: {nobody_to_ask.message}\n"
    remove(file)
    found = Reading(table).damage(told)
    assert isinstance(found, TableDamaged)
    assert file.name in found.message
    gateway.run("CALL sys.expire_snapshots('default.t', retain_max => 1, retain_min => 1)")
    assert isinstance(Reading(table).damage(told), Unavailable)


def test_what_a_task_says_of_damage_is_the_answer(gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    made(gateway, warehouse)
    gateway.run("CREATE TABLE u (id INT)")
    reading = Reading(lake.open(T))
    reading.add(lake.open(Identifier("default", "u")), None)
    for table in ("default.t", "default.u"):
        said = TableDamaged(table, file="data-1.parquet", problem="has 3 bytes where\nits manifest tells 4", snapshot_id=2)
        found = reading.damage(f"{WORKER}{said.error_class}: {said.message}\n")
        assert isinstance(found, TableDamaged)
        assert (found.resource_name, found.file, found.problem) == (table, said.file, said.problem)


def with_another_value(data: bytes, value: int) -> bytes:
    """One bit of the value in its page changed; its other places are statistics."""
    wanted = value.to_bytes(8, "little")
    for at in (at for at in range(len(data)) if data.startswith(wanted, at)):
        changed = data[: at + 3] + bytes((data[at + 3] ^ 4,)) + data[at + 4 :]
        if pq.ParquetFile(io.BytesIO(changed)).read().column("id")[0].as_py() != value:
            return changed
    raise AssertionError("the file does not hold the value as it is")


@pytest.mark.spark
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_verifies_the_checksums_of_pages(on_spark: Gateway, lake: Lake, pool: SparkPool, warehouse: Path, vectorized: str) -> None:
    """One bit of a value in a plain, uncompressed page: nothing but its checksum can tell."""
    from sql.spark.read.reads import dataframe
    from sql.spark.session.errors import translating

    options = "'bucket' = '1', 'bucket-key' = 'id', 'file.compression' = 'none', 'parquet.enable.dictionary' = 'false'"
    on_spark.run(f"CREATE TABLE t (id BIGINT, s STRING) WITH ({options})")
    on_spark.run("INSERT INTO t VALUES (1311768467294899695, 'text')")
    on_spark.run("INSERT INTO t SELECT id + 1, s FROM t")  # written by Spark
    for file, value in zip(sorted(data_files(warehouse / "default.db/t"), key=lambda f: f.stat().st_mtime_ns), (0, 1), strict=True):
        kept = file.read_bytes()
        file.write_bytes(with_another_value(kept, 1311768467294899695 + value))
        with damage_told(file.name):
            on_spark.run("SELECT SUM(id), MAX(upper(s)) FROM t").collect()
        table = lake.open(T)
        session = pool.root().newSession()
        session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        plan = plan_scan(table.files, table.schema, table.latest())
        with damage_told(file.name), translating("", {}, lambda: None, Reading(table)):
            dataframe(session, table, plan).collect()
        with damage_told(file.name):
            on_spark.run("SELECT id FROM t").collect()
        file.write_bytes(kept)
