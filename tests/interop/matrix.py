"""The client matrix: operations, how SQL and Spark say them, and the rows every client reads afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

TWO = "CREATE TABLE {t} (id INT, v STRING) WITH ('bucket' = '-1'); INSERT INTO {t} VALUES (1, 'x'); INSERT INTO {t} VALUES (2, 'x')"
QUEUE = TWO.replace("'bucket' = '-1'", "'bucket' = '1', 'bucket-key' = 'id'")
BUCKETS = QUEUE.replace("'1', 'bucket-key'", "'3', 'bucket-key'")
PARTITIONED = TWO.replace(") WITH", ") PARTITIONED BY (v) WITH") + "; INSERT INTO {t} VALUES (9, 'y')"
TAGGED = TWO + "; CALL sys.create_tag('{t}', 'one', 1)"
BRANCHED = TAGGED + "; CALL sys.create_branch('{t}', 'b', 'one')"
AHEAD = BRANCHED + "; INSERT INTO `{d}`.`{n}$branch_b` VALUES (3, 'x')"
_DATED = PARTITIONED.partition(";")[0] + "; INSERT INTO {t} VALUES (1, '2020-01-01'), (2, '2999-01-01'), (3, NULL)"
Rows = Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing a client does to a table, and what all read then."""

    name: str
    rows: Rows
    before: str = TWO
    """What SQL does first."""
    sql: str | None = None
    """How SQL here says it; None where it has no statement for it."""
    spark: str | None = None
    flink: str | None = None
    """How Flink says it; None where it says what SQL here does, and nothing where it has no statement for it."""
    read: str = "{t}"
    """The table that is read."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of the read: time travel."""
    heavy: bool = False
    """Whether it waits for torture: the server's own Spark is needed, or it is much like others."""


def _both(name: str, rows: Rows, text: str, *, before: str = TWO, read: str = "{t}", heavy: bool = False) -> Operation:
    return Operation(name=name, rows=rows, before=before, sql=text, spark=text, read=read, heavy=heavy)


