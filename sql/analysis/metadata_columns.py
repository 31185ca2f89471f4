"""Columns that tell where a row lies, as Paimon's Spark has them: read where a query names them, and never shown by ``*``.

Source: Paimon's page on Spark queries, metadata columns. A path is relative to its table here, never one of the server.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from model.access import ReadRules
from model.errors import AnalysisError
from model.schema.schema import Schema
from sql.analysis.references import TableReference

FILE_PATH = "__paimon_file_path"
ROW_INDEX = "__paimon_row_index"
PARTITION = "__paimon_partition"
BUCKET = "__paimon_bucket"
_NAMES = (FILE_PATH, ROW_INDEX, BUCKET, PARTITION)


def named_columns(tree: exp.Expr) -> frozenset[str]:
    """The metadata columns that are named anywhere in a query."""
    return frozenset(column.name for column in tree.find_all(exp.Column) if column.name in _NAMES)


def wanted_columns(named: Collection[str], reference: TableReference, schema: Schema, rules: ReadRules) -> list[str]:
    """Those of the named metadata columns that a query may want of one mention of a table.

    A table without partitions has no `PARTITION`, and a column of its own has its name for itself.

    Raises `AnalysisError` where they cannot be told apart from the table's own, or would tell of rows or columns that are kept from the
    caller: a row's number tells how many lie before it.
    """
    there = _NAMES if schema.partition_keys else _NAMES[:-1]
    wanted = [name for name in there if name in named and schema.find(name) is None]
    if not wanted or reference.node.find_ancestor(exp.Select) is None or not isinstance(reference.node.parent, exp.From | exp.Join):
        return []
    if _columns_are_named(reference) or _joins_by_all(reference):
        raise AnalysisError(
            f"{wanted[0]} of {reference.name} is not read beside a PIVOT, a NATURAL JOIN or names given to all columns: read it in a "
            "subquery, SELECT …, and put that on it."
        )
    if rules.filters and ROW_INDEX in wanted:
        raise AnalysisError(f"{ROW_INDEX} of {reference.name} would tell of rows that are kept from you.")
    if hidden := sorted(rules.unseen([*schema.partition_keys, *schema.bucket_keys])):
        for name in wanted:
            if name != ROW_INDEX:
                raise AnalysisError(f"{name} of {reference.name} would tell of column {hidden[0]}, which is kept from you.")
    return wanted


def hide_from_stars(reference: TableReference, names: list[str]) -> None:
    """Let every ``*`` over a mention leave these columns out, as it does where they are no part of what is read."""
    select = reference.node.find_ancestor(exp.Select)
    assert select is not None
    owner = (reference.node.alias,) if reference.node.alias else reference.parts
    for star in list(select.find_all(exp.Star)):
        if star.find_ancestor(exp.Select) is not select or _counts_rows(star) or not _covers(star, reference):
            continue
        hidden = [exp.column(*(exp.to_identifier(part, quoted=True) for part in (name, *reversed(owner)))) for name in names]
        star.set("except_", [*(star.args.get("except_") or ()), *hidden])


def _counts_rows(star: exp.Star) -> bool:
    return isinstance(star.parent, exp.Count)


def _covers(star: exp.Star, reference: TableReference) -> bool:
    """Whether a star stands for the mention's columns: for those of all tables, or of this one by its name."""
    column = star.parent
    if not isinstance(column, exp.Column):
        return True
    parts = tuple(part.name for part in column.parts[:-1])
    alias = reference.node.alias
    return parts == (alias,) if alias else parts == reference.parts[-len(parts) :]


def _columns_are_named(reference: TableReference) -> bool:
    alias = reference.node.args.get("alias")
    return bool(reference.node.args.get("pivots")) or (alias is not None and bool(alias.args.get("columns")))


def _joins_by_all(reference: TableReference) -> bool:
    select = reference.node.find_ancestor(exp.Select)
    return select is not None and any(join.args.get("method") == "NATURAL" for join in select.args.get("joins") or ())
