"""Which procedures and statements take a branch where they take a table: what concerns a whole table refuses one, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlglot import exp

import sql.statements.all  # noqa: F401 - the procedures and statements register themselves
from gateway.gateway import Gateway
from lake import Lake
from model.catalog_errors import ViewNotExist
from model.errors import Forbidden, InvalidName, LakeError, TableNotExist, Unavailable
from model.identifier import Identifier
from model.view import View
from sql.parsing import trees
from sql.statements.base import _MAKERS
from sql.statements.procedures.calls import PROCEDURES
from tests.everything import everything

OF_A_WHOLE_TABLE = {
    "sys.erase": "'t$branch_b', 'id = 1'",
    "sys.purge_files": "'t$branch_b'",
    "sys.create_branch": "'t$branch_b', 'c', 'of-b'",
    "sys.delete_branch": "'t$branch_b', 'a'",
    "sys.rename_branch": "'t$branch_b', 'a', 'c'",
    "sys.fast_forward": "'t$branch_b', 'a'",
    "sys.register_table": "'t$branch_c', '/import/t'",
    "sys.migrate_table": "source_table => '/import/t', target_table => 't$branch_c'",
}
OF_A_BRANCH = {
    "sys.doctor": "",
    "sys.check_table": "",
    "sys.repair_table": "",
    "sys.remove_unexisting_files": "",
    "sys.remove_orphan_files": "",
    "sys.analyze_table": "",
    "sys.compact": ", compact_strategy => 'full'",
    "sys.compact_manifest": "",
    "sys.expire_snapshots": ", retain_max => 1",
    "sys.rollback_to": ", snapshot_id => 1",
    "sys.rollback": ", version => '1'",
    "sys.rollback_to_timestamp": ", `timestamp` => 99999999999999",
    "sys.rollback_to_watermark": ", watermark => 5",
    "sys.alter_column_default_value": ", `column` => 'id', default_value => '5'",
    "sys.expire_partitions": ", expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd'",
    "sys.rescale": "",
    "sys.trigger_tag_automatic_creation": "",
    "sys.drop_partition": ", partitions => 'dt=2020-01-01'",
    "sys.mark_partition_done": ", partitions => 'dt=2020-01-01'",
    "sys.reset_consumer": ", consumer_id => 'c', next_snapshot_id => 1",
    "sys.clear_consumers": "",
    "sys.create_tag": ", tag => 'new'",
    "sys.create_tag_from_timestamp": ", tag => 'new', `timestamp` => 0",
    "sys.create_tag_from_watermark": ", tag => 'new', watermark => 5",
    "sys.replace_tag": ", tag => 'of-b'",
    "sys.rename_tag": ", tag => 'of-b', target_tag => 'new'",
    "sys.delete_tag": ", tag => 'of-b'",
    "sys.expire_tags": "",
    "sys.rewrite_file_index": "",
    "sys.rewrite_files": "",
    "sys.migrate_file": ", source_table => '/import/t'",
}
WITHOUT_TABLE = {"sys.compact_database", "sys.migrate_database", "sys.claim_warehouse", "sys.confirm_clock"}
OTHERWISE = {
    "sys.analyze_table": Unavailable,  # there is no Spark in this test
    "sys.migrate_file": Forbidden,  # nor an import directory
    "sys.rollback_to_watermark": LakeError,  # nor a watermark
    "sys.create_tag_from_watermark": LakeError,
}
"""What these calls meet after they have taken the branch."""

BRANCHES_REFUSED: dict[type[exp.Expr], list[tuple[str, type[LakeError]]]] = {
    trees.CreateTable: [
        ("CREATE TABLE `t$branch_c` (id INT)", InvalidName),
        ("CREATE TABLE IF NOT EXISTS `new$branch_c` (id INT)", InvalidName),
        ("CREATE TABLE `t$branch_c` LIKE t", InvalidName),
        ("CREATE TABLE `t$branch_c` (id INT) WITH ('connector' = 'datagen')", InvalidName),
    ],
    trees.DropTable: [
        ("DROP TABLE `t$branch_b`", InvalidName),
        ("DROP TABLE IF EXISTS `t$branch_b` PURGE", InvalidName),
        ("DROP TABLE `t$branch_`", TableNotExist),
        ("DROP TABLE `t$tags`", TableNotExist),
    ],
    trees.AlterTable: [
        ("ALTER TABLE `t$branch_b` RENAME TO u", InvalidName),
        ("ALTER TABLE t RENAME TO `u$branch_b`", InvalidName),
        ("ALTER TABLE t RENAME TO `default`.`u$branch_b`", InvalidName),
    ],
    trees.Undrop: [
        ("UNDROP TABLE `gone$branch_b`", InvalidName),
        ("UNDROP TABLE gone AS `back$branch_b`", InvalidName),
        ("UNDROP TABLE gone AS `default`.`back$branch_b`", InvalidName),
    ],
    trees.PurgeTable: [("PURGE TABLE `gone$branch_b`", InvalidName), ("PURGE TABLE `gone$branch_`", LakeError)],
    trees.CreatePolicy: [
        ("CREATE MASKING POLICY m ON `t$branch_b` (id) USING (NULL)", InvalidName),
        ("CREATE POLICY p ON `t$branch_b` USING (id = 1)", InvalidName),
    ],
    trees.DropPolicy: [("DROP POLICY there ON `t$branch_b`", InvalidName)],
    trees.Grant: [("GRANT SELECT ON `t$branch_b` TO ada", TableNotExist)],
    trees.Revoke: [("REVOKE SELECT ON `t$branch_b` FROM ada", TableNotExist)],
    trees.AlterView: [("ALTER VIEW `v$branch_b` RENAME TO w", ViewNotExist), ("ALTER VIEW v RENAME TO `w$branch_b`", InvalidName)],
    trees.DropView: [("DROP VIEW `v$branch_b`", ViewNotExist)],
}
"""Statements about whole tables, and about views, which have no branches."""
BRANCHES_TAKEN: dict[type[exp.Expr], str] = {
    trees.AlterTable: "ALTER TABLE `t$branch_b` ADD (more INT)",
    trees.TruncateTable: "TRUNCATE TABLE `t$branch_b`",
    trees.DeleteRows: "DELETE FROM `t$branch_b` WHERE id = 7",
    trees.UpdateRows: "UPDATE `t$branch_b` SET id = 8 WHERE id = 7",
    trees.Show: "SHOW CREATE TABLE `t$branch_b`",
    trees.DescribeTable: "DESCRIBE `t$branch_b`",
    trees.ShowPolicies: "SHOW POLICIES ON `t$branch_b`",  # those that bind it are the table's
    exp.Insert: "INSERT INTO `t$branch_b` VALUES (1, '2020-01-01')",
    exp.Select: "SELECT * FROM `t$branch_b`",
}
ELSEWHERE: dict[type[exp.Expr], str] = {
    trees.MergeRows: "as UPDATE, on Spark",
    trees.CreateView: "looks at its query on Spark first",
    trees.StatementSet: "INSERTs",
    trees.Explain: "as what it explains, on Spark",
    trees.ShowGrants: "as GRANT, and looks only",
    trees.Call: "the procedures",
    exp.SetOperation: "as SELECT",
    exp.Subquery: "as SELECT",
    exp.Values: "as SELECT",
    exp.Query: "as SELECT",
}
NAMES_NO_TABLE = {
    trees.ShowDropped, trees.GiveRole, trees.CreateRole, trees.DropRole, trees.ShowRoles, trees.ShowJobs, trees.DescribeJob, trees.StopJob,
    trees.AlterJob, trees.SetQuota, trees.ResetQuota, trees.ShowQuotas, trees.SetOption, trees.ResetOption, trees.CreateDatabase,
    trees.DropDatabase, trees.AlterDatabase, trees.UseDatabase, trees.UseCatalog, trees.DescribeDatabase,
}  # fmt: skip


def branch(gateway: Gateway) -> Gateway:
    """Make table t with rows on main and on branches a and b, a dropped table that had a branch, a view and a policy."""
    gateway.lake.drop_retention = timedelta(days=7)
    for text in (
        "CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt) WITH ('rows.erasable' = 'true')",
        "INSERT INTO t VALUES (1, '2020-01-01')",
        "CALL sys.create_tag('t', 'one')",
        "CALL sys.create_branch('t', 'a', 'one')",
        "CALL sys.create_branch('t', 'b', 'one')",
        "INSERT INTO `t$branch_b` VALUES (2, '2020-01-01')",
        "ALTER TABLE `t$branch_b` ADD (own INT)",
        "INSERT INTO `t$branch_b` VALUES (3, '2020-01-01', 3)",
        "CALL sys.create_tag('t$branch_b', 'of-b')",
        "CREATE TABLE gone (id INT)",
        "CALL sys.create_branch('gone', 'b')",
        "DROP TABLE gone",
        "CREATE POLICY there ON t TO nobody USING (id = 1)",
    ):
        gateway.run(text).close()
    gateway.lake.views.create(Identifier("default", "v"), View(fields=(), query="SELECT 1"))
    return gateway


@pytest.fixture
def branched(gateway: Gateway) -> Gateway:
    return branch(gateway)


@pytest.fixture(scope="module")
def branched_once(module_gateway: Gateway, module_dsn: str, module_path: Path) -> Iterator[Gateway]:
    """For calls that change nothing."""
    made = branch(module_gateway)
    before = everything(module_dsn, module_path / "warehouse")
    yield made
    assert everything(module_dsn, module_path / "warehouse") == before


def test_each_procedure_and_statement_is_told_of() -> None:
    assert set(PROCEDURES) == {*OF_A_WHOLE_TABLE, *OF_A_BRANCH, *WITHOUT_TABLE}
    assert set(_MAKERS) == {*BRANCHES_REFUSED, *BRANCHES_TAKEN, *ELSEWHERE, *NAMES_NO_TABLE}


def test_calls_for_a_whole_table_take_no_branch(branched: Gateway, dsn: str, warehouse: Path) -> None:
    before = everything(dsn, warehouse)
    for name, arguments in OF_A_WHOLE_TABLE.items():
        with pytest.raises(InvalidName, match=r"t\$branch_. is a branch of table default\.t, and .*'default\.t'"):
            branched.run(f"CALL {name}({arguments})").collect()
        assert everything(dsn, warehouse) == before, name


@pytest.mark.parametrize("name", sorted(OF_A_BRANCH))
def test_calls_for_one_line_of_history_take_a_branch(branched_once: Gateway, name: str) -> None:
    key = "target_table" if name == "sys.migrate_file" else "table"
    dry = "" if PROCEDURES[name].only_looks else ", dry_run => true"
    call = f"CALL {name}(`{key}` => 't$branch_b'{OF_A_BRANCH[name]}{dry})"
    if name not in OTHERWISE:
        branched_once.run(call).collect()
        return
    with pytest.raises(OTHERWISE[name]) as met:
        branched_once.run(call).collect()
    assert not isinstance(met.value, InvalidName)


def test_statements_about_whole_tables_and_views_take_no_branch(branched: Gateway, lake: Lake, dsn: str, warehouse: Path) -> None:
    before = everything(dsn, warehouse)
    for text, error in [one for statements in BRANCHES_REFUSED.values() for one in statements]:
        with pytest.raises(error):
            branched.run(text).collect()
        assert everything(dsn, warehouse) == before, text
    branched.run("UNDROP TABLE gone").close()
    assert lake.open(Identifier("default", "gone", "b")).identifier.branch == "b"


@pytest.mark.parametrize("text", BRANCHES_TAKEN.values(), ids=lambda text: " ".join(text.split()[:2]))
def test_statements_about_one_line_of_history_take_a_branch(branched: Gateway, text: str) -> None:
    text = text.replace("VALUES (1, '2020-01-01')", "VALUES (1, '2020-01-01', 1)")
    branched.run(text).collect()
