"""System tables: Paimon's columns, answered without Spark, with conditions that narrow what is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.browse import BrowseRepository
from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError, TableNotExist, UnsupportedStatement
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from sql.dialect import parse_one
from sql.local import plan_locally
from table.format.consumers import write_consumer
from tests.sql.tables import context_of

PAIMONS = {
    "aggregation_fields": "field_name STRING!, field_type STRING!, function STRING, function_options STRING, comment STRING",
    "branches": "branch_name STRING!, create_time TIMESTAMP(3)!",
    "buckets": (
        "partition STRING, bucket INT!, record_count BIGINT!, file_size_in_bytes BIGINT!, file_count BIGINT!, last_update_time TIMESTAMP(3)"
    ),
    "consumers": "consumer_id STRING!, next_snapshot_id BIGINT!",
    "file_indexes": (
        "partition STRING, bucket INT!, file_path STRING!, file_size_in_bytes BIGINT!, record_count BIGINT!, schema_id BIGINT!, "
        "column_name STRING!, index_type STRING!, storage_type STRING!, index_file_path STRING, index_size_in_bytes BIGINT!, "
        "index_container_size_in_bytes BIGINT!, is_empty BOOLEAN!"
    ),
    "file_key_ranges": (
        "partition STRING, bucket INT!, file_path STRING!, file_format STRING!, schema_id BIGINT!, level INT!, record_count BIGINT!, "
        "file_size_in_bytes BIGINT!, min_key STRING, max_key STRING, first_row_id BIGINT"
    ),
    "files": (
        "partition STRING, bucket INT!, file_path STRING!, file_format STRING!, schema_id BIGINT!, level INT!, record_count BIGINT!, "
        "file_size_in_bytes BIGINT!, min_key STRING, max_key STRING, null_value_counts STRING!, min_value_stats STRING!, "
        "max_value_stats STRING!, min_sequence_number BIGINT, max_sequence_number BIGINT, creation_time TIMESTAMP(3), "
        "deleteRowCount BIGINT, file_source STRING, first_row_id BIGINT, write_cols ARRAY<STRING>"
    ),
    "manifests": (
        "file_name STRING!, file_size BIGINT!, num_added_files BIGINT!, num_deleted_files BIGINT!, schema_id BIGINT!, "
        "min_partition_stats STRING, max_partition_stats STRING, min_row_id BIGINT, max_row_id BIGINT"
    ),
    "options": "key STRING!, value STRING!",
    "partitions": (
        "partition STRING, record_count BIGINT!, file_size_in_bytes BIGINT!, file_count BIGINT!, last_update_time TIMESTAMP(3), "
        "created_at TIMESTAMP(3), created_by STRING, updated_by STRING, options STRING, total_buckets INT!, done BOOLEAN!, "
        "deleted_record_count BIGINT"
    ),
    "schemas": (
        "schema_id BIGINT!, fields STRING!, partition_keys STRING!, primary_keys STRING!, options STRING!, comment STRING, "
        "update_time TIMESTAMP(3)!"
    ),
    "snapshots": (
        "snapshot_id BIGINT!, schema_id BIGINT!, commit_user STRING!, commit_identifier BIGINT!, commit_kind STRING!, "
        "commit_time TIMESTAMP(3)!, base_manifest_list STRING!, delta_manifest_list STRING!, changelog_manifest_list STRING, "
        "total_record_count BIGINT, delta_record_count BIGINT, changelog_record_count BIGINT, watermark BIGINT, next_row_id BIGINT, "
        "operation STRING, writer_version STRING"
    ),
    "statistics": "snapshot_id BIGINT!, schema_id BIGINT!, mergedRecordCount BIGINT, mergedRecordSize BIGINT, colstat STRING",
    "table_indexes": (
        "partition STRING, bucket INT!, index_type STRING!, file_name STRING!, file_size BIGINT!, row_count BIGINT!, "
        "dv_ranges ARRAY<ROW<`f0` STRING NOT NULL, `f1` INT NOT NULL, `f2` INT NOT NULL, `_CARDINALITY` BIGINT>>, "
        "row_range_start BIGINT, row_range_end BIGINT, index_field_id INT, index_field_name STRING"
    ),
    "tags": (
        "tag_name STRING!, snapshot_id BIGINT!, schema_id BIGINT!, commit_time TIMESTAMP(3)!, record_count BIGINT, "
        "create_time TIMESTAMP(3), time_retained STRING"
    ),
    "audit_log": "rowkind STRING, dt STRING, id INT",
    "binlog": "rowkind STRING, dt ARRAY<STRING>, id ARRAY<INT>",
    "ro": "dt STRING, id INT",
    "read_optimized": "dt STRING, id INT",
}
"""Their columns in Paimon's source (master of August 2026), with a `!` for NOT NULL."""
PAIMONS_OVERALL = {
    "all_table_options": "database_name STRING, table_name STRING, key STRING, value STRING",
    "catalog_options": "key STRING!, value STRING!",
    "partitions": (
        "database_name STRING, table_name STRING, partition_name STRING, record_count BIGINT, file_size_in_bytes BIGINT, "
        "file_count BIGINT, last_file_creation_time BIGINT, done BOOLEAN"
    ),
    "tables": (
        "database_name STRING, table_name STRING, table_type STRING, partitioned BOOLEAN, primary_key BOOLEAN, owner STRING, "
        "created_at BIGINT, created_by STRING, updated_at BIGINT, updated_by STRING, record_count BIGINT, file_size_in_bytes BIGINT, "
        "file_count BIGINT, last_file_creation_time BIGINT"
    ),
}


