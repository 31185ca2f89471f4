"""Definitions and procedures under a key whose server dies between their decision and their answer: a repeat is answered as done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sql.statements.all  # noqa: F401 - registers every statement
from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Caller, Lake, LakeTable
from lake.commit.idempotency import Idempotency, IdempotencyClaim
from model.errors import ExecutionError, IdempotencyInProgress, TableAlreadyExist
from model.identifier import Identifier
from model.schema.types import IntType
from model.snapshot import CommitKind
from sql.dialect import parse_one
from sql.execution import answers
from sql.execution.results import ResultColumn, ResultSet
from sql.spark.streaming.streams import StartPositions
from sql.statements import base
from sql.statements.procedures.calls import PROCEDURES
from table.write.snapshot_builder import CommitRequest
from tests.fix_gateway import NoSpark
from tests.short import one_in

ME = Caller(principal="me", administrator=True)
JOB = UUID(int=7)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A statement, what is there before it, and what others do after the server's death, which a second run would undo."""

    before: tuple[str, ...] = ("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    meanwhile: tuple[str, ...] = ()
    asked: str = "SELECT COUNT(*) FROM t"
    """Answered alike before and after the repeat."""
    answer: list[tuple[object, ...]] = field(default_factory=lambda: [("OK",)])


_TAGGED = ("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "CALL sys.create_tag('t', 'x')")
_TAGS = "SELECT tag_name, snapshot_id FROM t$tags"
_BRANCHED = (*_TAGGED, "CALL sys.create_branch('t', 'b', 'x')")
_MORE = ("INSERT INTO t VALUES (2)",)
CASES = {
    "CREATE DATABASE d": Case(meanwhile=("DROP DATABASE d",), asked="SHOW DATABASES"),
    "ALTER DATABASE d SET ('a' = '1')": Case(
        before=("CREATE DATABASE d",), meanwhile=("ALTER DATABASE d SET ('a' = '2')",), asked="DESCRIBE DATABASE EXTENDED d"
    ),
    "DROP DATABASE d CASCADE": Case(
        before=("CREATE DATABASE d",), meanwhile=("CREATE DATABASE d", "CREATE TABLE d.t (id INT)"), asked="SHOW TABLES IN d"
    ),
    "CREATE TABLE n (id INT)": Case(meanwhile=("DROP TABLE n",), asked="SHOW TABLES"),
    "CREATE TABLE n (id INT) WITH ('connector' = 'datagen')": Case(meanwhile=("DROP TABLE n",), asked="SHOW TABLES"),
    "ALTER TABLE t ADD (a INT)": Case(meanwhile=("ALTER TABLE t DROP (a)",), asked="DESCRIBE t"),
    "CALL sys.alter_column_default_value('t', 'id', '5')": Case(
        meanwhile=("ALTER TABLE t ALTER COLUMN id DROP DEFAULT",), asked="DESCRIBE t"
    ),
    "ALTER TABLE t RENAME id TO other": Case(asked="DESCRIBE t"),
    "UNDROP TABLE t": Case(before=(*_TAGGED, "DROP TABLE t"), meanwhile=("DROP TABLE t",), asked="SHOW TABLES"),
    "UNDROP TABLE t RESTART JOBS": Case(before=(*_TAGGED, "DROP TABLE t"), meanwhile=("DROP TABLE t",), asked="SHOW TABLES"),
    "UNDROP DATABASE d": Case(before=("CREATE DATABASE d", "DROP DATABASE d"), meanwhile=("DROP DATABASE d",), asked="SHOW DATABASES"),
    "PURGE TABLE t": Case(
        before=(*_TAGGED, "DROP TABLE t"), meanwhile=("CREATE TABLE t (id INT)", "DROP TABLE t"), asked="SHOW DROPPED TABLES"
    ),
    "CREATE VIEW v AS SELECT 1 AS a": Case(meanwhile=("DROP VIEW v",), asked="SHOW VIEWS"),
    "ALTER VIEW v SET ('a' = '1')": Case(before=("CREATE VIEW v AS SELECT 1 AS a",), asked="SHOW VIEWS"),
    "ALTER VIEW v AS SELECT 2 AS a": Case(before=("CREATE VIEW v AS SELECT 1 AS a",), asked="SHOW VIEWS"),
    "ALTER VIEW v RENAME TO w": Case(
        before=("CREATE VIEW v AS SELECT 1 AS a",), meanwhile=("ALTER VIEW w RENAME TO v",), asked="SHOW VIEWS"
    ),
    "DROP VIEW v": Case(before=("CREATE VIEW v AS SELECT 1 AS a",), meanwhile=("CREATE VIEW v AS SELECT 2 AS a",), asked="SHOW VIEWS"),
    "GRANT SELECT ON t TO ann, bea": Case(meanwhile=("REVOKE SELECT ON t FROM ann, bea",), asked="SHOW GRANTS"),
    "REVOKE SELECT ON t FROM ann, bea": Case(
        before=("CREATE TABLE t (id INT)", "GRANT SELECT ON t TO ann, bea"), meanwhile=("GRANT SELECT ON t TO bea",), asked="SHOW GRANTS"
    ),
    "CREATE ROLE r": Case(meanwhile=("DROP ROLE r",), asked="SHOW ROLES"),
    "DROP ROLE r": Case(before=("CREATE ROLE r",), meanwhile=("CREATE ROLE r",), asked="SHOW ROLES"),
    "GRANT ROLE r TO ann, bea": Case(before=("CREATE ROLE r",), meanwhile=("REVOKE ROLE r FROM ann, bea",), asked="SHOW GRANTS FOR ann"),
    "REVOKE ROLE r FROM ann, bea": Case(
        before=("CREATE ROLE r", "GRANT ROLE r TO ann, bea"), meanwhile=("GRANT ROLE r TO ann",), asked="SHOW GRANTS FOR ann"
    ),
    "CREATE POLICY p ON t USING (id > 1)": Case(meanwhile=("DROP POLICY p ON t",), asked="SHOW POLICIES ON t"),
    "DROP POLICY p ON t": Case(
        before=("CREATE TABLE t (id INT)", "CREATE POLICY p ON t USING (id > 1)"),
        meanwhile=("CREATE POLICY p ON t USING (id > 2)",),
        asked="SHOW POLICIES ON t",
    ),
    "SET QUOTA jobs.running = 1 FOR USER ann": Case(meanwhile=("SET QUOTA jobs.running = 2 FOR USER ann",), asked="SHOW QUOTAS"),
    "RESET QUOTA jobs.running FOR USER ann": Case(
        before=("SET QUOTA jobs.running = 1 FOR USER ann",), meanwhile=("SET QUOTA jobs.running = 2 FOR USER ann",), asked="SHOW QUOTAS"
    ),
    "CALL sys.create_tag('t', 'x')": Case(meanwhile=("CALL sys.delete_tag('t', 'x')",), asked=_TAGS),
    "CALL sys.create_tag_from_timestamp('t', 'x', 0)": Case(meanwhile=("CALL sys.delete_tag('t', 'x')",), asked=_TAGS),
    "CALL sys.replace_tag('t', 'x', 2)": Case(before=(*_TAGGED, *_MORE), meanwhile=("CALL sys.replace_tag('t', 'x', 1)",), asked=_TAGS),
    "CALL sys.rename_tag('t', 'x', 'y')": Case(before=_TAGGED, meanwhile=("CALL sys.create_tag('t', 'x')",), asked=_TAGS),
    "CALL sys.delete_tag('t', 'x,y')": Case(
        before=(*_TAGGED, "CALL sys.create_tag('t', 'y')"), meanwhile=("CALL sys.create_tag('t', 'x')",), asked=_TAGS
    ),
    "CALL sys.create_branch('t', 'b', 'x')": Case(
        before=_TAGGED, meanwhile=("CALL sys.delete_branch('t', 'b')",), asked="SELECT branch_name FROM t$branches"
    ),
    "CALL sys.rename_branch('t', 'b', 'c')": Case(
        before=_BRANCHED, meanwhile=("CALL sys.create_branch('t', 'b', 'x')",), asked="SELECT branch_name FROM t$branches"
    ),
    "CALL sys.delete_branch('t', 'b,c')": Case(
        before=(*_BRANCHED, "CALL sys.create_branch('t', 'c')"),
        meanwhile=("CALL sys.create_branch('t', 'b', 'x')",),
        asked="SELECT branch_name FROM t$branches",
    ),
    "CALL sys.purge_files('t')": Case(before=_BRANCHED, meanwhile=_MORE),
    "CALL sys.reset_consumer('t', 'c', 1)": Case(meanwhile=("CALL sys.reset_consumer('t', 'c', 2)",), asked="SELECT * FROM t$consumers"),
    "CALL sys.clear_consumers('t')": Case(
        before=(*_TAGGED, "CALL sys.reset_consumer('t', 'c', 1)", "CALL sys.reset_consumer('t', 'd', 1)"),
        meanwhile=("CALL sys.reset_consumer('t', 'c', 2)",),
        asked="SELECT * FROM t$consumers",
    ),
    "CALL sys.migrate_table('hive', '{files}', '', 'n')": Case(meanwhile=("DROP TABLE n",), asked="SHOW TABLES"),
    "CALL sys.migrate_file('hive', '{files}', 't')": Case(before=("CREATE TABLE t (id INT) WITH ('bucket' = '-1')",), meanwhile=_MORE),
    "CALL sys.register_table('n', '{table}')": Case(meanwhile=("DROP TABLE n",), asked="SHOW TABLES"),
    f"ALTER JOB '{JOB}' RESTART": Case(asked="SHOW JOBS"),
    f"STOP JOB '{JOB}'": Case(asked="SHOW JOBS"),
}
ELSEWHERE = {
    "DropTable", "TruncateTable", "sys.drop_partition", "sys.rollback_to", "sys.rollback", "sys.rollback_to_timestamp",
    "sys.rollback_to_watermark", "sys.fast_forward",
}  # fmt: skip
"""`tests/gateway/test_repeats.py`; going back to a time or a watermark is going back to a snapshot."""
ROWS = {"Insert", "StatementSet", "Merge", "Delete", "Update", "sys.create_tag_from_watermark"}
"""What holds rows stores its answer in its commit; the tag is made by the function that makes the other ones."""
AGAIN = {
    "sys.repair_table", "sys.analyze_table", "sys.compact", "sys.compact_database", "sys.compact_manifest", "sys.claim_warehouse",
    "sys.confirm_clock", "sys.remove_unexisting_files", "sys.erase", "sys.rewrite_file_index", "sys.migrate_database", "sys.rescale",
    "sys.expire_snapshots", "sys.expire_partitions", "sys.mark_partition_done", "sys.remove_orphan_files", "sys.rewrite_files",
    "sys.trigger_tag_automatic_creation", "sys.expire_tags",
}  # fmt: skip
"""Many decisions one after another, by what is there: a repeat does what is left of them (docs/http.md)."""
OF_THE_SESSION = {"UseDatabase", "UseCatalog", "SetOption", "ResetOption", "Query", "Explain", "DescribeTable"}


@pytest.mark.parametrize("text", one_in(3, CASES))
def test_what_was_decided_is_not_done_again(
    text: str, catalog_lake: Lake, spark_stub: NoSpark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lake, case = catalog_lake, CASES[text]
    gateway = Gateway(lake, spark_stub)
    text = text.format(files=_parquet(tmp_path), table=_apart(gateway, lake) if "{table}" in text else "")
    lake.jobs.create(name="j", statement="INSERT INTO u SELECT * FROM t", database="default", settings={}, tables={})
    text = text.replace(str(JOB), str(lake.jobs.all()[0].job_id))
    monkeypatch.setattr("sql.statements.insert.query_columns", lambda *_: [ResultColumn("a", IntType())])
    monkeypatch.setattr("sql.statements.jobs._PATIENCE_SECONDS", 0.0)
    for made in case.before:
        gateway.run(made).close()
    _die_after(gateway, lake, monkeypatch, text)
    for made in case.meanwhile:
        gateway.run(made).close()
    expected = gateway.run(case.asked).collect()
    restarted = Gateway(lake, spark_stub)
    assert restarted.run(text, idempotency_key="k", caller=ME).collect() == case.answer
    assert gateway.run(case.asked).collect() == expected
    restarted.close()
    gateway.close()


@pytest.mark.parametrize("text", [text for text in CASES if text.startswith(("CALL ", "UNDROP "))])
def test_a_repeat_tells_what_the_first_answer_told(
    text: str, catalog_lake: Lake, spark_stub: NoSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing less between the decision and the answer: it was OK then."""
    gateway = Gateway(catalog_lake, spark_stub)
    case, text = CASES[text], text.format(files=_parquet(tmp_path), table=_apart(gateway, catalog_lake) if "{table}" in text else "")
    for made in case.before:
        gateway.run(made).close()
    between: list[object] = []
    finish = Idempotency.finish

    def answered(self: Idempotency, claim: IdempotencyClaim, answer: Mapping[str, object]) -> None:
        try:
            between.append(gateway.run(text, idempotency_key="k", caller=ME).collect())
        except IdempotencyInProgress as told:
            between.append(told)
        finish(self, claim, answer)

    with monkeypatch.context() as slow:
        slow.setattr(Idempotency, "finish", answered)
        first = gateway.run(text, idempotency_key="k", caller=ME)
    (told,) = between
    assert isinstance(told, IdempotencyInProgress)
    rows = first.collect()
    for made in case.meanwhile:
        gateway.run(made).close()
    again = gateway.run(text, idempotency_key="k", caller=ME)
    assert (again.columns, again.collect()) == (first.columns, rows)
    gateway.close()


def test_what_changes_nothing_is_asked_anew_under_a_key(gateway: Gateway) -> None:
    for text in ("SHOW TABLES", "SHOW QUOTAS", "DESCRIBE DATABASE default", "SELECT 1"):
        assert gateway.run(text, idempotency_key=text, caller=ME).columns == gateway.run(text, idempotency_key=text, caller=ME).columns
    gateway.run("CREATE TABLE t (id INT)").close()
    assert gateway.run("SHOW TABLES", idempotency_key="SHOW TABLES", caller=ME).collect() == [("t",)]


def test_an_answer_too_large_to_be_kept_is_told_as_done(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 10)
    for made in _TAGGED:
        gateway.run(made).close()
    told = [gateway.run("CALL sys.create_tag('t', 'y')", idempotency_key="k", caller=ME).collect() for _ in range(2)]
    assert told == [[("y", 1, 0, 0, False)], [("OK",)]]


def test_every_statement_is_one_of_these() -> None:
    """A new one is done once, or there is a reason why it may be done again."""
    tried = {_name(text) for text in CASES}
    looking = {maker for maker in base._MAKERS.values() if isinstance(maker, type) and issubclass(maker, base.LookingStatement)}
    statements = {maker.__name__ for maker in set(base._MAKERS.values()) - looking if isinstance(maker, type)} - {"Call"}
    procedures = {name for name, procedure in PROCEDURES.items() if not procedure.only_looks}
    assert statements | procedures == tried | ELSEWHERE | ROWS | AGAIN | OF_THE_SESSION


def _name(text: str) -> str:
    if text.startswith("CALL "):
        return text.removeprefix("CALL ").partition("(")[0]
    return type(base.build(parse_one(text))).__name__


@pytest.fixture
def catalog_lake(lake: Lake, tmp_path: Path) -> Lake:
    """One that keeps what is dropped, and takes files over."""
    lake.drop_retention = timedelta(days=1)
    lake.import_dirs = (str(tmp_path),)
    return lake


def test_a_job_is_started_once_and_a_repeat_tells_its_id(catalog_lake: Lake, spark_stub: NoSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = catalog_lake
    gateway = Gateway(lake, spark_stub)
    beginning = StartPositions()
    monkeypatch.setattr("sql.spark.streaming.job_query.check", lambda *_: beginning)
    for made in ("CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)"):
        gateway.run(made).close()
    text, settings = "INSERT INTO u SELECT * FROM t", {"execution.runtime-mode": "streaming"}
    _die_after(gateway, lake, monkeypatch, text, settings)
    (job,) = lake.jobs.all()
    assert gateway.run(text, settings=settings, idempotency_key="k", caller=ME).collect() == [(str(job.job_id),)]
    assert len(lake.jobs.all()) == 1
    gateway.close()


@pytest.mark.parametrize("text", ["CREATE TABLE n AS SELECT 1 AS a", "CREATE TABLE IF NOT EXISTS n AS SELECT 1 AS a"])
def test_a_table_that_was_made_and_not_filled_is_filled_by_the_repeat(
    text: str, catalog_lake: Lake, spark_stub: NoSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CREATE TABLE … AS makes two decisions; a server may be killed between them."""
    lake = catalog_lake
    gateway = Gateway(lake, spark_stub)
    monkeypatch.setattr("sql.statements.insert.query_columns", lambda *_: [ResultColumn("a", IntType())])
    with monkeypatch.context() as dying:
        for method in ("finish", "abandon"):
            dying.setattr(Idempotency, method, Idempotency.release)
        dying.setattr(Lake, "discard_table", lambda *_: True)
        dying.setattr("sql.statements.insert.insert_query", _dead)
        with pytest.raises(SystemError):
            gateway.run(text, idempotency_key="k", caller=ME)
    with lake.catalog.deciding() as tx:
        tx.idempotency._conn.execute("UPDATE idempotency_key SET lease_until = now() - INTERVAL '1' MINUTE")
    made = lake.open(Identifier("default", "n"))
    with pytest.raises(TableAlreadyExist):
        gateway.run(text.replace("IF NOT EXISTS ", ""), idempotency_key="another", caller=ME)
    filled: list[LakeTable] = []
    monkeypatch.setattr("sql.statements.insert.insert_query", lambda context, table, _: _filled(lake, table, made, filled))
    assert gateway.run(text, idempotency_key="k", caller=ME).collect() == [("OK",)]
    assert filled
    gateway.close()


def test_a_table_that_could_not_be_filled_stays_where_others_wrote_to_it(
    catalog_lake: Lake, spark_stub: NoSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(context: object, table: LakeTable, query: object) -> ResultSet:
        catalog_lake.commit(table, CommitRequest(kind=CommitKind.APPEND, commit_user="u", operation="WRITE"))
        raise ExecutionError("It failed.")

    monkeypatch.setattr("sql.statements.insert.query_columns", lambda *_: [ResultColumn("a", IntType())])
    monkeypatch.setattr("sql.statements.insert.insert_query", fail)
    gateway = Gateway(catalog_lake, spark_stub)
    with pytest.raises(ExecutionError, match=r"It failed\. The table default\.n was made, and stays: others have written to it"):
        gateway.run("CREATE TABLE n AS SELECT 1 AS a")
    assert catalog_lake.open(Identifier("default", "n")).latest() is not None
    gateway.close()


def _filled(lake: Lake, table: LakeTable, made: LakeTable, filled: list[LakeTable]) -> ResultSet:
    """What the query would do: the table is the one that the first try made, and is no longer empty."""
    assert table.table_id == made.table_id
    filled.append(table)
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, commit_user="u", operation="WRITE"))
    with pytest.raises(TableAlreadyExist):
        lake.create_table(table.identifier, table.schema, begun_as=table.table_id)
    return ResultSet.ok()


def _parquet(directory: Path) -> Path:
    files = directory / "files"
    files.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), files / "a.parquet")
    return files


def _apart(gateway: Gateway, lake: Lake) -> str:
    """The directory of a table that no catalog knows any more."""
    gateway.run("CREATE TABLE apart (id INT)").close()
    opened = lake.open(Identifier("default", "apart"))
    with lake.catalog.transaction() as tx:
        tx.tables.drop(opened.table_id, None)
    return opened.location.removeprefix("file:")


def _die_after(gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str, settings: Mapping[str, str] | None = None) -> None:
    """Run a statement under a key on a server that is killed before its answer, and let its claim run out."""
    with monkeypatch.context() as dying:  # what is decided is decided, and nothing comes after it
        dying.setattr(Idempotency, "finish", _dead)
        dying.setattr(Idempotency, "abandon", Idempotency.release)
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it ends with, it was decided
            gateway.run(text, settings=settings or {}, idempotency_key="k", caller=ME)
    with lake.catalog.deciding() as tx:
        answered = tx.idempotency._conn.execute("UPDATE idempotency_key SET lease_until = now() - INTERVAL '1' MINUTE RETURNING answer")
        assert None not in (answered.fetchone() or (None,))


def _dead(*_: object, **__: object) -> None:
    raise SystemError("The server is gone.")


def test_a_definition_whose_key_another_took_over_is_not_made(lake: Lake, catalog: CatalogStore) -> None:
    """As of a server that stood still for longer than its claim: the other may have done it, and undone it since."""
    claim = lake.idempotency.claim("k", scope="sql:", body_hash="h")
    assert isinstance(claim, IdempotencyClaim)
    with catalog.transaction() as tx:
        tx._conn.execute("UPDATE idempotency_key SET owner = gen_random_uuid()")
    with pytest.raises(IdempotencyInProgress, match="taken over"):
        lake.create_database("d", claim=claim)
    assert "d" not in lake.list_databases()
