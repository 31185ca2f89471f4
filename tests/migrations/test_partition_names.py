"""Rows of partitions that earlier releases named without escaping: renamed in place, and counted anew where two shared one."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa

from catalog import CatalogStore
from lake import Lake
from migrations import downgrade, upgrade
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches

T = Identifier("default", "t")
_VALUES = [("x/b=y", "z"), ("x", "y/b=z"), ("100%", "1"), ("plain", "1")]


def test_partitions_get_names_of_their_own(empty_dsn: str, tmp_path: Path) -> None:
    upgrade(empty_dsn)
    catalog = CatalogStore(empty_dsn, max_connections=2)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    columns = [column("a", "STRING"), column("b", "STRING"), column("v", "INT")]
    lake.create_table(T, new_schema(columns, partition_keys=["a", "b"], options={"bucket": "-1"}))
    table = lake.open(T)
    rows = {"a": [a for a, _ in _VALUES], "b": [b for _, b in _VALUES], "v": [1] * len(_VALUES)}
    written = write_batches(table.files, table.schema, [pa.RecordBatch.from_pydict(rows, schema=arrow_schema(table.schema.fields))])
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u"))
    lake.mark_partitions_done(table, [{"a": "100%", "b": "1"}])
    downgrade(empty_dsn, "0022")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        # What the release before wrote of these commits: one row of the two that were called alike, and names as they stand.
        insert = """INSERT INTO table_partition (table_id, branch, name, spec, record_count, file_size, file_count, last_file_millis,
                                                 total_buckets)
                    SELECT table_id, 'main', 'a=x/b=y/b=z', '{"a": "x/b=y", "b": "z"}', 2, 9, 2, 9, -1 FROM sluice_table"""
        conn.execute(insert)
        conn.execute("UPDATE table_partition SET name = 'a=100%/b=1' WHERE name = 'a=100%25/b=1'")
    upgrade(empty_dsn)
    listed = {(row.spec["a"], row.spec["b"]): (row.record_count, row.done) for row in lake.partition_page(lake.open(T))}
    assert listed == {values: (1, values == ("100%", "1")) for values in _VALUES}
    lake.close()
    catalog.close()