def shown_columns(gateway: Gateway, name: str) -> str:
    with gateway.run(f"SELECT * FROM {name}") as result:
        result.collect()
        return ", ".join(f"{c.name} {c.type.sql()}{'' if c.type.nullable else '!'}" for c in result.columns)


def asking(gateway: Gateway) -> Any:
    """Make table t with two commits; what runs a text and gives its rows."""

    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    run("CREATE TABLE t (dt STRING, id INT) PARTITIONED BY (dt) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    run("INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 3)")
    run("INSERT INTO t VALUES ('a', 4)")
    return run


@pytest.fixture
def ask(gateway: Gateway) -> Any:
    return asking(gateway)


@pytest.fixture(scope="module")
def shared(module_gateway: Gateway) -> Any:
    """For questions alone."""
    return asking(module_gateway)


@pytest.mark.parametrize("kind", PAIMONS)
def test_columns_are_paimons(module_gateway: Gateway, shared: Any, kind: str) -> None:
    assert shown_columns(module_gateway, f"t${kind}") == PAIMONS[kind]


@pytest.mark.parametrize("name", PAIMONS_OVERALL)
def test_columns_about_all_tables_are_paimons(module_gateway: Gateway, shared: Any, name: str) -> None:
    assert shown_columns(module_gateway, f"sys.{name}") == PAIMONS_OVERALL[name]


def test_snapshots_are_filtered_ordered_and_limited(shared: Any) -> None:
    assert shared("SELECT snapshot_id, commit_kind, total_record_count FROM t$snapshots") == [(1, "APPEND", 3), (2, "APPEND", 4)]
    assert shared("SELECT snapshot_id FROM t$snapshots WHERE delta_record_count = 1") == [(2,)]
    assert shared("SELECT snapshot_id AS s FROM t$snapshots ORDER BY s DESC LIMIT 1") == [(2,)]
    assert shared("SELECT COUNT(*) FROM `default`.`t$snapshots` WHERE snapshot_id > 1") == [(1,)]


def test_files_narrow_to_a_partition_and_bucket(shared: Any) -> None:
    files = shared("SELECT partition, bucket, record_count, min_value_stats, file_path FROM t$files ORDER BY partition")
    assert sum(row[2] for row in files) == 4
    assert {row[0] for row in files} == {"{a}", "{b}"}
    (only,) = shared("SELECT bucket, record_count, min_value_stats, null_value_counts FROM t$files WHERE partition = '{b}'")
    assert only[1:] == (1, '{"dt":"b","id":3}', '{"dt":0,"id":0}')
    bucket = only[0]
    assert sum(n for (n,) in shared(f"SELECT record_count FROM t$files WHERE bucket = {bucket}")) == sum(
        row[2] for row in files if row[1] == bucket
    )


