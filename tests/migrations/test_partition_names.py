"""Rows of partitions that earlier releases named otherwise: renamed in place, or counted anew."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
from psycopg.types.json import Jsonb

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
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
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


def test_partitions_of_bytes_that_are_no_text_are_listed_anew(empty_dsn: str, tmp_path: Path) -> None:
    """The row of before stayed for ever beside that of later rows, and could be dropped without them."""
    upgrade(empty_dsn)
    catalog = CatalogStore(empty_dsn, max_connections=2)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    columns = [column("p", "BYTES"), column("v", "INT")]
    for name in (T, Identifier("default", "other")):
        lake.create_table(name, new_schema(columns, partition_keys=["p"], options={"bucket": "-1", "partition.legacy-name": "false"}))
        table = lake.open(name)
        values = [b"\xed\xa0\x80", b"a"] if name == T else [b"a"]
        rows = pa.RecordBatch.from_pydict({"p": values, "v": [1] * len(values)}, schema=arrow_schema(table.schema.fields))
        written = tuple(write_batches(table.files, table.schema, [rows]))
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))
    downgrade(empty_dsn, "0034")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        insert = "UPDATE table_partition SET name = %s, spec = %s WHERE name = %s"  # as the release before wrote it
        assert conn.execute(insert, (f"p={UNKNOWN * 3}", Jsonb({"p": UNKNOWN * 3}), f"p={UNKNOWN}")).rowcount == 1
        conn.execute("UPDATE snapshot_pointer SET listed = true")
    upgrade(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert conn.execute("SELECT count(*) FROM snapshot_pointer WHERE listed").fetchall() == [(1,)], "the other table's"
    listed = [(row.spec["p"], row.record_count) for row in lake.partition_page(lake.open(T))]
    assert sorted(listed) == [("a", 1), (UNKNOWN, 1)]
    lake.close()
    catalog.close()
