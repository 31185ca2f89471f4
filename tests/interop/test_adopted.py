"""What was taken over where it lay is read by Spark, pypaimon and Java Paimon with the same rows."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tests.interop import canonical
from tests.interop.conftest import READERS, Reader
from tests.running import RunningServer
from tests.short import short

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "s": ["a", None, "ü+% x"],
        "n": pa.array([None, 1, 2], pa.decimal128(12, 3)),
        "t": pa.array([0, 1_700_000_000_123_456, None], pa.timestamp("us")),
        "l": pa.array([[1], [], None], pa.list_(pa.int32())),
    }
)


@pytest.fixture
def hive(import_dir: Path) -> Path:
    """Parquet and ORC files under dates, numbers, odd texts and NULL."""
    root = import_dir / f"hive-{uuid4().hex[:8]}"
    for day, word in (("2024-02-29", "plain"), ("2024-02-29", "a%2Fb%25 +c"), ("__HIVE_DEFAULT_PARTITION__", "ü")):
        directory = root / f"day={day}" / f"word={word}" / "n%3Ao=7"
        directory.mkdir(parents=True)
        pq.write_table(ROWS, directory / "part-0.snappy.parquet")
        pq.write_table(ROWS, directory / "000001_0")
        orc.write_table(ROWS.drop_columns(["l"]), directory / "x.orc")
    return root


@pytest.mark.parametrize("reader", short(READERS, ["java_paimon"]), indirect=True)
def test_a_migrated_directory(server: RunningServer, database: str, reader: Reader, hive: Path) -> None:
    table = f"{database}.m"
    server.sql(f"CALL sys.migrate_table(source_type => 'hive', table => '{hive}', target_table => '{table}')")
    ours = canonical.rows(server.arrow(f"SELECT * FROM {table}"))
    assert len(ours) == 27
    theirs = reader.read(server.table_path(table))
    assert sorted(map(json.dumps, theirs["rows"])) == sorted(map(json.dumps, ours))
    by_spark = canonical.rows(server.arrow(f"SELECT * FROM {table} ORDER BY id"))
    assert sorted(map(json.dumps, by_spark)) == sorted(map(json.dumps, ours))
    assert sorted(server.sql(f"SELECT word, `n:o`, day, COUNT(id) FROM {table} GROUP BY word, `n:o`, day"), key=repr) == sorted(
        [["plain", 7, "2024-02-29", 6], ["a/b% +c", 7, "2024-02-29", 6], ["ü", 7, None, 6]], key=repr
    )
    assert server.value(f"SELECT SUM(id) FROM {table} WHERE day = DATE '2024-02-29' AND word = 'plain'") == 9
    server.sql(f"INSERT INTO {table} (id, day, word, `n:o`) SELECT id + 10, day, word, `n:o` FROM {table} WHERE day IS NULL AND id = 1")
    assert server.value(f"SELECT COUNT(*) FROM {table} WHERE day IS NULL AND id > 0 AND length(word) = 1") == 9
    assert reader.read(server.table_path(table), rows=False)["count"] == 30


@pytest.mark.parametrize("reader", short(READERS, ["pypaimon"]), indirect=True)
def test_a_registered_table(server: RunningServer, database: str, reader: Reader, import_dir: Path) -> None:
    import shutil

    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id INT, d DATE) PARTITIONED BY (d) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    server.sql(f"INSERT INTO {table} VALUES (1, DATE '2024-01-01'), (2, NULL)")
    lying = import_dir / f"w-{uuid4().hex[:8]}.db" / "lying"
    shutil.copytree(server.table_path(table), lying)
    server.sql(f"CALL sys.register_table(table => '{database}.r', path => '{lying}')")
    server.sql(f"INSERT INTO {database}.r SELECT id + 2, d FROM {database}.r")
    day = dt.date(2024, 1, 1).toordinal() - dt.date(1970, 1, 1).toordinal()
    assert sorted(reader.read(lying)["rows"], key=repr) == sorted([[1, day], [2, None], [3, day], [4, None]], key=repr)
