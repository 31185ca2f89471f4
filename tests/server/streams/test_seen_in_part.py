"""Who sees only a part of a table is told nothing of the rest: not by counts, sizes, partitions or paths, at no endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from model.errors import Forbidden, SnapshotNotExist
from model.identifier import Identifier
from model.snapshot import CommitKind
from sql.statements.procedures.calls import PROCEDURES
from table.write.snapshot_builder import CommitRequest
from tests.server.access.test_access import As, ada, admin

__all__ = ["ada", "admin"]
TABLES = ("filtered", "masked", "narrow")
SHOWN, HIDDEN = "ada_sees_this", "nobody_sees_this"


@pytest.fixture
def tables(admin: As, ada: As) -> As:
    """Tables with a row filter, a mask, a column grant for ada, each with 3 rows in two partitions, and a tag."""
    for name in TABLES:
        admin.sql(f"CREATE TABLE {name} (id INT, s STRING, day STRING) PARTITIONED BY (day)")
        assert admin.sql(f"INSERT INTO {name} VALUES (1, 'a', '{HIDDEN}'), (2, 'b', '{SHOWN}'), (3, 'c', '{HIDDEN}')")[0] == 200
        admin.sql(f"CALL sys.create_tag('{name}', 'kept')")
        admin.sql(f"GRANT SELECT {'(id)' if name == 'narrow' else ''} ON {name} TO ada")
    assert admin.sql(f"CREATE POLICY p ON filtered TO ada USING (day = '{SHOWN}')")[0] == 200
    assert admin.sql("CREATE MASKING POLICY p ON masked (s) TO ada USING (NULL)")[0] == 200
    return ada


@pytest.mark.parametrize("name", TABLES)
def test_system_tables_tell_no_counts(tables: As, name: str) -> None:
    for kind in ("files", "partitions", "buckets", "manifests", "debt", "compaction", "statistics", "file_key_ranges"):
        assert tables.sql(f"SELECT * FROM {name}${kind}") == (403, "Forbidden"), kind
    counts = "total_record_count, delta_record_count"
    assert tables.sql(f"SELECT snapshot_id, {counts} FROM {name}$snapshots") == (200, [[1, None, None]])
    assert tables.sql(f"SELECT tag_name, record_count FROM {name}$tags") == (200, [["kept", None]])
    sizes = "record_count, file_size_in_bytes, file_count, last_file_creation_time"
    assert tables.sql(f"SELECT {sizes} FROM sys.tables WHERE table_name = '{name}'") == (200, [[None] * 4])
    assert tables.sql(f"CALL sys.doctor('{name}')") == (403, "Forbidden")
    assert tables.sql("SELECT * FROM sys.partitions") == (200, [])


def test_how_far_event_time_has_come_is_not_told(tables: As, admin: As, gateway: Gateway) -> None:
    table = gateway.lake.open(Identifier("default", "filtered"))
    gateway.lake.commit(table, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=5_000))
    asked = {"scan.watermark": "5000"}
    assert gateway.lake.scan(table, asked).snapshot is not None
    ada = gateway.lake.for_caller(gateway.lake.access.caller(tables._headers["Authorization"].removeprefix("Bearer ")))
    with pytest.raises(SnapshotNotExist, match="watermark of at least 5000"):
        ada.scan(table, asked)
    for bound in ("4999", "5001"):  # a stream that ends there would tell
        with pytest.raises(Forbidden, match="streams of a part"):
            ada.follow(ada.open(Identifier("default", "filtered")), {"scan.bounded.watermark": bound})
    assert admin.sql("SELECT snapshot_id, watermark FROM filtered$snapshots") == (200, [[1, None], [2, 5_000]])
    assert tables.sql("SELECT watermark, next_row_id FROM filtered$snapshots") == (200, [[None, None]] * 2)
    told = tables.call("GET", "/v1/sluice/databases/default/tables/filtered/snapshots/2")[1]
    assert "commitKind" in told["snapshot"]
    assert not {"watermark", "nextRowId"} & set(told["snapshot"]), told


def test_who_sees_all_is_told_all(tables: As, admin: As) -> None:
    assert admin.sql("SELECT total_record_count FROM filtered$snapshots") == (200, [[3]])
    assert admin.sql("SELECT record_count, file_count FROM sys.tables WHERE table_name = 'filtered'") == (200, [[3, 2]])
    admin.sql("DROP POLICY p ON filtered")
    assert tables.sql("SELECT record_count FROM sys.tables WHERE table_name = 'filtered'") == (200, [[3]])


def _numbers(answer: Any) -> list[object]:
    """Every count in an answer."""
    if isinstance(answer, list):
        return [found for one in answer for found in _numbers(one)]
    if not isinstance(answer, dict):
        return []
    own = [value for key, value in answer.items() if key.endswith(("RecordCount", "recordCount", "fileCount", "SizeInBytes"))]
    return own + [found for one in answer.values() for found in _numbers(one)]


@pytest.mark.parametrize("name", TABLES)
def test_the_rest_catalog_tells_no_counts(tables: As, admin: As, name: str) -> None:
    below = f"/v1/sluice/databases/default/tables/{name}"
    for path in ("snapshot", "snapshots", "snapshots/1", "snapshots/LATEST", "snapshots/kept", "tags/kept"):
        status, answer = tables.call("GET", f"{below}/{path}")
        assert status == 200
        assert set(_numbers(answer)) == {0}, path
        assert 3 in _numbers(admin.call("GET", f"{below}/{path}")[1]), path
    assert tables.call("GET", f"{below}/partitions")[0] == 403
    # Whoever commits by REST carries the counts on, and would break them if they were not true.
    admin.sql(f"GRANT UPDATE ON {name} TO ada")
    assert tables.call("GET", f"{below}/snapshot")[1]["snapshot"]["recordCount"] == 3


@pytest.mark.parametrize("name", TABLES)
def test_pages_tell_no_counts(client: FlaskClient, tables: As, admin: As, name: str) -> None:
    def page(who: As, path: str) -> tuple[int, str]:
        answer = client.get(f"/ui/{path}", headers=who._headers)
        return answer.status_code, answer.text

    for tab in ("files", "snapshots", "maintenance", "consumers"):
        assert page(tables, f"tables/default/{name}/{tab}")[0] == 403, tab
        assert page(admin, f"tables/default/{name}/{tab}")[0] == 200, tab
    status, text = page(tables, f"tables/default/{name}")
    assert status == 200
    assert "not told" in text
    assert not [word for word in (HIDDEN, "Latest commits", "Rows over time") if word in text]
    assert "Latest commits" in page(admin, f"tables/default/{name}")[1]
    status, text = page(tables, "catalog?database=default&order=rows")
    assert (status, text.count('data-label="Rows">3<')) == (200, 0)
    assert page(admin, "catalog?database=default&order=rows")[1].count('data-label="Rows">3<') == len(TABLES)


WHOLE = (
    "TRUNCATE TABLE filtered",
    "TRUNCATE TABLE `filtered$branch_b`",
    f"ALTER TABLE filtered DROP PARTITION (day = '{HIDDEN}')",
    f"CALL sys.drop_partition('filtered', 'day={HIDDEN}')",
    "CALL sys.rollback_to('filtered', 1)",
    "CALL sys.rollback_to('filtered', 'kept')",
    "CALL sys.expire_snapshots('filtered', 1)",
    "CALL sys.delete_tag('filtered', 'kept')",
    "CALL sys.replace_tag('filtered', 'kept', 2)",
    "CALL sys.delete_branch('filtered', 'b')",
    "CALL sys.fast_forward('filtered', 'b')",
    "CALL sys.remove_orphan_files('filtered')",
    "CALL sys.purge_files('filtered')",
    "CALL sys.remove_unexisting_files(table => 'filtered', dry_run => false)",
    f"CALL sys.compact(table => 'filtered', partitions => 'day={HIDDEN}')",
    f"CALL sys.rewrite_files(table => 'filtered', partitions => 'day={HIDDEN}')",
)
"""Whatever takes rows or history of a table away without looking at single rows, and what names partitions."""


def test_rows_that_are_hidden_are_not_taken_away(tables: As, admin: As) -> None:
    """A DELETE of the rows that are seen is another thing; see `tests/sql/spark/test_delete.py`."""
    admin.sql("CALL sys.create_branch('filtered', 'b', 'kept')")
    assert admin.sql("INSERT INTO filtered VALUES (4, 'd', 'later')")[0] == 200
    assert admin.sql("GRANT SELECT, INSERT, DELETE, PURGE ON filtered TO ada")[0] == 200
    admin.sql("ALTER TABLE filtered SET ('rows.erasable' = 'true')")

    def held() -> list[Any]:
        answers = [
            admin.sql(f"SELECT {what}")
            for what in ("id, day FROM filtered", "snapshot_id FROM filtered$snapshots", "tag_name FROM filtered$tags")
        ]
        assert [status for status, _ in answers] == [200] * 3
        return answers

    before = held()
    for text in WHOLE:
        assert tables.sql(text) == (403, "Forbidden"), text
    below = "/v1/sluice/databases/default/tables/filtered"
    for method, path, body in (
        ("POST", "partitions/drop", {"partitionSpecs": [{"day": HIDDEN}]}),
        ("POST", "rollback", {"instant": {"type": "snapshot", "snapshotId": 1}}),
        ("DELETE", "tags/kept", None),
        ("DELETE", "branches/b", None),
        ("POST", "branches/b/forward", {}),
    ):
        assert tables.call(method, f"{below}/{path}", body)[0] == 403, path
    assert held() == before


@pytest.mark.parametrize("name", ["filtered", "masked"])
def test_lines_for_each_partition_are_for_who_reads_all(tables: As, admin: As, name: str) -> None:
    admin.sql(f"GRANT INSERT ON {name} TO ada")
    assert admin.sql(f"ALTER TABLE {name} SET ('bucket' = '2')")[0] == 200
    call = f"CALL sys.rescale(table => '{name}', dry_run => true)"
    assert {row[0].partition("=")[2] for row in admin.sql(call)[1]} == {HIDDEN, SHOWN}
    assert tables.sql(call) == (200, [])


CHOOSING = {"partitions": f"'day={HIDDEN}'", "partition": f"'day={HIDDEN}'", "where": "'id > 0'", "buckets": "'1'"}
CHOOSING["partition_idle_time"] = "'1 s'"
NOT_CHOOSING = {
    *("table", "dry_run", "options", "columns", "column", "default_value", "deep", "parallelism", "scan_parallelism", "sink_parallelism"),
    *("including_consumers", "excluding_consumers", "consumer_id", "next_snapshot_id", "order_strategy", "order_by", "compact_strategy"),
    *("branch", "from_branch", "to_branch", "ignore_if_exists", "tag", "target_tag", "time_retained", "snapshot_id", "snapshot"),
    *("timestamp", "watermark", "version", "older_than", "retain_max", "retain_min", "max_deletes", "bucket_num", "path", "mode"),
    "from_snapshot",
    *("expiration_time", "timestamp_formatter", "timestamp_pattern", "expire_strategy", "max_expires"),  # lists partitions, and is refused
    *("source_type", "target_table", "delete_origin", "connector", "source_table"),  # of tables that are not ours yet
}


def test_no_argument_chooses_files_for_who_sees_a_part(tables: As, admin: As) -> None:
    """Of every procedure: what it counts for some of the files tells of the rows in them. A new argument is put on one of both lists."""
    admin.sql("CREATE TABLE bucketed (id INT, s STRING, day STRING) PARTITIONED BY (day) WITH ('bucket' = '2', 'bucket-key' = 's')")
    assert admin.sql(f"INSERT INTO bucketed VALUES (1, 'a', '{HIDDEN}'), (2, 'b', '{SHOWN}'), (3, 'c', '{HIDDEN}')")[0] == 200
    admin.sql("GRANT SELECT, INSERT ON bucketed TO ada")
    admin.sql(f"CREATE POLICY p ON bucketed TO ada USING (day = '{SHOWN}')")
    asked = 0
    for name, procedure in PROCEDURES.items():
        if "table" not in procedure.parameters or name == "sys.erase":  # DELETE, which a row policy keeps from her
            continue
        assert set(procedure.parameters) <= CHOOSING.keys() | NOT_CHOOSING, name
        for argument in CHOOSING.keys() & procedure.parameters.keys():
            call = f"CALL {name}(`table` => 'bucketed', {argument} => {CHOOSING[argument]}, dry_run => true)"
            assert tables.sql(call) == (403, "Forbidden"), call
            asked += 1
    assert asked >= 8
    assert tables.sql("CALL sys.compact(`table` => 'bucketed', dry_run => true)")[0] == 200
    by_table = "CALL sys.compact_database(including_tables => 'bucketed', compact_strategy => 'full', dry_run => true"
    assert len(tables.sql(f"{by_table})")[1]) == 1
    assert tables.sql(f"{by_table}, partition_idle_time => '1 s')") == (200, [])
