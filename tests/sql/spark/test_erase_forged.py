"""CALL sys.erase whose condition Spark decides, where a client wrote footers and bounds that leave a row out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.write.writer import write_batches
from tests.erased import holders
from tests.sql.spark.conftest import Run

VALUE, OTHER = "SIXTEENLETTERS99", "SIXTEENLETTERS00"


def test_a_row_group_whose_bounds_leave_a_row_out_hides_none(run: Run, lake: Lake, warehouse: Path) -> None:
    run("CREATE TABLE t (id INT, name STRING) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    table = lake.open(Identifier("default", "t"))
    (holding,), (other,) = (
        list(write_batches(table.files, table.schema, [pa.record_batch({"id": pa.array([1], pa.int32()), "name": [name]})]))
        for name in (VALUE, OTHER)
    )
    path = Path(table.location) / "bucket-0" / holding.file.file_name
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert VALUE.encode() in data[footer:]
    path.write_bytes(data[:footer] + data[footer:].replace(VALUE.encode(), OTHER.encode()))
    assert pq.read_table(path).column("name").to_pylist() == [VALUE]
    told = replace(holding.file, value_stats=other.file.value_stats, value_stats_cols=other.file.value_stats_cols)
    with table.write() as write:
        lake.commit(table, write.request(CommitKind.APPEND, adds=write.add([replace(holding, file=told)])))
    assert run(f"SELECT id FROM t WHERE name = '{VALUE}' AND abs(id) = 1") == [], "queries believe what is told"
    done = run(f"CALL sys.erase(`table` => 't', `where` => 'name = ''{VALUE}'' AND abs(id) = 1')")
    assert [row[:3] for row in done if row[0] == "table"] == [("table", "default.t", 1)]
    assert run("SELECT count(*) FROM t") == [(0,)]
    assert holders(warehouse, seen=VALUE) == []
