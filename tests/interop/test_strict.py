"""Everything we write can be parsed by the strictest of Paimon's released readers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from gateway.gateway import Gateway
from lake import Lake
from lake.commit.built import BuiltCommit
from lake.rewrite.expiry import rollback
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.format.consumers import write_consumer
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.interop.strict import check_warehouse
from tests.lake.kept import overwrite
from tests.sql.execution.test_dry_runs import CALLS
from tests.sql.execution.test_dry_runs import ask as ask
from tests.table.vectors import with_deleted

STATEMENTS = (
    "CREATE TABLE `all` (a BOOLEAN, b TINYINT, c SMALLINT, d INT NOT NULL, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(20, 3), i CHAR(3), "
    "j VARCHAR(5), k STRING COMMENT 'ä', l BINARY(2), m VARBINARY(3), n BYTES, o DATE, p TIME(3), q TIMESTAMP(3), r TIMESTAMP(6), "
    "s TIMESTAMP_LTZ(3), t TIMESTAMP_LTZ(6), u ARRAY<INT>, v MAP<STRING, INT>, w ROW<x INT, y STRING>) COMMENT 'c'",
    "INSERT INTO `all` (d, k) VALUES (1, 'x'), (2, NULL)",
    "ALTER TABLE `all` ADD (z INT COMMENT 'new')",
    "ALTER TABLE `all` DROP (z)",
    "INSERT INTO `all` (d) VALUES (3)",
    "TRUNCATE TABLE `all`",
    "CREATE TABLE q (id INT, v STRING) WITH ('bucket' = '3', 'bucket-key' = 'id', 'file-index.bloom-filter.columns' = 'v')",
    *(f"INSERT INTO q VALUES ({n}, 'x'), ({n + 7}, NULL)" for n in range(6)),
    "CALL sys.compact(`table` => 'q', compact_strategy => 'full')",
    "CALL sys.create_tag('q', 'kept', 2, '1 d')",
    "CALL sys.expire_snapshots(`table` => 'q', retain_max => 2, retain_min => 1)",
    "CREATE TABLE d (dt STRING, h INT, id INT) PARTITIONED BY (dt, h) WITH ('bucket' = '-1')",
    "INSERT INTO d VALUES ('2020-01-01', 1, 1), ('2020-01-02', NULL, 2), (NULL, 3, 3)",
)
PROCEDURES = (
    "sys.compact", "sys.compact_manifest", "sys.rewrite_file_index", "sys.create_tag", "sys.create_tag_from_watermark", "sys.rename_tag",
    "sys.drop_partition", "sys.mark_partition_done", "sys.reset_consumer", "sys.rewrite_files",
)  # fmt: skip
"""What `test_dry_runs` calls; overwrites and statistics are written by Spark: `tests/sql/spark`."""


def test_what_is_left_of_an_index_manifest_once_files_are_gone(gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    """A client's deletions, and the manifest this server writes where a file leaves the table with its vector."""
    gateway.run("CREATE TABLE v (id INT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')").close()
    for part in ("'a'", "'b'"):
        gateway.run(f"INSERT INTO v VALUES (1, {part}), (2, {part})").close()
    table = lake.open(Identifier("default", "v"))
    latest = table.latest()
    assert latest is not None
    rows = {entry.file.file_name: [0] for entry in table.files.live_entries(latest)}
    deleted = replace(with_deleted(table.files, latest, rows), id=latest.id + 1, uuid=str(uuid4()), commit_kind=CommitKind.OVERWRITE)
    assert lake.decide_repaired(table, lambda key: BuiltCommit(table=table, base=latest, snapshot=replace(deleted, uuid=key), sync=()))
    gateway.run("CALL sys.drop_partition('v', 'p=a')").close()
    assert gateway.run("SELECT id, p FROM v").collect() == [(2, "b")]
    assert check_warehouse(warehouse)["index manifest"] == 2


def test_all_that_statements_and_procedures_write(ask: object, gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    for text in STATEMENTS:
        gateway.run(text).close()
    for name in PROCEDURES:
        gateway.run(f"CALL {name}({CALLS[name]})").close()
    table, named = (lake.open(Identifier("default", name)) for name in "qt")
    write_consumer(table.files, "reader", 3)
    lake.replace_table(Identifier("default", "d"), lake.open(Identifier("default", "d")).schema)
    overwrite(lake, named, [7])
    lake.open(Identifier("default", "t", "b")).latest()
    counts = check_warehouse(warehouse)
    assert set(counts) == {"snapshot", "schema", "manifest", "manifest list", "tag", "consumer", "hint", "branch"}
    assert counts["snapshot"] > 15
    lake.branches.fast_forward(named, "b")
    rollback(lake, table, lake.snapshots(table)[0])
    named.latest()
    check_warehouse(warehouse)
