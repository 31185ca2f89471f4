"""CALL sys.alter_column_default_value: the one way Flink has to a column's default."""

from __future__ import annotations

from dataclasses import replace

from model.access import Access, table_resource
from model.errors import InvalidData, InvalidSchema
from model.schema.change import UpdateColumnDefault
from sql.connectors.stored import check_kept
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, identifier_of, procedure
from table.format.rows.cast import default_of

_CHANGED = (ResultColumn("column", STRING), ResultColumn("default_value", STRING), DRY_COLUMN)


@procedure("alter_column_default_value", required=3, table=str, column=str, default_value=str)
def alter_column_default_value(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give a column a default, as ALTER TABLE … ALTER COLUMN … SET DEFAULT does."""
    table, name, default = identifier_of(context, arguments["table"]), arguments["column"], arguments["default_value"]
    if arguments.dry_run:
        context.lake.caller.require(Access.ALTER, table_resource(table))
        field = replace(context.lake.open(table).schema.field(name, table=str(table)), default_value=default)
        try:
            default_of(field)
        except InvalidData as problem:
            raise InvalidSchema(problem.message) from problem
    else:
        scope = context.connector_scope
        change = UpdateColumnDefault(name=name, default=default)
        context.lake.alter_table(table, [change], check=lambda new: check_kept(table, new, scope), claim=context.idempotency)
    return ResultSet.of_rows(_CHANGED, [(name, default, arguments.dry_run)])