def test_files_of_an_older_snapshot(shared: Any) -> None:
    now = shared("SELECT COUNT(*) FROM t$files")
    then = shared("SELECT COUNT(*) FROM t$files /*+ OPTIONS('scan.snapshot-id' = '1') */")
    assert now[0][0] == then[0][0] + 1


def test_partitions_and_buckets_add_up(shared: Any) -> None:
    assert shared("SELECT partition, record_count, total_buckets, done FROM t$partitions") == [("dt=a", 3, 2, False), ("dt=b", 1, 2, False)]
    assert sum(n for (n,) in shared("SELECT record_count FROM t$buckets")) == 4


def test_rows_with_their_kind(shared: Any) -> None:
    assert sorted(shared("SELECT rowkind, id FROM t$audit_log WHERE id > 2")) == [("+I", 3), ("+I", 4)]
    assert sorted(shared("SELECT id FROM t$read_optimized WHERE dt = 'a'")) == [(1,), (2,), (4,)]
    assert sorted(shared("SELECT * FROM t$binlog")) == [("+I", ["a"], [1]), ("+I", ["a"], [2]), ("+I", ["a"], [4]), ("+I", ["b"], [3])]
    for rows in ("audit_log", "ro", "read_optimized", "binlog"):
        assert shared(f"SELECT COUNT(*) FROM t${rows}") == [(4,)]
        if rows != "binlog":  # whose columns are arrays
            assert shared(f"SELECT COUNT(*) FROM t${rows} WHERE dt = 'a'") == [(3,)]


PARTS: dict[str, set[int]] = {
    "'scan.snapshot-id' = '1'": {1, 2, 3},
    "'scan.mode' = 'latest-delta'": {5, 6},
    "'incremental-between' = '0,1'": {1, 2, 3},
    "'incremental-between' = '1,2'": {4},
    "'incremental-between' = '1,3'": {4, 5, 6},
    "'incremental-between' = '1,3', 'incremental-between-scan-mode' = 'diff'": {4, 5, 6},
    "'incremental-between' = 'one,three'": {4, 5, 6},
    "'incremental-between-timestamp' = '{0},{1}'": {4},
}
"""The ids of the rows of three snapshots that the options mean."""


@pytest.mark.parametrize("part", PARTS)
def test_rows_with_their_kind_of_a_part_of_the_past(ask: Any, lake: Lake, part: str) -> None:
    """As Paimon's page on queries reads an audit log between two snapshots."""
    ask("INSERT INTO t VALUES ('c', 5), ('a', 6); CALL sys.create_tag('t', 'one', 1); CALL sys.create_tag('t', 'three', 3)")
    files = lake.open(Identifier("default", "t")).files
    times = [snapshot.time_millis for snapshot in map(files.read_snapshot, (1, 2, 3)) if snapshot is not None]
    hint, rows = f"/*+ OPTIONS({part.format(*times)}) */", sorted(PARTS[part])
    assert sorted(ask(f"SELECT rowkind, id FROM t$audit_log {hint}")) == [("+I", id_) for id_ in rows]
    assert sorted(ask(f"SELECT id FROM t$ro {hint}")) == [(id_,) for id_ in rows]
    assert sorted(ask(f"SELECT rowkind, id FROM t$binlog {hint}")) == [("+I", [id_]) for id_ in rows]
    of_a = {1, 2, 4, 6} & PARTS[part]
    assert ask(f"SELECT COUNT(*) FROM t$audit_log {hint} WHERE dt = 'a'") == [(len(of_a),)]


