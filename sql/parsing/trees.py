"""Trees of the statements sqlglot has no node for, or reads differently; arguments are plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp


class FlinkStatement(exp.Expression):
    """Base of statements that are executed here and never handed to Spark."""


class CreateDatabase(FlinkStatement):
    """``CREATE DATABASE [IF NOT EXISTS] name [COMMENT 'c'] [WITH (…)]``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "if_not_exists": False, "comment": False, "options": False}


class DropDatabase(FlinkStatement):
    """``DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE] [PURGE]``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "if_exists": False, "cascade": False, "purge": False}


class AlterDatabase(FlinkStatement):
    """``ALTER DATABASE name SET (…)``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "set_options": False, "reset_options": False}


class CreateTable(FlinkStatement):
    """``CREATE [TEMPORARY] TABLE …``; ``definition`` is a `sql.parsing.ddl.TableDefinition`."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "temporary": False, "if_not_exists": False, "definition": True, "query": False}


class DropTable(FlinkStatement):
    """``DROP [TEMPORARY] TABLE [IF EXISTS] name [PURGE]``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "temporary": False, "if_exists": False, "purge": False}


class Undrop(FlinkStatement):
    """``UNDROP TABLE | DATABASE name [WITH ID n] [AS name] [RESTART JOBS]``."""

    arg_types: ClassVar[dict[str, bool]] = {"what": True, "name": True, "drop_id": False, "to": False, "restart_jobs": False}


class PurgeTable(FlinkStatement):
    """``PURGE TABLE name [WITH ID n]``: a dropped table."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "drop_id": False}


class AlterTable(FlinkStatement):
    """``ALTER TABLE name …``; ``changes`` are `model.schema.change` values, ``partitions`` those to drop, each by column and text."""

    arg_types: ClassVar[dict[str, bool]] = {
        "name": True, "changes": False, "rename_to": False, "partitions": False, "present_only": False, "if_exists": False,
    }  # fmt: skip


class TruncateTable(FlinkStatement):
    """``TRUNCATE TABLE name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True}


class UseCatalog(FlinkStatement):
    """``USE CATALOG name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True}


class UseDatabase(FlinkStatement):
    """``USE [catalog.]database``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True}


class LookingTree(FlinkStatement):
    """Base of statements that only tell what there is."""


class Show(LookingTree):
    """``SHOW what [FROM name] [[NOT] LIKE 'pattern']``; ``what`` is in upper case."""

    arg_types: ClassVar[dict[str, bool]] = {"what": True, "name": False, "like": False, "negated": False}


class DescribeTable(LookingTree):
    """``DESCRIBE [EXTENDED] name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "extended": False}


class DescribeDatabase(LookingTree):
    """``DESCRIBE DATABASE name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True}


class SetOption(FlinkStatement):
    """``SET`` or ``SET 'key' = 'value'``."""

    arg_types: ClassVar[dict[str, bool]] = {"key": False, "value": False}


class ResetOption(FlinkStatement):
    """``RESET`` or ``RESET 'key'``."""

    arg_types: ClassVar[dict[str, bool]] = {"key": False}


class Grant(FlinkStatement):
    """``GRANT accesses ON resource TO principals``; accesses are (`Access`, `Columns` or None) pairs."""

    arg_types: ClassVar[dict[str, bool]] = {"accesses": True, "what": True, "name": False, "principals": True, "until": False}


class Revoke(FlinkStatement):
    """``REVOKE accesses ON resource FROM principals``."""

    arg_types: ClassVar[dict[str, bool]] = {"accesses": True, "what": True, "name": False, "principals": True}


class GiveRole(FlinkStatement):
    """``GRANT ROLE role TO principals``, or REVOKE where ``give`` is false."""

    arg_types: ClassVar[dict[str, bool]] = {"role": True, "principals": True, "give": False}


class CreateRole(FlinkStatement):
    """``CREATE ROLE [IF NOT EXISTS] name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "if_not_exists": False}


class DropRole(FlinkStatement):
    """``DROP ROLE [IF EXISTS] name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "if_exists": False}


class CreatePolicy(FlinkStatement):
    """``CREATE [MASKING] POLICY name ON table [(column)] [TO principals] USING (rule)``; ``source`` is the rule as written."""

    arg_types: ClassVar[dict[str, bool]] = {
        "name": True, "table": True, "column": False, "principals": False, "rule": True, "source": True,
    }  # fmt: skip


