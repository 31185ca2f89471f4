"""Which names databases and tables may have, as they become directories, path segments and SQL, and where a name may be a branch's."""

from __future__ import annotations

from model.errors import InvalidName
from model.identifier import MAIN_BRANCH, Identifier
from model.text.sql_text import literal

_MAX_BYTES = 200
"""File systems hold 255 bytes a name; ``.db`` and temporary suffixes need bytes."""


def check_name(name: str, kind: str) -> None:
    """Raise `InvalidName` for a name that cannot be a directory or would be read as something else."""
    if not name or name != name.strip():
        raise InvalidName(f"A {kind} name may not be empty or begin or end with a space: {name!r}.")
    if any(ord(c) < 0x20 or c in "/\\\x7f" for c in name) or name in (".", ".."):
        raise InvalidName(f"The {kind} name {name!r} has a slash, a backslash or a control character.")
    if name.startswith(("_", ".")) and kind == "database":
        raise InvalidName(f"The {kind} name {name!r} begins with a character that file readers take as hidden.")
    if "$" in name:
        raise InvalidName(f"The {kind} name {name!r} has a '$', which stands before branches and system tables.")
    if len(name.encode()) > _MAX_BYTES:
        raise InvalidName(f"The {kind} name is {len(name.encode())} bytes long; at most {_MAX_BYTES} fit.")
    if kind == "database" and name.lower() in ("sys", "information_schema"):
        raise InvalidName(f"The database name {name} is reserved for system procedures and tables.")


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
