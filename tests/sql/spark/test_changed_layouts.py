"""UPDATE and MERGE on tables with a past: columns of earlier schemas, file indexes, branches, masks, and nothing left after an erasure."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.orphans import remove_orphan_files
from model.errors import AnalysisError, Forbidden, UnsupportedType
from model.identifier import Identifier
from model.schema.change import AddColumn, ColumnChange, DropColumn, Nested, RenameColumn, SchemaChange, UpdateColumnType
from model.schema.types import BigIntType, VarCharType
from tests.erased import VALUE
from tests.lake.access.test_access import user
from tests.short import diagonal, short
from tests.sql.spark.conftest import Run
from tests.sql.statements.test_erase import holders
from tests.sql.tables import make_table

T = Identifier("default", "t")
ERASABLE = "'rows.erasable' = 'true', 'write-only' = 'true'"


@pytest.mark.parametrize(("bucket", "format_"), diagonal(["-1", "1"], ["parquet", "orc"]))
def test_files_of_every_schema_are_changed_alike(run: Run, format_: str, bucket: str) -> None:
    """Added, renamed, dropped and added anew, and retyped columns: in files of before and of afterwards."""
    run(f"CREATE TABLE t (id INT, a STRING, n INT, gone INT) WITH ('bucket' = '{bucket}', 'file.format' = '{format_}', {ERASABLE})")
    run("INSERT INTO t VALUES (1, 'one', 10, 100), (2, 'two', 20, 200), (3, 'three', 30, 300)")
    run("ALTER TABLE t RENAME a TO b; ALTER TABLE t DROP gone; ALTER TABLE t MODIFY n BIGINT")
    run("ALTER TABLE t ADD more STRING; ALTER TABLE t ADD gone STRING")
    run("INSERT INTO t VALUES (4, 'four', 40000000000, 'm4', 'g4')")
    assert run("UPDATE t SET b = upper(b), n = n + 40000000000, more = concat('m', id) WHERE id IN (1, 4)")[0][0] == 2
    assert sorted(run("SELECT * FROM t")) == [
        (1, "ONE", 40000000010, "m1", None),
        (2, "two", 20, None, None),
        (3, "three", 30, None, None),
        (4, "FOUR", 80000000000, "m4", "g4"),
    ]
    run("CREATE TABLE s (id INT, gone STRING); INSERT INTO s VALUES (2, 'back'), (9, 'new')")
    merge = (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET gone = s.gone "
        "WHEN NOT MATCHED THEN INSERT (id, gone) VALUES (s.id, s.gone) WHEN NOT MATCHED BY SOURCE AND n = 30 THEN DELETE"
    )
    assert run(merge)[0][0] == 3
    assert sorted(run("SELECT id, b, gone FROM t")) == [(1, "ONE", None), (2, "two", "back"), (4, "FOUR", "g4"), (9, None, "new")]
    assert run("SELECT id FROM t WHERE gone = 'back' AND more IS NULL") == [(2,)]
    assert run("CALL sys.check_table('t', deep => true)") == []


PARTS: list[ColumnChange] = [
    RenameColumn(name="b", to="c"),
    DropColumn(name="gone"),
    AddColumn(name="gone", type=VarCharType()),
    RenameColumn(name="a", to="b"),
]
"""Of a ROW inside an ARRAY and a MAP, as only clients of the REST catalog can ask for."""


@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["orc"]))
def test_both_lanes_match_parts_inside_arrays_and_maps_by_id(run: Run, lake: Lake, format_: str) -> None:
    """And what is compacted, updated or sorted has the same values after."""
    part = "ROW<a INT, b INT, gone INT>"
    run(
        f"CREATE TABLE t (id INT, l ARRAY<{part}>, m MAP<STRING, ROW<l ARRAY<{part}>>>, k MAP<INT, {part}>) "
        f"WITH ('bucket' = '-1', 'file.format' = '{format_}', {ERASABLE})"
    )
    one = "named_struct('a', 1, 'b', 2, 'gone', 3)"
    run(f"INSERT INTO t SELECT 1, array({one}, NULL), map('x', named_struct('l', array({one}))), map(1, {one})")
    run("INSERT INTO t VALUES (2, NULL, NULL, NULL)")
    inside = (("l", "element"), ("m", "value", "l", "element"), ("k", "value"))
    changes: list[SchemaChange] = [Nested(inside=way, change=change) for way in inside for change in PARTS]
    lake.alter_table(T, [*changes, Nested(inside=("k",), change=UpdateColumnType(name="key", type=BigIntType()))])
    new = {"b": 1, "c": 2, "gone": None}
    wanted = [(1, [new, None], {"x": {"l": [new]}}, {1: new}), (2, None, None, None)]

    def seen(text: str) -> list[tuple[object, ...]]:
        return sorted((row[0], row[1], *(value and dict(value) for value in row[2:])) for row in run(text))

    def check() -> None:
        assert seen("SELECT * FROM t") == wanted
        assert seen("SELECT * FROM t ORDER BY id + 0") == wanted

    check()
    run("UPDATE t SET id = 2 WHERE id = 2")
    run("CALL sys.compact('t', compact_strategy => 'full')")
    assert run("SELECT count(*) FROM t$files") == [(1,)]
    check()
    run("CALL sys.compact(`table` => 't', order_strategy => 'order', order_by => 'id')")
    check()


def test_indexes_and_statistics_are_of_the_new_values(run: Run, lake: Lake) -> None:
    indexes = "'file-index.bloom-filter.columns' = 'b', 'file-index.bitmap.columns' = 'm', 'file-index.range-bitmap.columns' = 'r'"
    run(f"CREATE TABLE t (id INT, b STRING, m INT, r INT) WITH ({indexes}, {ERASABLE})")
    run("INSERT INTO t VALUES (1, 'old1', 1, 10), (2, 'old2', 2, 20)")
    run("CALL sys.analyze_table('t')")
    assert run("UPDATE t SET b = concat('new', id), m = m + 100, r = r * 1000 WHERE id = 1")[0][0] == 1
    for condition, ids in (
        ("b = 'new1'", [1]), ("b = 'old1'", []), ("b = 'old2'", [2]), ("m = 101", [1]), ("m = 1", []), ("m = 2", [2]),
        ("r > 5000", [1]), ("r = 10", []), ("r BETWEEN 15 AND 25", [2]),
    ):  # fmt: skip
        assert run(f"SELECT id FROM t WHERE {condition}") == [(id_,) for id_ in ids], condition
    table = lake.open(T)
    (entry,) = table.files.live_entries(table.latest())
    assert entry.file.embedded_file_index or entry.file.extra_files
    latest = table.latest()
    assert latest is not None
    assert latest.statistics is None, "they tell of the old values"
    assert run("CALL sys.check_table('t', deep => true)") == []


def test_a_branch_is_changed_alone(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, v INT) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 1), (2, 2); CALL sys.create_tag('t', 'one'); CALL sys.create_branch('t', 'b', 'one')")
    assert run("UPDATE t$branch_b SET v = v * 10 WHERE abs(id) = 1")[0][0] == 1
    run("CREATE TABLE s (id INT); INSERT INTO s VALUES (2), (3)")
    merge = "MERGE INTO t$branch_b AS t USING s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    assert run(merge)[0][0] == 2
    assert sorted(run("SELECT * FROM t$branch_b"), key=str) == [(1, 10), (3, None)]
    assert sorted(run("SELECT * FROM t")) == [(1, 1), (2, 2)]
    assert sorted(run("SELECT * FROM t VERSION AS OF 'one'")) == [(1, 1), (2, 2)]


def test_what_is_masked_comes_out_by_no_way(run: Run, on_spark: Gateway, lake: Lake) -> None:
    run(f"CREATE TABLE t (id INT, secret STRING, r ROW<a STRING, b STRING>, seen STRING) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'hush', named_struct('a', 'hush', 'b', 'x'), 's')")
    run("CREATE TABLE s (id INT, secret STRING); INSERT INTO s VALUES (1, 'hush')")
    token = user(lake, "ada")
    run("GRANT SELECT, INSERT, DELETE ON t TO ada; GRANT SELECT ON s TO ada")
    run("CREATE MASKING POLICY m ON t (secret) TO ada USING (NULL); CREATE MASKING POLICY n ON t (r) TO ada USING (NULL)")
    before = run("SELECT * FROM t")
    for text in (
        "UPDATE t SET seen = secret",
        "UPDATE t SET seen = (SELECT max(s.secret) FROM s WHERE s.secret = t.secret)",
        "UPDATE t AS x SET seen = (SELECT x.secret)",
        "UPDATE t SET seen = 'found' WHERE EXISTS (SELECT 1 FROM s WHERE s.secret = t.secret)",
        "UPDATE t SET seen = 'found' WHERE secret LIKE 'h%'",
        "UPDATE t SET seen = r.a",
        "UPDATE t SET r.b = 'other'",
        "UPDATE t SET seen = to_json(struct(t.*))",
        "MERGE INTO t USING s ON t.secret = s.secret WHEN MATCHED THEN UPDATE SET seen = 'found'",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND t.secret = s.secret THEN UPDATE SET seen = 'found'",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET seen = t.secret",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET r.b = s.secret",
        "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND secret = 'hush' THEN DELETE",
        "DELETE FROM t WHERE secret = 'hush'",
    ):
        with pytest.raises((Forbidden, AnalysisError)):
            run(text, caller=lake.access.caller(token))
        assert run("SELECT * FROM t") == before, text
    # What a query over the table itself shows is what its caller sees: the mask.
    for value in ("max(u.secret)", "max(to_json(struct(u.*)))"):
        with suppress(Forbidden, AnalysisError):
            run(f"UPDATE t SET seen = (SELECT {value} FROM t AS u)", caller=lake.access.caller(token))
        assert "hush" not in str(run("SELECT seen FROM t")), value


def test_nothing_is_left_of_what_was_updated_and_erased(run: Run, lake: Lake, warehouse: Path, dsn: str) -> None:
    """Neither of the value that an UPDATE put in and a MERGE took out, nor of what a MERGE brought along."""
    run(f"CREATE TABLE t (id INT, name STRING) WITH ('bucket' = '1', 'file-index.bloom-filter.columns' = 'name', {ERASABLE})")
    run("INSERT INTO t VALUES (1, 'x'), (2, 'bob')")
    run(f"UPDATE t SET name = concat('{VALUE[:5]}', '{VALUE[5:]}') WHERE abs(id) = 1; CALL sys.create_tag('t', 'with')")
    run("CREATE TABLE s (id INT); INSERT INTO s VALUES (3); CALL sys.analyze_table('t')")
    merge = f"MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, concat('{VALUE}', s.id))"
    assert run(merge)[0][0] == 1
    assert len(holders(warehouse, dsn)) > 2, "the search finds what is there"
    assert run("MERGE INTO t USING (SELECT 1 AS id) AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET name = NULL")[0][0] == 1
    erase = "CALL sys.erase(`table` => 't', `where` => 'name LIKE ''Erika%''')"
    run(erase)
    remove_orphan_files(lake, lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)
    assert [row for row in run(erase) if row[3]] == []
    assert holders(warehouse, dsn) == []
    assert sorted(run("SELECT * FROM t")) == [(1, None), (2, "bob")]


def test_a_table_with_row_tracking_is_refused_and_unchanged(run: Run, lake: Lake) -> None:
    make_table(lake, options={"bucket": "-1", "row-tracking.enabled": "true", "rows.erasable": "true"}, id="INT", v="INT")
    run("INSERT INTO t VALUES (1, 1)")
    run("CREATE TABLE s (id INT); INSERT INTO s VALUES (1)")
    for text in ("UPDATE t SET v = 2", "UPDATE t SET v = v + id", "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE"):
        with pytest.raises(UnsupportedType, match=r"row-tracking\.enabled"):
            run(text)
    assert run("SELECT * FROM t") == [(1, 1)]