class DropPolicy(FlinkStatement):
    """``DROP [MASKING] POLICY [IF EXISTS] name ON table``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "table": True, "if_exists": False}


class ShowGrants(LookingTree):
    """``SHOW GRANTS [ON resource | FOR principal]``."""

    arg_types: ClassVar[dict[str, bool]] = {"what": False, "name": False, "principal": False}


class ShowRoles(LookingTree):
    """``SHOW ROLES``."""

    arg_types: ClassVar[dict[str, bool]] = {}


class ShowPolicies(LookingTree):
    """``SHOW POLICIES ON table``."""

    arg_types: ClassVar[dict[str, bool]] = {"table": True}


class SetQuota(FlinkStatement):
    """``SET QUOTA name = value FOR USER | ROLE principal``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "value": True, "holder": True, "principal": True}


class ResetQuota(FlinkStatement):
    """``RESET QUOTA name FOR USER | ROLE principal``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "holder": True, "principal": True}


class ShowQuotas(LookingTree):
    """``SHOW QUOTAS [FOR USER | ROLE principal]``."""

    arg_types: ClassVar[dict[str, bool]] = {"holder": False, "principal": False}


class Call(FlinkStatement):
    """``CALL procedure(arguments)``; arguments are (name or None, Python value) pairs; ``dry_run`` where it is only looked at."""

    arg_types: ClassVar[dict[str, bool]] = {"procedure": True, "arguments": False, "dry_run": False}


class Explain(FlinkStatement):
    """``EXPLAIN [PLAN FOR | JSON_EXECUTION_PLAN] statement``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "json": False}


class DeleteRows(FlinkStatement):
    """``DELETE FROM table [AS x] WHERE condition``; ``this`` is the query for the rows that go."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "dry_run": False}


class UpdateRows(FlinkStatement):
    """``UPDATE table [AS x] SET column = value, … [WHERE condition]``.

    ``this`` is the query for the values of the rows that change; ``targets`` are pairs of a column's path and the place of its value among
    them, None for ``DEFAULT``.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "targets": True, "dry_run": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """``WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN UPDATE | DELETE | INSERT …`` of a MERGE."""

    matched: bool
    by_source: bool
    """Whether it is for rows of the table that no row of the source matches."""
    condition: int | None
    """The place of the condition among the query's expressions."""
    action: str
    targets: tuple[tuple[tuple[str, ...], int | None], ...] | None = None
    """As of `UpdateRows`; None where all columns get those of the source (``*``), and for DELETE."""


class MergeRows(FlinkStatement):
    """``MERGE INTO table [AS x] USING source ON condition WHEN …``.

    ``this`` joins the table and the source, and names all conditions and values.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "whens": True, "dry_run": False}


class StatementSet(FlinkStatement):
    """``EXECUTE STATEMENT SET BEGIN insert; … END``."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class CreateView(FlinkStatement):
    """``CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT 'c'] AS query``; ``text`` is the query as written."""

    arg_types: ClassVar[dict[str, bool]] = {
        "name": True, "columns": False, "comment": False, "query": True, "text": True, "replace": False, "if_not_exists": False,
    }  # fmt: skip


class AlterView(FlinkStatement):
    """``ALTER VIEW name RENAME TO | SET (…) | AS query``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "rename_to": False, "options": False, "query": False, "text": False}


class DropView(FlinkStatement):
    """``DROP [TEMPORARY] VIEW [IF EXISTS] name``."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "temporary": False, "if_exists": False}


class ShowJobs(LookingTree):
    """``SHOW JOBS``."""

    arg_types: ClassVar[dict[str, bool]] = {}


class DescribeJob(LookingTree):
    """``DESCRIBE JOB 'id'``."""

    arg_types: ClassVar[dict[str, bool]] = {"job": True}


class StopJob(FlinkStatement):
    """``STOP JOB 'id' [WITH DRAIN]``."""

    arg_types: ClassVar[dict[str, bool]] = {"job": True, "drain": False}


class AlterJob(FlinkStatement):
    """``ALTER JOB 'id' RESTART``."""

    arg_types: ClassVar[dict[str, bool]] = {"job": True}


class ShowDropped(LookingTree):
    """``SHOW DROPPED TABLES [IN database]`` or ``SHOW DROPPED DATABASES``."""

    arg_types: ClassVar[dict[str, bool]] = {"what": True, "name": False}


def inserts_of(tree: exp.Expr) -> list[exp.Insert]:
    """The INSERTs of a statement: itself, or the members of a statement set."""
    members = tree.expressions if isinstance(tree, StatementSet) else [tree]
    return [member for member in members if isinstance(member, exp.Insert)]