def test_tags_consumers_options_schemas(ask: Any, lake: Lake) -> None:
    table = lake.open(Identifier("default", "t"))
    ask("CALL sys.create_tag('t', 'one', 1)")
    write_consumer(table.files, "reader", 2)
    assert ask("SELECT tag_name, snapshot_id, record_count, time_retained FROM t$tags") == [("one", 1, 3, None)]
    assert ask("SELECT * FROM t$consumers") == [("reader", 2)]
    assert ("bucket", "2") in ask("SELECT * FROM t$options")
    assert ask("SELECT schema_id, partition_keys FROM t$schemas") == [(0, '["dt"]')]


def test_tables_about_all_tables(ask: Any) -> None:
    ask("CREATE DATABASE other")
    ask("CREATE TABLE other.u (id INT)")
    assert ask("SELECT table_name, record_count, partitioned FROM sys.tables WHERE database_name = 'default'") == [("t", 4, True)]
    assert ask("SELECT table_name FROM sys.tables ORDER BY table_name") == [("t",), ("u",)]
    assert ask("SELECT partition_name, record_count FROM sys.partitions") == [("dt=a", 3), ("dt=b", 1)]
    assert ask("SELECT * FROM sys.all_partitions") == ask("SELECT * FROM sys.partitions")
    assert ask("SELECT * FROM sys.catalog_options") == [("metastore", "rest"), ("warehouse", "sluice")]
    assert ask("SELECT value FROM sys.all_table_options WHERE table_name = 'u' AND key = 'bucket'") == [("1",)]


