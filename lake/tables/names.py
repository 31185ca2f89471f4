"""Where a name may be a branch's, and where it means the whole table."""

from __future__ import annotations

from model.errors import InvalidName
from model.identifier import MAIN_BRANCH, Identifier
from model.names import check_name
from model.text.sql_text import literal


def check_table_name(table: Identifier) -> None:
    """Raise `InvalidName` for a name that no table can be given: one that `check_name` refuses, or a branch's."""
    refuse_branch(table, "a table is made with main alone", "CALL sys.create_branch({table}, {branch}) makes a branch of a table.")
    check_name(table.table, "table")


def refuse_branch(table: Identifier, rule: str, way: str = "Name the table, {table}.") -> None:
    """Raise `InvalidName` where a name is a branch's and what is done concerns the whole table, with main and all branches.

    All that means a whole table comes through here: whoever names a branch means nothing but it. ``rule`` says what concerns the whole
    table; ``way`` says what to do, with ``{table}`` and ``{branch}`` for both names as SQL literals.
    """
    if table.branch != MAIN_BRANCH:
        whole = Identifier(table.database, table.table)
        way = way.format(table=literal(whole.written()), branch=literal(table.branch))
        raise InvalidName(f"{table} is a branch of table {whole}, and {rule}. {way}")
