"""Statements that define, describe and set things, run on a real catalog without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sql.statements.insert
from gateway.gateway import Gateway, GatewayLimits
from lake import Caller, Lake
from model.catalog_errors import MetadataOnlyTable
from model.errors import (
    AnalysisError,
    Forbidden,
    InvalidOption,
    InvalidSchema,
    LakeError,
    OutcomeUnknown,
    TableAlreadyExist,
    TableDiverged,
    TableNotExist,
)
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.schema.types import IntType
from sql.connectors.stored import find_connector
from sql.execution.results import ResultColumn
from sql.execution.session import Session
from tests.fix_gateway import NoSpark

_TEMPORARY, _OF_PRINT = "CREATE TEMPORARY TABLE t", "WITH ('connector' = 'print')"
EVERYTHING = """CREATE TABLE `every thing` (
  `a` BOOLEAN NOT NULL COMMENT 'it''s a \\\\n comment', b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38, 10),
  i CHAR(3), j VARCHAR(7), k STRING, l BINARY(4), m VARBINARY(9), n BYTES, o DATE, p TIME(3),
  q TIMESTAMP(3), r TIMESTAMP(6), s TIMESTAMP_LTZ(3),
  t TIMESTAMP_LTZ(6), u ARRAY<INT NOT NULL>, v MAP<STRING NOT NULL, ARRAY<DATE>>,
  w ROW<x INT NOT NULL, `y ``z` ROW<q STRING> COMMENT 'inner''s \\\\'> NOT NULL, x TIMESTAMP(0),
  WATERMARK FOR q AS q - INTERVAL '5' SECOND
) COMMENT 'all of it' PARTITIONED BY (o, d) WITH ('bucket' = '4', 'bucket-key' = 'e,k', 'target-file-size' = '64 mb')"""


def rows(gateway: Gateway, text: str) -> list[tuple[Any, ...]]:
    return gateway.run(text).collect()


def test_show_create_table_makes_the_same_table(gateway: Gateway, lake: Lake) -> None:
    gateway.run(EVERYTHING).close()
    shown = rows(gateway, "SHOW CREATE TABLE `every thing`")[0][0]
    first = lake.open(Identifier("default", "every thing")).schema
    gateway.run("DROP TABLE `every thing`").close()
    gateway.run(shown).close()
    again = lake.open(Identifier("default", "every thing")).schema
    assert (again.fields, again.options, again.partition_keys, again.comment) == (
        first.fields, first.options, first.partition_keys, first.comment,
    )  # fmt: skip
    assert first.options["schema.watermark.0.strategy.expr"] == "`q` - INTERVAL '5' SECOND"
    assert rows(gateway, "SHOW CREATE TABLE `every thing`")[0][0] == shown


def test_a_table_is_described_as_flinks_clients_expect(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id BIGINT NOT NULL, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) PARTITIONED BY (ts)").close()
    found = gateway.run("DESCRIBE t")
    assert [c.name for c in found.columns] == ["name", "type", "null", "key", "extras", "watermark"]
    assert found.collect() == [
        ("id", "BIGINT", False, None, "BUCKET KEY", None),
        ("ts", "TIMESTAMP(3)", True, None, "PARTITION KEY", "`ts`"),
    ]


def test_a_table_like_another(gateway: Gateway, lake: Lake) -> None:
    gateway.run("CREATE TABLE s (a INT, p INT) PARTITIONED BY (p) WITH ('bucket' = '2', 'bucket-key' = 'a')").close()
    gateway.run("CREATE TABLE t (b INT) WITH ('bucket' = '3') LIKE s (EXCLUDING PARTITIONS)").close()
    made = lake.open(Identifier("default", "t")).schema
    assert (made.field_names, made.partition_keys, made.options["bucket"]) == (("a", "p", "b"), (), "3")
    with pytest.raises(InvalidOption, match="is in both tables"):
        gateway.run("CREATE TABLE u WITH ('bucket' = '3') LIKE s (INCLUDING OPTIONS)")


def test_a_table_like_another_has_none_of_its_secrets(gateway: Gateway, lake: Lake) -> None:
    stored = new_schema([column("a", "INT")], options={"s3.secret-key": "abc", "sink.parallelism": "2", "bucket": "-1"})
    lake.create_table(Identifier("default", "s"), stored)
    gateway.run("CREATE TABLE t LIKE s").close()
    options = lake.open(Identifier("default", "t")).schema.options
    assert ("s3.secret-key" in options, options["sink.parallelism"]) == (False, "2")


def test_one_alter_is_one_version_of_the_schema_or_none(gateway: Gateway, lake: Lake) -> None:
    gateway.run("CREATE TABLE t (a INT, b INT)").close()
    gateway.run("ALTER TABLE t ADD (c INT FIRST, d STRING AFTER a)").close()
    made = lake.open(Identifier("default", "t")).schema
    assert (made.id, made.field_names) == (1, ("c", "a", "d", "b"))
    with pytest.raises(LakeError):
        gateway.run("ALTER TABLE t DROP (b, nosuch)")
    assert lake.open(Identifier("default", "t")).schema == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE TABLE t (a INT) WITH ('bukcet' = '1')", "Did you mean 'bucket'"),
        ("CREATE TABLE t (a INT) WITH ('merge-engine' = 'first-row')", "primary key"),
        ("CREATE TABLE t (a INT) WITH ('deletion-vectors.enabled' = 'true')", "not available"),
        ("CREATE TABLE t (a INT) WITH ('data-evolution.enabled' = 'true')", "not available"),
        ("CREATE TABLE t (a INT) WITH ('row-tracking.enabled' = 'true')", "not available"),
        ("CREATE TABLE t (a INT) WITH ('file.format' = 'avro')", "parquet, orc"),
        ("CREATE TABLE t (a INT) WITH ('file-index.bsi.columns' = 'a')", "not implemented"),
        ("CREATE TABLE t (a INT) WITH ('data-file.external-paths' = 's3://x')", "not implemented"),
        ("CREATE TABLE t (a INT) WITH ('schema.watermark.0.rowtime' = 'a')", "never set by hand"),
        ("CREATE TABLE t (a TIMESTAMP(9))", "precision 6"),
        ("CREATE TABLE t (a MULTISET<INT>)", "MULTISET"),
        ("CREATE TABLE t (a INT, a INT)", "declared twice"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (b)", "not a column"),
        ("CREATE TABLE t (a STRING, WATERMARK FOR a AS a)", "TIMESTAMP(3)"),
        ("CREATE TABLE t (a TIMESTAMP(3), WATERMARK FOR a AS a - reflect('java.lang.System', 'exit', 0))", "is not understood"),
        ("CREATE TABLE t (a TIMESTAMP(3), WATERMARK FOR a AS CASE WHEN f(a) THEN a END)", "is not understood"),
        (f"{_TEMPORARY} (a STRING, WATERMARK FOR a AS a) {_OF_PRINT}", "TIMESTAMP(3)"),
        (f"{_TEMPORARY} (a TIMESTAMP(6), WATERMARK FOR a AS a) {_OF_PRINT}", "TIMESTAMP(3)"),
        (f"{_TEMPORARY} (a TIMESTAMP(3), WATERMARK FOR a AS a - reflect('java.lang.System', 'exit', 0)) {_OF_PRINT}", "is not understood"),
        ("SET 'spark.sql.shuffle.partitions' = '1'", "belong to the server"),
        ("SET 'execution.runtime-mode' = 'endless'", "one of batch, streaming, automatic"),
        ("RESET 'pipeline.nmae'", "Did you mean 'pipeline.name'"),
        ("CALL sys.nosuch()", "There is no procedure sys.nosuch"),
        ("CALL sys.clone('default', 't', '', 'default', 'copy')", "CREATE TABLE copy LIKE t; INSERT INTO copy SELECT * FROM t"),
        ("CALL sluice.SYS.Clone(`table` => 't', `target_table` => 'copy')", "CALL sys.clone is not available"),
        ("USE CATALOG other", "There is no catalog other"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(gateway: Gateway, lake: Lake, text: str, says: str) -> None:
    with pytest.raises(LakeError) as refused:
        gateway.run(text)
    assert says in refused.value.message
    assert lake.list_tables("default") == []


def test_settings_are_echoed_and_forgotten(gateway: Gateway) -> None:
    found = rows(gateway, "SET 'pipeline.name' = 'x'; SET table.local-time-zone = 'Europe/Berlin'; SET")
    assert found == [("pipeline.name", "x"), ("table.local-time-zone", "Europe/Berlin")]
    assert rows(gateway, "SET 'pipeline.name' = 'x'; RESET 'pipeline.name'; SET") == []


def test_a_temporary_table_stays_inside_the_import_directories(lake: Lake, spark_stub: NoSpark, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("1\n")
    (inside / "fine.csv").write_text("1\n")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=1, import_dirs=(str(inside),)))
    gateway.start()
    create = "CREATE TEMPORARY TABLE f (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}')"
    try:
        for path in (outside / "secret.csv", inside / "link.csv", inside / ".." / "out" / "secret.csv", "/etc/passwd", inside, "s3://x/y"):
            with pytest.raises(Forbidden, match="not allowed"):
                gateway.run(create.format(path))
        shown = rows(gateway, create.format(inside / "fine.csv") + "; SHOW CREATE TABLE f")[0][0]
        assert "CREATE TEMPORARY TABLE `f`" in shown
        assert rows(gateway, create.format(inside / "fine.csv") + "; DROP TEMPORARY TABLE f; SHOW TABLES") == []
    finally:
        gateway.close()


class Filling:
    """A query whose columns are known and whose rows end in an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
        self._error = error
        monkeypatch.setattr(sql.statements.insert, "query_columns", lambda context, query: [ResultColumn("a", IntType())])
        monkeypatch.setattr(sql.statements.insert, "insert_query", self.insert)

    def insert(self, *_: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", [AnalysisError("no"), RuntimeError("a bug")])
def test_a_table_whose_query_fails_is_not_there(
    gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    Filling(monkeypatch, error)
    with pytest.raises(type(error)):
        gateway.run("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(TableNotExist):
        lake.open(Identifier("default", "t"))


def test_a_table_whose_rows_may_have_landed_stays(gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    Filling(monkeypatch, OutcomeUnknown("who knows"))
    with pytest.raises(OutcomeUnknown):
        gateway.run("CREATE TABLE t AS SELECT 1 AS a")
    assert lake.open(Identifier("default", "t")).schema.field_names == ("a",)


def test_columns_beside_a_query_are_refused(gateway: Gateway) -> None:
    with pytest.raises(InvalidSchema, match="leave the column list out"):
        gateway.run("CREATE TABLE t (a INT) AS SELECT 1 AS a")


def test_a_table_written_past_the_catalog_is_repaired_by_call(gateway: Gateway, warehouse: Path) -> None:
    gateway.run("CREATE TABLE `o'neil` (a INT); INSERT INTO `o'neil` VALUES (1)").close()
    foreign = warehouse / "default.db/o'neil/snapshot/snapshot-2"
    foreign.write_text("not ours")
    with pytest.raises(TableDiverged) as told:
        gateway.run("INSERT INTO `o'neil` VALUES (2)")
    advice = "CALL sys.repair_table('default.o''neil', true)"
    assert advice in told.value.message
    assert [row[:2] for row in rows(gateway, advice)] == [("set aside", 2)]
    assert foreign.exists()
    [(_, _, moved_to, _)] = rows(gateway, advice.replace(", true", ""))
    assert Path(moved_to).read_text() == "not ours"
    gateway.run("INSERT INTO `o'neil` VALUES (2)").close()
    assert sorted(rows(gateway, "SELECT a FROM `o'neil`")) == [(1,), (2,)]


def test_alter_table_changes_the_watermark(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT, ts TIMESTAMP(3))").close()

    def shown(change: str) -> str:
        gateway.run(f"ALTER TABLE t {change}").close()
        return str(gateway.run("SHOW CREATE TABLE t").collect()[0][0])

    assert "WATERMARK FOR `ts` AS `ts` - INTERVAL '5' SECOND" in shown("ADD WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
    text = shown("MODIFY (id BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)")
    assert "`id` BIGINT" in text
    assert "WATERMARK FOR `ts` AS `ts` - INTERVAL '1' MINUTE" in text
    assert "WATERMARK" not in shown("DROP WATERMARK")


def test_a_table_of_another_engine_is_described(gateway: Gateway, lake: Lake) -> None:
    """It was refused, with the words that its description is kept here."""
    columns = [column("id", "BIGINT NOT NULL"), column("day", "DATE", comment="of the rows")]
    schema = new_schema(columns, partition_keys=["day"], options={"type": "format-table", "file.format": "csv"})
    lake.create_table(Identifier("default", "files"), schema)
    assert rows(gateway, "DESCRIBE files") == [
        ("id", "BIGINT", False, None, None, None, None), ("day", "DATE", True, None, "PARTITION KEY", None, "of the rows"),
    ]  # fmt: skip
    assert rows(gateway, "SHOW COLUMNS IN files") == [("id",), ("day",)]
    with pytest.raises(MetadataOnlyTable, match="its rows lie elsewhere"):
        gateway.run("SELECT * FROM files")
    with pytest.raises(Forbidden):
        lake.for_caller(Caller(principal="ann")).open_any(Identifier("default", "files"))


def test_a_table_with_a_connector_is_kept_for_every_session(gateway: Gateway, lake: Lake) -> None:
    text = """CREATE TABLE `sluice`.`default`.`made_up` (
  `id` BIGINT COMMENT 'counts',
  `at` TIMESTAMP(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
)
WITH (
  'connector' = 'datagen',
  'fields.id.end' = '9',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0'
)"""
    gateway.run(text).close()
    gateway.run(text.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")).close()
    assert rows(gateway, "SHOW CREATE TABLE made_up") == [(text,)]
    assert rows(gateway, "SHOW TABLES") == [("made_up",)]
    assert [row[:2] for row in rows(gateway, "DESCRIBE made_up")] == [("id", "BIGINT"), ("at", "TIMESTAMP(3)")]
    assert rows(gateway, "SHOW COLUMNS FROM made_up") == [("id",), ("at",)]
    with pytest.raises(TableAlreadyExist):
        gateway.run(text)
    with pytest.raises(AnalysisError, match="datagen, which is not written"):
        gateway.run("INSERT INTO made_up VALUES (1, NULL)")
    with pytest.raises(MetadataOnlyTable, match="its rows lie elsewhere"):
        gateway.run("CALL sys.compact('default.made_up')")
    with pytest.raises(InvalidOption, match="no such column"):
        gateway.run("CREATE TABLE wrong (id BIGINT) WITH ('connector' = 'datagen', 'fields.x.kind' = 'random')")
    with pytest.raises(InvalidOption, match="Did you mean 'datagen'"):
        gateway.run("CREATE TABLE wrong (id BIGINT) WITH ('connector' = 'datagn')")
    nobody = lake.for_caller(Caller(principal="ann"))
    with pytest.raises(Forbidden):
        find_connector(nobody, Session("s"), ("made_up",))
    gateway.run("DROP TABLE made_up").close()
    assert rows(gateway, "SHOW TABLES") == []


def test_what_is_temporary_is_dropped_as_in_flink(gateway: Gateway) -> None:
    made = "CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'datagen'); "
    for spelled in ("TEMPORARY TABLE", "TEMPORARY TABLE IF EXISTS", "TEMP TABLE", "TABLE"):
        with pytest.raises(TableNotExist):
            gateway.run(f"{made} DROP {spelled} g; SELECT * FROM g LIMIT 1")
    for nothing in ("TEMPORARY TABLE IF EXISTS g", "TEMPORARY TABLE IF EXISTS d.g", "TEMPORARY VIEW IF EXISTS v", "TEMP VIEW IF EXISTS v"):
        assert rows(gateway, f"CREATE TABLE IF NOT EXISTS g (a INT); DROP {nothing}; SHOW TABLES") == [("g",)]
    with pytest.raises(TableNotExist):
        gateway.run("DROP TEMPORARY TABLE g")
    with pytest.raises(AnalysisError, match="belongs to the session"):
        gateway.run("DROP TEMPORARY TABLE default.g")
    with pytest.raises(AnalysisError, match="no temporary view v"):
        gateway.run("DROP TEMPORARY VIEW v")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ALTER TABLE t ADD WATERMARK FOR tt AS tt", r"^Column tt does not exist in table default\.t\.$"),
        ("CREATE TABLE u (ts TIMESTAMP(3), WATERMARK FOR tt AS tt)", r"^Column tt does not exist in the table\.$"),
        ("CREATE TABLE u (a INT) PARTITIONED BY (a, a)", "^Column a stands twice in PARTITIONED BY"),
        ("CREATE TABLE u (a INT) PARTITIONED BY (a)", "^Every column is a partition column"),
        ("CREATE TABLE u (a INT) PARTITIONED BY (b)", "^Partition column b is not a column"),
        ("CREATE TABLE u (a INT, b ARRAY<INT>) PARTITIONED BY (a, b)", "^Partition column b has the nested type"),
        ("CREATE TABLE u (a INT, b ARRAY<INT>) PARTITIONED BY (a)", "^A queue needs a bucket key"),
    ],
)
def test_a_definition_that_cannot_be_is_told_what_is_wrong_with_it(gateway: Gateway, text: str, says: str) -> None:
    gateway.run("CREATE TABLE t (a INT, ts TIMESTAMP(3))").close()
    with pytest.raises(LakeError, match=says):
        gateway.run(text)
