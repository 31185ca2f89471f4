"""Which of a table's columns a query can possibly need."""

from __future__ import annotations

from sqlglot import exp

from model.schema.schema import Schema


def needed_columns(tree: exp.Expr, schema: Schema) -> list[str]:
    """The columns of `mentioned_columns`, at least one."""
    return mentioned_columns(tree, schema) or [schema.field_names[0]]


def mentioned_columns(tree: exp.Expr, schema: Schema) -> list[str]:
    """The columns whose names occur anywhere in the query but in those of tables; all where it shows or joins by what it does not name."""
    names = schema.field_names
    if any(_takes_all(node) for node in tree.walk()):
        return list(names)
    said = {identifier.name for identifier in tree.find_all(exp.Identifier) if not isinstance(identifier.parent, exp.Table)}
    return [name for name in names if name in said]


def _takes_all(node: exp.Expr) -> bool:
    """Whether it stands for columns that it does not name, or names them by their places."""
    match node:
        case exp.Star():
            return not isinstance(node.parent, exp.Count)
        case exp.Join():
            return node.args.get("method") == "NATURAL"
        case exp.TableAlias():
            return bool(node.args.get("columns")) and isinstance(node.parent, exp.Table)
    return isinstance(node, exp.Pivot)
