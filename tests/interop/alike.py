"""What a Spark user says on a day: each statement means the same in our catalog and in Paimon's own in a directory.

``@`` stands for the catalog, ``%`` for the database, ``$.`` for both. Later statements build on earlier ones.
"""

from __future__ import annotations

TYPES = (
    "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(12, 3), s STRING, c CHAR(3), "
    "vc VARCHAR(9), x BINARY, dt DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, a ARRAY<STRING>, mp MAP<STRING, INT>, "
    "r STRUCT<p: INT, q: ARRAY<DOUBLE>> COMMENT 'both'"
)
VALUES = (
    "true, 1, 2, 3, 4, 1.5, 2.5, 12.345, 's', 'abc', 'vc', X'00FF', DATE '2024-02-29', TIMESTAMP '2024-01-01 01:02:03.123456', "
    "TIMESTAMP_NTZ '2024-01-01 01:02:03.123456', array('a', NULL), map('k', 1), named_struct('p', 1, 'q', array(1.0D))"
)

ORC = "PARTITIONED BY (p) TBLPROPERTIES ('file.format' = 'orc')"

STATEMENTS = f"""
CREATE TABLE $.types ({TYPES}) COMMENT 'every type'
INSERT INTO $.types VALUES ({VALUES})
SELECT * FROM $.types
DESCRIBE $.types
SELECT fields, partition_keys, primary_keys, comment FROM $.`types$schemas`
CREATE TABLE $.types (id INT)
CREATE TABLE IF NOT EXISTS $.types (id INT)
CREATE TABLE $.nodb.x (id INT)
SELECT * FROM $.missing
DROP TABLE $.missing
DROP TABLE IF EXISTS $.missing
CREATE TABLE $.t (id INT NOT NULL COMMENT 'the id', v STRING DEFAULT 'none', n BIGINT, p STRING) {ORC}
INSERT INTO $.t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')
INSERT INTO $.t (id, p) VALUES (3, 'x')
INSERT INTO $.t VALUES (NULL, 'a', 1, 'x')
INSERT INTO $.t PARTITION (p = 'z') VALUES (4, 'd', 4)
INSERT INTO $.t VALUES (5, 'e')
SELECT * FROM $.t ORDER BY id
SHOW PARTITIONS $.t
SHOW PARTITIONS $.t PARTITION (p = 'x')
INSERT OVERWRITE $.t PARTITION (p = 'y') VALUES (20, 'bb', 22)
SELECT * FROM $.t ORDER BY id
SELECT snapshot_id, schema_id, commit_kind, total_record_count, delta_record_count FROM $.`t$snapshots` ORDER BY 1
SELECT partition, record_count, file_count FROM $.`t$partitions` ORDER BY 1
SELECT partition, bucket, file_format, record_count, level, null_value_counts, min_value_stats FROM $.`t$files` ORDER BY 1, 4, 7
SELECT num_added_files, num_deleted_files, schema_id FROM $.`t$manifests` ORDER BY 1, 2, 3
SELECT partition, bucket, record_count, file_count FROM $.`t$buckets` ORDER BY 1
SELECT rowkind, id FROM $.`t$audit_log` ORDER BY id
SELECT id FROM $.`t$ro` ORDER BY id
SELECT key, value FROM $.`t$options` WHERE key = 'file.format'
SELECT * FROM $.`t$consumers`
SELECT * FROM $.`t$statistics`
SELECT rowkind, id FROM $.`t$binlog` ORDER BY id
SELECT id FROM $.`t$row_tracking`
SELECT * FROM $.`t$aggregation_fields`
SELECT * FROM $.`t$table_indexes`
SELECT * FROM $.`t$nothing`
SELECT __paimon_bucket, id FROM $.t ORDER BY id
SELECT __paimon_partition, id FROM $.t ORDER BY id
SELECT __paimon_row_index, id FROM $.t ORDER BY id
SELECT id FROM $.t VERSION AS OF 1 ORDER BY id
SELECT id FROM $.t VERSION AS OF 99
CALL @.sys.create_tag(table => '%.t', tag => 'one', snapshot => 1)
CALL @.sys.create_tag(table => '%.t', tag => 'one', snapshot => 1)
CALL @.sys.create_tag(table => '%.t', tag => 'far', snapshot => 99)
CALL @.sys.create_tag(table => '%.t', tag => 'late', time_retained => '1 d')
SELECT id FROM $.t VERSION AS OF 'one' ORDER BY id
SELECT id FROM $.t VERSION AS OF 'nothing'
SELECT tag_name, snapshot_id, schema_id, record_count, time_retained FROM $.`t$tags` ORDER BY 1
CALL @.sys.rename_tag(table => '%.t', tag => 'late', target_tag => 'later')
CALL @.sys.replace_tag(table => '%.t', tag => 'later', snapshot => 2)
SHOW TAGS $.t
ALTER TABLE $.t CREATE TAG `mine` AS OF VERSION 2
ALTER TABLE $.t DELETE TAG `mine`
ALTER TABLE $.t DELETE TAG `mine`
SELECT id FROM $.t TIMESTAMP AS OF '2100-01-01' ORDER BY id
SELECT id FROM $.t TIMESTAMP AS OF '2000-01-01' ORDER BY id
CALL @.sys.create_branch(table => '%.t', branch => 'b', tag => 'one')
CALL @.sys.create_branch(table => '%.t', branch => 'b', tag => 'one')
CALL @.sys.create_branch(table => '%.t', branch => 'c', tag => 'none')
INSERT INTO $.`t$branch_b` VALUES (9, 'i', 9, 'x')
SELECT id FROM $.`t$branch_b` ORDER BY id
SELECT branch_name FROM $.`t$branches`
CALL @.sys.delete_branch(table => '%.t', branch => 'b')
SELECT id FROM $.`t$branch_b`
ALTER TABLE $.t ADD COLUMN (k INT COMMENT 'new' AFTER id, deep STRUCT<a: INT, b: STRING>)
ALTER TABLE $.t ADD COLUMN deep.c DOUBLE
ALTER TABLE $.t RENAME COLUMN deep.a TO aa
ALTER TABLE $.t DROP COLUMN deep.b
ALTER TABLE $.t ADD COLUMN k INT
ALTER TABLE $.t RENAME COLUMN n TO nn
ALTER TABLE $.t RENAME COLUMN missing TO nn
ALTER TABLE $.t DROP COLUMN p
ALTER TABLE $.t DROP COLUMN missing
ALTER TABLE $.t ALTER COLUMN k TYPE BIGINT
ALTER TABLE $.t ALTER COLUMN nn TYPE INT
ALTER TABLE $.t ALTER COLUMN k FIRST
ALTER TABLE $.t ALTER COLUMN id DROP NOT NULL
ALTER TABLE $.t ALTER COLUMN k SET NOT NULL
ALTER TABLE $.t ALTER COLUMN v COMMENT 'value'
ALTER TABLE $.t ALTER COLUMN v SET DEFAULT 'some'
ALTER TABLE $.t ALTER COLUMN v DROP DEFAULT
INSERT INTO $.t (id, p) VALUES (33, 'x')
SELECT * FROM $.t ORDER BY id
DESCRIBE $.t
DESCRIBE $.t id
SELECT schema_id, fields FROM $.`t$schemas` ORDER BY 1
SHOW COLUMNS IN $.t
ALTER TABLE $.t SET TBLPROPERTIES ('comment' = 'a table', 'snapshot.num-retained.max' = '20', 'mine' = 'yes')
SHOW TBLPROPERTIES $.t ('mine')
ALTER TABLE $.t UNSET TBLPROPERTIES ('mine')
ALTER TABLE $.t UNSET TBLPROPERTIES ('mine')
ALTER TABLE $.t SET TBLPROPERTIES ('bucket-key' = 'missing')
ALTER TABLE $.t SET TBLPROPERTIES ('merge-engine' = 'partial-update')
ANALYZE TABLE $.t COMPUTE STATISTICS
ANALYZE TABLE $.t COMPUTE STATISTICS FOR COLUMNS id, v
SELECT snapshot_id, mergedRecordCount, colStat FROM $.`t$statistics`
ALTER TABLE $.t DROP PARTITION (p = 'z')
ALTER TABLE $.t DROP PARTITION (p = 'none')
ALTER TABLE $.t DROP IF EXISTS PARTITION (p = 'none')
ALTER TABLE $.t ADD PARTITION (p = 'new')
SHOW PARTITIONS $.t
DELETE FROM $.t WHERE id = 3
UPDATE $.t SET v = 'u' WHERE id = 1
MERGE INTO $.t USING (SELECT 1 AS id, 'm' AS v) s ON $.t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v
SELECT id, v, p FROM $.t ORDER BY id
SELECT snapshot_id, commit_kind, operation, total_record_count FROM $.`t$snapshots` ORDER BY 1
CALL @.sys.compact(table => '%.t', partitions => 'p=x')
CALL @.sys.compact(table => '%.t', compact_strategy => 'full')
CALL @.sys.rollback(table => '%.t', version => '2')
CALL @.sys.rollback(table => '%.t', version => 'one')
CALL @.sys.rollback(table => '%.t', version => 'absent')
CALL @.sys.rollback(table => '%.t', version => '99')
SELECT * FROM $.t ORDER BY id
CALL @.sys.mark_partition_done(table => '%.t', partitions => 'p=x')
CALL @.sys.expire_snapshots(table => '%.t', retain_max => 1, older_than => '2100-01-01 00:00:00')
CALL @.sys.expire_partitions(table => '%.t', expiration_time => '1 d', timestamp_formatter => 'yyyy')
CALL @.sys.remove_orphan_files(table => '%.t')
CALL @.sys.remove_unexisting_files(table => '%.t')
CALL @.sys.rewrite_file_index(table => '%.t')
CALL @.sys.reset_consumer(table => '%.t', consumerId => 'me', nextSnapshotId => 1)
SELECT * FROM $.`t$consumers`
CALL @.sys.clear_consumers(table => '%.t')
CALL @.sys.fast_forward(table => '%.t', branch => 'none')
CALL @.sys.create_tag_from_timestamp(table => '%.t', tag => 'ts', timestamp => 0)
CALL @.sys.rollback_to_timestamp(table => '%.t', timestamp => 0)
CALL @.sys.purge_files(table => '%.t')
SELECT * FROM $.t
CREATE TABLE $.q (id INT, v STRING) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'id', 'write-only' = 'true')
INSERT INTO $.q SELECT id, concat('v', id) FROM range(20)
SELECT __paimon_bucket, count(*), min(id) FROM $.q GROUP BY 1 ORDER BY 1
stream $.q
ALTER TABLE $.q SET TBLPROPERTIES ('bucket' = '3')
ALTER TABLE $.q SET TBLPROPERTIES ('bucket-key' = 'v')
TRUNCATE TABLE $.q
SELECT count(*) FROM $.q
SELECT * FROM paimon_incremental_query('$.q', 0, 1) ORDER BY id
ALTER TABLE $.q RENAME TO %.renamed
ALTER TABLE $.renamed RENAME TO %.types
SELECT count(*) FROM $.q
CREATE TABLE $.copied LIKE $.renamed
CREATE TABLE $.picked TBLPROPERTIES ('file.format' = 'avro') AS SELECT id, v FROM $.renamed
INSERT OVERWRITE $.picked VALUES (1, 'avro')
SELECT * FROM $.picked
CREATE OR REPLACE TABLE $.picked AS SELECT 7 AS seven
SELECT * FROM $.picked
CREATE TABLE $.twice (id INT, ID STRING)
CREATE TABLE $.badopt (id INT) TBLPROPERTIES ('bucket' = 'many')
CREATE TABLE $.badformat (id INT) TBLPROPERTIES ('file.format' = 'word')
CREATE TABLE $.badpart (id INT) PARTITIONED BY (nothing)
SHOW TABLES IN @.%
SHOW TABLES IN @.% LIKE 'p*'
SHOW TABLE EXTENDED IN @.% LIKE 'absent*'
DROP TABLE $.picked
DROP TABLE $.picked
CREATE DATABASE @.%
CREATE DATABASE IF NOT EXISTS @.%
DROP DATABASE @.%
DROP DATABASE @.absent
SHOW TABLES IN @.absent
ALTER TABLE $.renamed SET TBLPROPERTIES ('path' = '/tmp/elsewhere')
CREATE TABLE $.pk (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')
CALL @.sys.create_branch(table => '%.renamed', branch => 'b')
CALL @.sys.rename_branch(table => '%.renamed', from_branch => 'b', to_branch => 'bb')
""".strip().splitlines()

SHORT = STATEMENTS.index("SELECT branch_name FROM $.`t$branches`") + 1
"""How many of them the short form says: all types, a partitioned ORC table with its system tables, time travel, tags and branches."""

OURS = {
    "ALTER TABLE $.renamed SET TBLPROPERTIES ('path' = '/tmp/elsewhere')": "where a table lies is the catalog's to say",
    "CREATE TABLE $.pk (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')": "append tables have no primary key",
    "CALL @.sys.rename_branch(table => '%.renamed', from_branch => 'b', to_branch => 'bb')": "Java's RESTCatalog has no such call yet",
}
"""What is refused in our catalog alone, and why."""
