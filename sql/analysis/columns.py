"""Which of a table's columns a query can possibly need."""

from __future__ import annotations

from sqlglot import exp

from model.schema.schema import Schema


def needed_columns(tree: exp.Expr, schema: Schema) -> list[str]:
    """The columns whose names occur anywhere in the query, at least one; all of them where it shows or joins by what it does not name."""
    names = schema.field_names
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    joined = any(join.args.get("method") == "NATURAL" for join in tree.find_all(exp.Join))
    if stars or joined:
        return list(names)
    said = {identifier.name for identifier in tree.find_all(exp.Identifier)}
    return [name for name in names if name in said] or [names[0]]
