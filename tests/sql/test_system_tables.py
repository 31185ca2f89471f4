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
from table.format.consumers import write_consumer

COLUMNS = {
    "snapshots": (
        "snapshot_id schema_id commit_user commit_identifier commit_kind commit_time base_manifest_list delta_manifest_list "
        "changelog_manifest_list total_record_count delta_record_count changelog_record_count watermark next_row_id operation "
        "writer_version"
    ),
    "schemas": "schema_id fields partition_keys primary_keys options comment update_time",
    "options": "key value",
    "files": (
        "partition bucket file_path file_format schema_id level record_count file_size_in_bytes min_key max_key null_value_counts "
        "min_value_stats max_value_stats min_sequence_number max_sequence_number creation_time deleteRowCount file_source first_row_id "
        "write_cols"
    ),
    "manifests": (
        "file_name file_size num_added_files num_deleted_files schema_id min_partition_stats max_partition_stats min_row_id max_row_id"
    ),
    "partitions": (
        "partition record_count file_size_in_bytes file_count last_update_time created_at created_by updated_by options total_buckets done"
    ),
    "buckets": "partition bucket record_count file_size_in_bytes file_count last_update_time",
    "tags": "tag_name snapshot_id schema_id commit_time record_count create_time time_retained",
    "branches": "branch_name create_time",
    "consumers": "consumer_id next_snapshot_id",
    "statistics": "snapshot_id schema_id mergedRecordCount mergedRecordSize colstat",
    "table_indexes": (
        "partition bucket index_type file_name file_size row_count dv_ranges row_range_start row_range_end index_field_id index_field_name"
    ),
    "file_key_ranges": (
        "partition bucket file_path file_format schema_id level record_count file_size_in_bytes min_key max_key first_row_id"
    ),
    "audit_log": "rowkind dt id",
    "binlog": "rowkind dt id",
    "ro": "dt id",
    "read_optimized": "dt id",
    "aggregation_fields": "field_name field_type function function_options comment",
}


@pytest.fixture
def ask(gateway: Gateway) -> Any:
    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    run("CREATE TABLE t (dt STRING, id INT) PARTITIONED BY (dt) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    run("INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 3)")
    run("INSERT INTO t VALUES ('a', 4)")
    return run


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_are_paimons(gateway: Gateway, ask: Any, kind: str) -> None:
    with gateway.run(f"SELECT * FROM t${kind}") as result:
        assert [column.name for column in result.columns] == COLUMNS[kind].split()
        result.collect()


def test_snapshots_are_filtered_ordered_and_limited(ask: Any) -> None:
    assert ask("SELECT snapshot_id, commit_kind, total_record_count FROM t$snapshots") == [(1, "APPEND", 3), (2, "APPEND", 4)]
    assert ask("SELECT snapshot_id FROM t$snapshots WHERE delta_record_count = 1") == [(2,)]
    assert ask("SELECT snapshot_id AS s FROM t$snapshots ORDER BY s DESC LIMIT 1") == [(2,)]
    assert ask("SELECT COUNT(*) FROM `default`.`t$snapshots` WHERE snapshot_id > 1") == [(1,)]


def test_files_narrow_to_a_partition_and_bucket(ask: Any) -> None:
    files = ask("SELECT partition, bucket, record_count, min_value_stats, file_path FROM t$files ORDER BY partition")
    assert sum(row[2] for row in files) == 4
    assert {row[0] for row in files} == {"{a}", "{b}"}
    (only,) = ask("SELECT bucket, record_count, min_value_stats, null_value_counts FROM t$files WHERE partition = '{b}'")
    assert only[1:] == (1, '{"dt":"b","id":3}', '{"dt":0,"id":0}')
    bucket = only[0]
    assert sum(n for (n,) in ask(f"SELECT record_count FROM t$files WHERE bucket = {bucket}")) == sum(
        row[2] for row in files if row[1] == bucket
    )


def test_files_of_an_older_snapshot(ask: Any) -> None:
    now = ask("SELECT COUNT(*) FROM t$files")
    then = ask("SELECT COUNT(*) FROM t$files /*+ OPTIONS('scan.snapshot-id' = '1') */")
    assert now[0][0] == then[0][0] + 1


def test_partitions_and_buckets_add_up(ask: Any) -> None:
    assert ask("SELECT partition, record_count, total_buckets, done FROM t$partitions") == [("dt=a", 3, 2, False), ("dt=b", 1, 2, False)]
    assert sum(n for (n,) in ask("SELECT record_count FROM t$buckets")) == 4


def test_rows_with_their_kind(ask: Any) -> None:
    assert sorted(ask("SELECT rowkind, id FROM t$audit_log WHERE id > 2")) == [("+I", 3), ("+I", 4)]
    assert sorted(ask("SELECT id FROM t$read_optimized WHERE dt = 'a'")) == [(1,), (2,), (4,)]
    assert sorted(ask("SELECT * FROM t$binlog")) == [("+I", ["a"], [1]), ("+I", ["a"], [2]), ("+I", ["a"], [4]), ("+I", ["b"], [3])]
    for rows in ("audit_log", "ro", "read_optimized", "binlog"):
        assert ask(f"SELECT COUNT(*) FROM t${rows}") == [(4,)]
        if rows != "binlog":  # whose columns are arrays
            assert ask(f"SELECT COUNT(*) FROM t${rows} WHERE dt = 'a'") == [(3,)]


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


def test_unknown_names_are_told(ask: Any) -> None:
    with pytest.raises(TableNotExist, match=r"\$files"):
        ask("SELECT * FROM t$file")
    with pytest.raises(TableNotExist, match=r"sys\.tables"):
        ask("SELECT * FROM sys.table")
    with pytest.raises(LakeError):
        ask("SELECT * FROM missing$files")


def test_columns_have_no_functions(gateway: Gateway, ask: Any) -> None:
    gateway.run("CREATE TABLE n (id BIGINT NOT NULL COMMENT 'number', a ARRAY<INT>)").close()
    assert ask("SELECT * FROM n$aggregation_fields") == [
        ("id", "BIGINT NOT NULL", "[]", "[]", "number"),
        ("a", "ARRAY<INT>", "[]", "[]", None),
    ]


def test_rows_without_row_tracking_have_no_ids(ask: Any) -> None:
    with pytest.raises(UnsupportedStatement, match=r"default\.t have no ids.*row-tracking\.enabled"):
        ask("SELECT * FROM t$row_tracking")


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
