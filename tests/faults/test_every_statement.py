"""No procedure and no statement that changes a table is forgotten by the campaigns of faults."""

from __future__ import annotations

import sql.statements.all  # noqa: F401 — they register themselves
from sql.statements import base
from sql.statements.base import LookingStatement
from sql.statements.procedures.calls import PROCEDURES
from tests.faults.operations import BY_NAME

_POSTGRES = "decided in Postgres alone"
_SESSION = "of the session"
_ON_SPARK = "on Spark: tests/faults/test_spark.py and test_erase.py"
_MANY = "one decision a table, each as the procedure of one table"

CALLS = {
    "repair_table": "repair",
    "alter_column_default_value": "alter",
    "analyze_table": "analyze",
    "compact": "compaction",
    "compact_database": _MANY,
    "compact_manifest": "merge manifests",
    "claim_warehouse": "tests/lake/register/test_standing.py: one file that holds the catalog's identity",
    "confirm_clock": _POSTGRES,
    "remove_unexisting_files": "remove unexisting files",
    "erase": _ON_SPARK,
    "rewrite_file_index": "rewrite index",
    "register_table": "register",
    "migrate_table": "migrate table",
    "migrate_database": _MANY,
    "migrate_file": "migrate files",
    "rescale": "rescale",
    "purge_files": "purge files",
    "expire_snapshots": "expiry",
    "rollback": "rollback",
    "rollback_to": "rollback",
    "rollback_to_timestamp": "rollback",
    "rollback_to_watermark": "rollback",
    "expire_partitions": "expire partitions",
    "drop_partition": "drop partition by procedure",
    "mark_partition_done": "mark partition",
    "reset_consumer": "consumer reset",
    "clear_consumers": "consumers removed",
    "remove_orphan_files": "remove orphans",
    "rewrite_files": "rewrite files",
    "create_tag": "tag",
    "replace_tag": "tag replaced",
    "create_tag_from_timestamp": "tag",
    "create_tag_from_watermark": "tag",
    "rename_tag": "tag renamed",
    "delete_tag": "tags removed",
    "trigger_tag_automatic_creation": "tag",
    "expire_tags": "tags removed",
    "create_branch": "branch",
    "delete_branch": "branch removed",
    "rename_branch": "branch renamed",
    "fast_forward": "fast forward",
}
"""What strikes each procedure, or why nothing does."""

STATEMENTS = {
    "AlterDatabase": _POSTGRES,
    "AlterJob": _POSTGRES,
    "AlterTable": "alter",
    "AlterView": _POSTGRES,
    "Call": "the procedures above",
    "CreateDatabase": _POSTGRES,
    "CreatePolicy": _POSTGRES,
    "CreateRole": _POSTGRES,
    "CreateTable": "create",
    "CreateView": _POSTGRES,
    "Delete": "delete",
    "DescribeTable": _SESSION,
    "DropDatabase": "drop",
    "DropPolicy": _POSTGRES,
    "DropRole": _POSTGRES,
    "DropTable": "drop",
    "DropView": _POSTGRES,
    "Explain": _SESSION,
    "GiveRole": _POSTGRES,
    "GrantAccess": _POSTGRES,
    "Insert": "insert",
    "Merge": "merge",
    "PurgeTable": "drop",
    "Query": _SESSION,
    "ResetOption": _SESSION,
    "ResetQuota": _POSTGRES,
    "RevokeAccess": _POSTGRES,
    "SetOption": _SESSION,
    "SetQuota": _POSTGRES,
    "StatementSet": "statement set",
    "StopJob": _POSTGRES,
    "TruncateTable": "truncate",
    "Undrop": "undrop",
    "Update": "update",
    "UseCatalog": _SESSION,
    "UseDatabase": _SESSION,
}
"""The same of the statements."""
_REASONS = {_POSTGRES, _SESSION, _ON_SPARK, _MANY, "the procedures above"}


def known(reason: str) -> bool:
    return reason in BY_NAME or reason in _REASONS or reason.startswith("tests/")


def test_every_procedure_that_changes_something_is_struck() -> None:
    assert {f"sys.{name}" for name in CALLS} == {name for name, procedure in PROCEDURES.items() if not procedure.only_looks}
    assert [name for name, reason in CALLS.items() if not known(reason)] == []


def test_every_statement_that_changes_something_is_struck() -> None:
    makers = {maker.__name__ for maker in base._MAKERS.values() if not (isinstance(maker, type) and issubclass(maker, LookingStatement))}
    assert makers == set(STATEMENTS)
    assert [name for name, reason in STATEMENTS.items() if not known(reason)] == []