def pages_asked_for(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """After which table each page of the list of tables is asked for, from now on."""
    after: list[Any] = []
    summaries = BrowseRepository.summaries

    def counted(self: BrowseRepository, **wanted: Any) -> Any:
        after.append(wanted["after"])
        return summaries(self, **wanted)

    monkeypatch.setattr(BrowseRepository, "summaries", counted)
    return after


def test_tables_are_listed_page_by_page_from_the_catalog_alone(
    ask: Any, lake: Lake, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake.inspect.browse._PAGE", 2)
    monkeypatch.setattr("lake.inspect.browse._LONGEST_PAGE", 2)
    ask("CREATE DATABASE other")
    for name in ("other.z", "a", "v", "other.b"):
        ask(f"CREATE TABLE {name} (id INT)")
    ask("INSERT INTO v VALUES (1)")
    ask("DROP TABLE a")
    asked = pages_asked_for(monkeypatch)
    warehouse.rename(warehouse.with_name("away"))
    sizes = "database_name, table_name, record_count, file_count"
    everything = [("default", "t", 4, 3), ("default", "v", 1, 1), ("other", "b", 0, 0), ("other", "z", 0, 0)]
    assert ask(f"SELECT {sizes} FROM sys.tables") == everything
    assert len(asked) == 3
    asked.clear()
    assert ask("SELECT count(*) FROM sys.tables") == [(4,)]
    assert asked == [], "Postgres counts them"
    assert ask("SELECT count(*) FROM sys.tables WHERE database_name = 'other'") == [(2,)]
    assert ask("SELECT table_name FROM sys.tables WHERE database_name = 'other'") == [("b",), ("z",)]
    assert ask("SELECT owner, created_by, updated_by FROM sys.tables WHERE table_name = 'v'") == [("anonymous",) * 3]


def test_tables_of_other_engines_are_not_counted(ask: Any, lake: Lake) -> None:
    described = replace(lake.open(Identifier("default", "t")).schema, options={"type": "format-table"})
    lake.create_table(Identifier("default", "theirs"), described)
    assert ask("SELECT count(*) FROM sys.tables") == [(1,)]
    assert ask("SELECT table_name FROM sys.tables") == [("t",)]


def test_a_limit_asks_for_no_more_tables_than_it_needs(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake.inspect.browse._PAGE", 2)
    monkeypatch.setattr("sql.system.base._BATCH_ROWS", 2)
    for name in "abcdef":
        ask(f"CREATE TABLE {name} (id INT)")
    asked = pages_asked_for(monkeypatch)
    assert ask("SELECT table_name FROM sys.tables LIMIT 2") == [("a",), ("b",)]
    assert asked == [None]


def test_unknown_names_are_told(shared: Any) -> None:
    with pytest.raises(TableNotExist, match=r"\$files"):
        shared("SELECT * FROM t$file")
    with pytest.raises(TableNotExist, match=r"sys\.tables"):
        shared("SELECT * FROM sys.table")
    with pytest.raises(LakeError):
        shared("SELECT * FROM missing$files")


def test_columns_have_no_functions(gateway: Gateway, ask: Any) -> None:
    gateway.run("CREATE TABLE n (id BIGINT NOT NULL COMMENT 'number', a ARRAY<INT>)").close()
    assert ask("SELECT * FROM n$aggregation_fields") == [
        ("id", "BIGINT NOT NULL", "[]", "[]", "number"),
        ("a", "ARRAY<INT>", "[]", "[]", None),
    ]


def test_rows_without_row_tracking_have_no_ids(shared: Any) -> None:
    with pytest.raises(UnsupportedStatement, match=r"default\.t have no ids.*row-tracking\.enabled"):
        shared("SELECT * FROM t$row_tracking")


def test_rows_are_shown_with_their_ids(ask: Any, lake: Lake) -> None:
    """A file's first id and the rows before it, or what the file itself says; deleted rows count as rows before."""
    named = Identifier("default", "r")
    options = {"bucket": "-1", "row-tracking.enabled": "true"}
    lake.create_table(named, new_schema([column("id", "INT"), column("p", "STRING")], options=options, partition_keys=["p"]))
    ask("INSERT INTO r VALUES (1, 'x'), (2, 'x'), (3, 'x')")
    ask("INSERT INTO r VALUES (4, 'y')")
    shown = [(1, "x", 0, 1), (2, "x", 1, 1), (3, "x", 2, 1), (4, "y", 3, 2)]
    assert ask("SELECT * FROM r$row_tracking ORDER BY _ROW_ID") == shown
    assert ask("SELECT _ROW_ID FROM r$row_tracking WHERE _ROW_ID > 0 AND p = 'x'") == [(1,), (2,)]
    assert ask("SELECT COUNT(*) FROM r$row_tracking") == [(4,)]
    assert ask("SELECT _SEQUENCE_NUMBER FROM r$row_tracking /*+ OPTIONS('scan.snapshot-id' = '1') */ LIMIT 1") == [(1,)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM (SELECT DISTINCT schema_id FROM t$snapshots)",
        "SELECT COUNT(*) FROM (SELECT * FROM t$files WHERE level > 0) f",
        "SELECT snapshot_id FROM (SELECT snapshot_id FROM t$snapshots WHERE commit_kind = 'COMPACT' LIMIT 1) x",
        "SELECT * FROM (SELECT `partition` FROM t$partitions GROUP BY `partition`)",
        "WITH f AS (SELECT * FROM t$files LIMIT 1) SELECT COUNT(*) FROM f",
        "SELECT rowkind FROM (SELECT * FROM t$audit_log WHERE id > 1)",
        "SELECT COUNT(*) FROM (SELECT * FROM sys.tables LIMIT 0)",
        "SELECT * FROM t$snapshots PIVOT (MAX(snapshot_id) FOR commit_kind IN ('APPEND'))",
        "SELECT * FROM t$snapshots UNPIVOT (v FOR n IN (snapshot_id, schema_id))",
        "SELECT COUNT(*) FROM t$files TABLESAMPLE (1 ROWS)",
        "SELECT snapshot_id FROM t$snapshots AS x (schema_id, snapshot_id)",
    ],
)
def test_what_is_asked_around_one_is_not_left_out(module_gateway: Gateway, shared: Any, text: str) -> None:
    lake = module_gateway.lake
    assert plan_locally(parse_one(text), context_of(lake)) is None, "Spark answers it"
    assert plan_locally(parse_one("SELECT x.snapshot_id FROM t$snapshots AS x"), context_of(lake)) is not None