ERASABLE = "ALTER TABLE {t} SET ('rows.erasable' = 'true')"
_OPTION = TWO + "; ALTER TABLE {t} SET ('target-file-size' = '1 mb')"
A, B, C, Y = [1, "x"], [2, "x"], [3, "x"], [9, "y"]
_TAG = {"scan.tag-name": "one"}
OPERATIONS = (
    Operation(
        name="create", rows=[A, B], before="", sql=TWO,
        spark="CREATE TABLE {t} (id INT, v STRING) TBLPROPERTIES ('bucket' = '-1'); INSERT INTO {t} VALUES (1, 'x'), (2, 'x')",
    ),
    Operation(
        name="create a queue", rows=[A, B], before="", sql=QUEUE,
        spark="CREATE TABLE {t} (id INT, v STRING) TBLPROPERTIES ('bucket' = '1', 'bucket-key' = 'id'); "
        "INSERT INTO {t} VALUES (1, 'x'), (2, 'x')",
    ),
    Operation(
        name="create partitioned", rows=[A, B], before="",
        sql="CREATE TABLE {t} (id INT, v STRING) PARTITIONED BY (v) WITH ('bucket' = '-1'); INSERT INTO {t} VALUES (1, 'x'), (2, 'x')",
        spark="CREATE TABLE {t} (id INT, v STRING) PARTITIONED BY (v); INSERT INTO {t} VALUES (1, 'x'), (2, 'x')",
    ),
    Operation(
        name="create in ORC", rows=[A, B], before="", heavy=True, sql=TWO.replace("= '-1'", "= '-1', 'file.format' = 'orc'"),
        spark="CREATE TABLE {t} (id INT, v STRING) TBLPROPERTIES ('file.format' = 'orc'); INSERT INTO {t} VALUES (1, 'x'), (2, 'x')",
    ),
    _both("insert", [A, B, C], "INSERT INTO {t} VALUES (3, 'x')"),
    _both("insert into a queue", [A, B, C], "INSERT INTO {t} VALUES (3, 'x')", before=QUEUE),
    _both("insert into buckets", [A, B, C], "INSERT INTO {t} VALUES (3, 'x')", before=BUCKETS, heavy=True),
    _both("insert into a partition", [A, B, C, Y], "INSERT INTO {t} VALUES (3, 'x')", before=PARTITIONED, heavy=True),
    Operation(
        name="leave a snapshot behind", rows=[A], options={"scan.snapshot-id": "1"}, heavy=True, sql="INSERT INTO {t} VALUES (3, 'x')",
        spark="INSERT INTO {t} VALUES (3, 'x')",
    ),
    _both("insert overwrite", [C], "INSERT OVERWRITE {t} VALUES (3, 'x')", heavy=True),
    _both("overwrite a partition", [C, Y], "INSERT OVERWRITE {t} PARTITION (v = 'x') VALUES (3)", before=PARTITIONED, heavy=True),
    _both("truncate", [], "TRUNCATE TABLE {t}"),
    Operation(
        name="drop a partition", rows=[Y], before=PARTITIONED, sql="CALL sys.drop_partition('{t}', 'v=x')",
        spark="ALTER TABLE {t} DROP PARTITION (v = 'x')",
    ),
    Operation(
        name="delete rows", rows=[B], heavy=True, sql=f"{ERASABLE}; DELETE FROM {{t}} WHERE id = 1", flink="",
        spark="DELETE FROM {t} WHERE id = 1",
    ),
    Operation(
        name="update rows", rows=[[1, "z"], B], heavy=True, sql=f"{ERASABLE}; UPDATE {{t}} SET v = 'z' WHERE id = 1", flink="",
        spark="UPDATE {t} SET v = 'z' WHERE id = 1",
    ),
    Operation(
        name="merge rows", rows=[[1, "z"], B, C], heavy=True, flink="",
        sql=f"{ERASABLE}; MERGE INTO {{t}} AS t USING (SELECT 1 AS id, 'z' AS v UNION ALL SELECT 3, 'x') AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        spark="MERGE INTO {t} USING (SELECT 1 AS id, 'z' AS v UNION ALL SELECT 3, 'x') s ON {t}.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
    ),
    Operation(
        name="add a column", rows=[[*A, None], [*B, None]], sql="ALTER TABLE {t} ADD (n INT)",
        spark="ALTER TABLE {t} ADD COLUMN n INT",
    ),
    Operation(name="rename a column", rows=[A, B], sql="ALTER TABLE {t} RENAME v TO w", spark="ALTER TABLE {t} RENAME COLUMN v TO w"),
    Operation(name="drop a column", rows=[[1], [2]], sql="ALTER TABLE {t} DROP (v)", spark="ALTER TABLE {t} DROP COLUMN v"),
    Operation(
        name="move a column", rows=[["x", 1], ["x", 2]], heavy=True, sql="ALTER TABLE {t} MODIFY (v STRING FIRST)",
        spark="ALTER TABLE {t} ALTER COLUMN v FIRST",
    ),
    Operation(
        name="comment a column", rows=[A, B], heavy=True, sql="ALTER TABLE {t} MODIFY (v STRING COMMENT 'said')",
        spark="ALTER TABLE {t} ALTER COLUMN v COMMENT 'said'",
    ),
    Operation(
        name="widen a type", rows=[A, B], sql="ALTER TABLE {t} MODIFY (id BIGINT)", spark="ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"
    ),
    Operation(
        name="cast a type", rows=[["1", "x"], ["2", "x"]], sql="ALTER TABLE {t} MODIFY (id STRING)",
        spark="ALTER TABLE {t} ALTER COLUMN id TYPE STRING",
    ),
    Operation(
        name="set an option", rows=[A, B], sql="ALTER TABLE {t} SET ('target-file-size' = '1 mb')",
        spark="ALTER TABLE {t} SET TBLPROPERTIES ('target-file-size' = '1 mb')",
    ),
    Operation(
        name="remove an option", rows=[A, B], before=_OPTION, heavy=True, sql="ALTER TABLE {t} RESET ('target-file-size')",
        spark="ALTER TABLE {t} UNSET TBLPROPERTIES ('target-file-size')",
    ),
    Operation(name="comment", rows=[A, B], spark="ALTER TABLE {t} SET TBLPROPERTIES ('comment' = 'said')"),
    Operation(
        name="create a tag", rows=[A], options=_TAG, sql="CALL sys.create_tag('{t}', 'one', 1)",
        spark="CALL sluice.sys.create_tag(table => '{d}.{n}', tag => 'one', snapshot => 1)",
    ),
    Operation(
        name="delete a tag", rows=[A, B], before=TAGGED, sql="CALL sys.delete_tag('{t}', 'one')",
        spark="CALL sluice.sys.delete_tag(table => '{d}.{n}', tag => 'one')",
    ),
    Operation(
        name="rename a tag", rows=[A], before=TAGGED.replace("'one'", "'old'"), options=_TAG, heavy=True,
        sql="CALL sys.rename_tag('{t}', 'old', 'one')",
        spark="CALL sluice.sys.rename_tag(table => '{d}.{n}', tag => 'old', target_tag => 'one')",
    ),
    Operation(
        name="roll back to a snapshot", rows=[A], sql="CALL sys.rollback_to(`table` => '{t}', snapshot_id => 1)",
        spark="CALL sluice.sys.rollback(table => '{d}.{n}', version => '1')",
    ),
    Operation(
        name="roll back to a tag", rows=[A], before=TAGGED, sql="CALL sys.rollback_to(`table` => '{t}', tag => 'one')",
        spark="CALL sluice.sys.rollback(table => '{d}.{n}', version => 'one')",
    ),
    Operation(
        name="create a branch", rows=[A], before=TAGGED, read="{t}$branch_b", sql="CALL sys.create_branch('{t}', 'b', 'one')",
        spark="CALL sluice.sys.create_branch(table => '{d}.{n}', branch => 'b', tag => 'one')",
    ),
    Operation(
        name="delete a branch", rows=[A, B], before=BRANCHED, heavy=True, sql="CALL sys.delete_branch('{t}', 'b')",
        spark="CALL sluice.sys.delete_branch(table => '{d}.{n}', branch => 'b')",
    ),
    _both("write a branch", [A, C], "INSERT INTO {b} VALUES (3, 'x')", before=BRANCHED, read="{t}$branch_b"),
    Operation(
        name="fast-forward", rows=[A, C], before=AHEAD, sql="CALL sys.fast_forward('{t}', 'b')",
        spark="CALL sluice.sys.fast_forward(table => '{d}.{n}', branch => 'b')",
    ),
    Operation(
        name="expire snapshots", rows=[A, B], sql="CALL sys.expire_snapshots(`table` => '{t}', retain_max => 1)",
        spark="CALL sluice.sys.expire_snapshots(table => '{d}.{n}', retain_max => 1, retain_min => 1)",
        flink="CALL sys.expire_snapshots(`table` => '{t}', retain_max => 1, retain_min => 1)",
    ),
    Operation(
        name="expire partitions", rows=[[2, "2999-01-01"], [3, None]], before=_DATED, heavy=True,
        sql="CALL sys.expire_partitions(`table` => '{t}', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd')",
        spark="CALL sluice.sys.expire_partitions(table => '{d}.{n}', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd')",
    ),
    Operation(
        name="compact", rows=[A, B, C], before=TWO + "; INSERT INTO {t} VALUES (3, 'x')",
        sql="CALL sys.compact(`table` => '{t}', compact_strategy => 'full')", spark="CALL sluice.sys.compact(table => '{d}.{n}')",
    ),
    Operation(
        name="rename", rows=[A, B], read="{t}_new", sql="ALTER TABLE {t} RENAME TO {n}_new", spark="ALTER TABLE {t} RENAME TO {d}.{n}_new"
    ),
    Operation(
        name="analyze", rows=[A, B], heavy=True, sql="CALL sys.analyze_table('{t}')", flink="ANALYZE TABLE {t} COMPUTE STATISTICS",
        spark="ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS",
    ),
    Operation(
        name="create as select", rows=[A, B], heavy=True, read="{t}_copy",
        sql="CREATE TABLE {t}_copy WITH ('bucket' = '-1') AS SELECT * FROM {t}",
        spark="CREATE TABLE {t}_copy AS SELECT * FROM {t}",
    ),
)  # fmt: skip
