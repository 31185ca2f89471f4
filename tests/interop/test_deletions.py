"""Tables in which Spark with Paimon 2.1 deletes rows by deletion vectors, and whose rows it gives ids: read and appended to here."""

from __future__ import annotations

import pytest

from tests.interop.spark_paimon import SparkClient
from tests.running import Refused, RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]


KINDS = {
    "parquet": "'bucket' = '-1'",
    "orc": "'bucket' = '-1', 'file.format' = 'orc'",
    "avro": "'bucket' = '-1', 'file.format' = 'avro'",
    "queue": "'bucket' = '1', 'bucket-key' = 'id', 'write-only' = 'true'",
    "64 bits": "'bucket' = '-1', 'deletion-vectors.bitmap64' = 'true'",
}


@pytest.mark.parametrize("kind", [kind if kind == "queue" else pytest.param(kind, marks=pytest.mark.torture) for kind in KINDS])
def test_rows_that_spark_deleted_are_not_read(server: RunningServer, database: str, spark_client: SparkClient, kind: str) -> None:
    name = f"{database}.t"
    spark_client.sql(
        f"CREATE TABLE sluice.{name} (id INT, v STRING, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({KINDS[kind]}, "
        "'deletion-vectors.enabled' = 'true')"
    )
    spark_client.sql(f"INSERT INTO sluice.{name} SELECT CAST(id AS INT), concat('v', id), IF(id < 900, 'a', 'b') FROM range(1000)")
    spark_client.sql(f"DELETE FROM sluice.{name} WHERE id % 3 = 0 OR id BETWEEN 100 AND 199")
    left = [n for n in range(1000) if n % 3 and not 100 <= n < 200]
    assert server.value(f"SELECT COUNT(*) FROM {name}$table_indexes WHERE index_type = 'DELETION_VECTORS'") > 0
    assert sorted(row[0] for row in server.sql(f"SELECT * FROM {name}")) == left
    assert server.sql(f"SELECT COUNT(*) FROM {name}") == [[len(left)]]
    assert len(server.sql(f"SELECT * FROM {name} LIMIT 500")) == 500
    assert server.sql(f"SELECT p, COUNT(v), MIN(id) FROM {name} GROUP BY p ORDER BY p") == [["a", 533, 1], ["b", 66, 901]]
    if kind != "avro":
        server.sql(f"INSERT INTO {name} VALUES (1000, 'ours', 'b')")
        server.sql(f"CALL sys.compact(`table` => '{name}', compact_strategy => 'full', partitions => 'p=a')")
        left.append(1000)
    spark_client.sql(f"REFRESH TABLE sluice.{name}")
    assert sorted(spark_client.sql(f"SELECT id FROM sluice.{name}")) == [(n,) for n in left]
    spark_client.sql(f"DELETE FROM sluice.{name} WHERE id IN (1, 901, 1000)")
    left = [n for n in left if n not in (1, 901, 1000)]
    assert sorted(server.sql(f"SELECT id FROM {name}")) == [[n] for n in left]
    assert server.sql(f"CALL sys.check_table('{name}', deep => true)") == []


CHANGES = {
    "DELETE FROM {t} WHERE id = 2": "deletion vectors",
    "UPDATE {t} SET v = 'x' WHERE id = 2": "deletion vectors",
    "MERGE INTO {t} AS t USING (SELECT 2 AS id, 'x' AS v) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v": "deletion vectors",
    "CALL sys.erase(`table` => '{t}', `where` => 'id = 2')": "deletion vectors",
}


def test_rows_are_erased_once_their_vectors_are_merged(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    name, secret = f"{database}.e", "0xfeedfacecafe"
    spark_client.sql(
        f"CREATE TABLE sluice.{name} (id INT, v STRING) "
        "TBLPROPERTIES ('bucket' = '-1', 'deletion-vectors.enabled' = 'true', 'file.compression' = 'none', "
        "'compaction.delete-ratio-threshold' = '1')"  # the server's own compaction leaves its vectors
    )
    spark_client.sql(f"INSERT INTO sluice.{name} VALUES (1, '{secret}'), (2, 'b'), (3, 'c')")
    spark_client.sql(f"DELETE FROM sluice.{name} WHERE id = 1")
    server.sql(f"ALTER TABLE {name} SET ('rows.erasable' = 'true')")
    server.sql(f"CALL sys.create_tag('{name}', 'hides')")
    snapshots = server.value(f"SELECT MAX(snapshot_id) FROM {name}$snapshots")
    for text, said in CHANGES.items():
        with pytest.raises(Refused, match=said) as refused:
            server.sql(text.format(t=name))
        assert refused.value.status == 400
        assert "sys.compact" in str(refused.value)
    server.sql(f"CALL sys.rewrite_files('{name}')")
    assert server.value(f"SELECT MAX(snapshot_id) FROM {name}$snapshots") == snapshots
    server.sql(f"CALL sys.compact(`table` => '{name}', compact_strategy => 'full')")
    server.sql(f"UPDATE {name} SET v = 'x' WHERE id = 2")
    # The tag shows the row no more, and its file holds it on.
    assert [row[:3] for row in server.sql(f"CALL sys.erase(`table` => '{name}', `where` => 'id = 1', dry_run => true)")[:2]] == [
        ["table", name, 0], ["tag", "hides", 1],
    ]  # fmt: skip
    server.sql(f"CALL sys.erase(`table` => '{name}', `where` => 'id = 1')")
    assert server.sql(f"SELECT id, v FROM {name} ORDER BY id") == [[2, "x"], [3, "c"]]
    assert server.sql(f"SELECT tag_name FROM {name}$tags") == []
    assert [file for file in server.table_path(name).rglob("*") if file.is_file() and secret.encode() in file.read_bytes()] == []


def test_rows_inserted_here_have_ids_for_spark(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    name = f"{database}.r"
    spark_client.sql(f"CREATE TABLE sluice.{name} (id INT) TBLPROPERTIES ('bucket' = '-1', 'row-tracking.enabled' = 'true')")
    spark_client.sql(f"INSERT INTO sluice.{name} VALUES (1), (2)")
    server.sql(f"INSERT INTO {name} VALUES (3), (4)")
    spark_client.sql(f"REFRESH TABLE sluice.{name}")
    spark_client.sql(f"UPDATE sluice.{name} SET id = 40 WHERE id = 4")
    server.sql(f"INSERT INTO {name} VALUES (5)")
    spark_client.sql(f"REFRESH TABLE sluice.{name}")
    told = spark_client.sql(f"SELECT id, _ROW_ID, _SEQUENCE_NUMBER FROM sluice.{name} ORDER BY _ROW_ID")
    assert told == [(1, 0, 1), (2, 1, 1), (3, 2, 2), (40, 3, 3), (5, 4, 4)]
    assert server.sql(f"SELECT * FROM {name}$row_tracking ORDER BY _ROW_ID") == [list(row) for row in told]
    by_spark = server.sql(f"SELECT r.id, r._ROW_ID FROM {name}$row_tracking r JOIN {name} t ON r.id = t.id ORDER BY r._ROW_ID")
    assert by_spark == [[row[0], row[1]] for row in told]
    assert sorted(server.sql(f"SELECT id FROM {name}")) == [[1], [2], [3], [5], [40]]
