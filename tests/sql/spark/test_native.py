"""Buckets, order and values written by Spark equal what the format's own code says."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lake import Lake
from model.identifier import Identifier
from model.schema.schema import Schema, column, new_schema
from model.snapshot import CommitKind
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import CONF
from sql.spark.session.zone import plain
from sql.spark.write.bucket import bucket_column
from sql.spark.write.writes import write
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.bucket import buckets_of
from table.write.snapshot_builder import CommitRequest
from tests.short import diagonal, short

pytestmark = pytest.mark.spark
ROWS = 20_000


def text(chance: random.Random) -> str:
    return "".join(chance.choices(string.ascii_letters + "éß中", k=chance.randrange(20)))


def keys(kind: str, chance: random.Random) -> list[object]:
    start = datetime(1900, 1, 1)
    makers: dict[str, Callable[[], object]] = {
        "INT": lambda: chance.randint(-(2**31), 2**31 - 1),
        "BIGINT": lambda: chance.randint(-(2**63), 2**63 - 1),
        "SMALLINT": lambda: chance.randint(-(2**15), 2**15 - 1),
        "TINYINT": lambda: chance.randint(-128, 127),
        "BOOLEAN": lambda: chance.random() < 0.5,
        "STRING": lambda: text(chance),
        "BYTES": lambda: chance.randbytes(chance.randrange(20)),
        "DATE": lambda: date(1900, 1, 1) + timedelta(days=chance.randrange(80_000)),
        "TIMESTAMP(3)": lambda: start + timedelta(milliseconds=chance.randrange(10**13)),
        "TIMESTAMP(6)": lambda: start + timedelta(microseconds=chance.randrange(10**16)),
        "DECIMAL(10, 2)": lambda: Decimal(chance.randint(-(10**10) + 1, 10**10 - 1)) / 100,
        "DECIMAL(18, 3)": lambda: Decimal(chance.randint(-(10**18) + 1, 10**18 - 1)) / 1000,
        "DECIMAL(30, 2)": lambda: Decimal(chance.randint(-(10**20), 10**20)) / 100,
        "DOUBLE": lambda: chance.choice([0.0, -0.0, float("nan"), chance.random() * 1e9]),
        "FLOAT": lambda: float(np.float32(chance.random())),
    }
    return [None if chance.random() < 0.05 else makers[kind]() for _ in range(ROWS)]


def a_table(kinds: list[str]) -> Schema:
    names = [f"k{i}" for i in range(len(kinds))]
    return new_schema([column(n, k) for n, k in zip(names, kinds, strict=True)], options={"bucket": "13", "bucket-key": ",".join(names)})


KEYS = [
    ["INT"], ["BIGINT"], ["SMALLINT"], ["TINYINT"], ["BOOLEAN"], ["STRING"], ["BYTES"], ["DATE"], ["TIMESTAMP(3)"], ["TIMESTAMP(6)"],
    ["DECIMAL(10, 2)"], ["DECIMAL(18, 3)"], ["DECIMAL(30, 2)"], ["DOUBLE"], ["FLOAT"], 
    ["STRING", "INT"], ["STRING", "TIMESTAMP(6)", "STRING"],
]  # fmt: skip
CHOSEN = [["BIGINT"], ["TIMESTAMP(3)"], ["DECIMAL(18, 3)"], ["DECIMAL(30, 2)"], ["DOUBLE"], ["STRING", "TIMESTAMP(6)", "STRING"]]


@pytest.mark.parametrize("kinds", short(KEYS, CHOSEN), ids=" ".join)
def test_the_native_bucket_is_paimons(pool: SparkPool, kinds: list[str]) -> None:
    schema = a_table(kinds)
    chance = random.Random(7)
    columns = [pa.array(keys(kind, chance), field.type) for kind, field in zip(kinds, arrow_schema(schema.fields), strict=True)]
    rows = pa.Table.from_arrays(columns, names=list(schema.field_names))
    with pool.lease().running("statement") as session, plain(session):
        found = session.createDataFrame(rows).select(bucket_column(schema).alias("b")).toArrow()
    assert found.column("b").to_pylist() == buckets_of(schema, rows).tolist()


@pytest.mark.parametrize(("shape", "format_"), diagonal(["queue", "buckets", "partitioned"], ["parquet", "orc"]))
def test_a_buckets_rows_keep_the_querys_order(lake: Lake, pool: SparkPool, shape: str, format_: str) -> None:
    buckets = "1" if shape == "queue" else "3"
    partitions = ["p"] if shape == "partitioned" else []
    schema = new_schema(
        [column("k", "BIGINT"), column("n", "BIGINT"), column("p", "STRING")],
        partition_keys=partitions,
        options={"bucket": buckets, "bucket-key": "k", "file.format": format_, "target-file-row-num": "700"},
    )
    name = Identifier("default", f"t_{shape}_{format_}")
    lake.create_table(name, schema)
    table = lake.open(name)
    with pool.lease().running("statement") as session:
        for start in (0, 5000):
            frame = session.sql(
                "SELECT id * 7919 % 101 AS k, id AS n, IF(id % 3 = 0, NULL, 'p' || id % 2) AS p "
                f"FROM range({start}, {start + 5000}) ORDER BY id DESC"
            )
            request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(write(session, frame, table)), commit_user="u")
            lake.commit(table, request)
    plan = plan_scan(table.files, schema, table.latest())
    seen: dict[tuple[object, int], list[int]] = {}
    tops: dict[tuple[object, int], int] = {}
    for planned in plan.files:
        place = (planned.partition, planned.bucket)
        assert planned.file.min_sequence_number == tops.get(place, -1) + 1
        tops[place] = planned.file.max_sequence_number
        for batch in read_batches(table.files, schema, [planned]):
            seen.setdefault(place, []).extend(batch.column(1).to_pylist())
    assert sorted(n for rows in seen.values() for n in rows) == list(range(10_000))
    for rows in seen.values():
        first, second = [n for n in rows if n < 5000], [n for n in rows if n >= 5000]
        assert rows == first + second
        assert first == sorted(first, reverse=True)
        assert second == sorted(second, reverse=True)
    assert not Path(table.files.layout.staging_dir()).exists() or not any(Path(table.files.layout.staging_dir()).iterdir())


def test_statements_share_neither_settings_nor_views(pool: SparkPool) -> None:
    """Nor do the parts of one, as the INSERTs of a job, and its steps."""
    lease = pool.lease()
    with lease.running("one") as one, plain(one):
        one.range(1).createTempView("mine")
        with lease.running("other") as other:
            assert other.conf.get("spark.sql.ansi.enabled") == "true"
            assert not other.catalog.tableExists("mine")
    one.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with lease.running("one") as next_one:
        assert next_one.conf.get("spark.sql.session.timeZone") == "UTC"


def test_no_status_of_files_that_were_read_stays(pool: SparkPool) -> None:
    key = "spark.sql.hive.filesourcePartitionFileCacheSize"
    session = pool.session()
    session.conf.set(key, CONF[key])
    cache = session._jvm.org.apache.spark.sql.execution.datasources.FileStatusCache.getOrCreate(session._jsparkSession)  # type: ignore[union-attr]
    assert cache.getClass().getSimpleName().startswith("NoopCache")


@pytest.mark.parametrize("buckets", short(["-1", "1"], ["1"]))
def test_partitions_that_have_no_text_of_their_own_are_told_apart(lake: Lake, pool: SparkPool, buckets: str) -> None:
    """Bytes that are no text, zeros with and without a sign, and NaN, which is one partition in all of its files."""
    options = {"bucket": buckets, "target-file-row-num": "10"} | ({"bucket-key": "n"} if buckets == "1" else {})
    schema = new_schema([column("n", "BIGINT"), column("b", "BYTES"), column("d", "DOUBLE")], partition_keys=["b", "d"], options=options)
    name = Identifier("default", "t")
    lake.create_table(name, schema)
    table = lake.open(name)
    with pool.lease().running("statement") as session:
        frame = session.sql(
            "SELECT id AS n, element_at(array(x'FE', x'FF', x'61', x'76C3'), cast(id % 4 AS INT) + 1) AS b, "
            "element_at(array(0D, -0D, double('NaN')), cast(id % 3 AS INT) + 1) AS d FROM range(0, 360, 1, 1)"
        )
        written = write(session, frame, table)
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u"))
    assert len({new.partition for new in written}) == 12
    assert len(written) == 36
    seen: dict[bytes, list[tuple[int, int]]] = {}
    for new in written:
        seen.setdefault(new.partition, []).append((new.file.min_sequence_number, new.file.max_sequence_number))
    if buckets == "1":
        assert all(sorted(ranges) == [(0, 9), (10, 19), (20, 29)] for ranges in seen.values()), "no two files have the same numbers"
    rows = [
        row
        for batch in read_batches(table.files, schema, plan_scan(table.files, schema, table.latest()).files)
        for row in batch.to_pylist()
    ]
    expected = {n: ((b"\xfe", b"\xff", b"a", b"v\xc3")[n % 4], ("0.0", "-0.0", "nan")[n % 3]) for n in range(360)}
    assert {row["n"]: (row["b"], str(row["d"])) for row in rows} == expected
