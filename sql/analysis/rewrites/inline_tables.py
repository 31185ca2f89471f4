"""VALUES with what Spark evaluates in no inline table, as the table function `inline`, which evaluates everything."""

from __future__ import annotations

from sqlglot import exp

from sql.analysis.limits.guards import call


def expand_values(tree: exp.Expr) -> exp.Expr:
    """Let VALUES of a tree give their rows also where one has a lambda, or may raise: in place, but for a tree that is VALUES itself."""
    for values in list(tree.find_all(exp.Values)):
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row.unnest()] for row in values.expressions]
        if not any(_is_run(value) for row in rows for value in row) or len({len(row) for row in rows}) != 1:
            continue
        names = [exp.Literal.string(f"col{at}") for at in range(1, len(rows[0]) + 1)]
        structs = [call("named_struct", *(part.copy() for pair in zip(names, row, strict=True) for part in pair)) for row in rows]
        table = exp.Table(this=call("inline", call("array", *structs)), alias=values.args.get("alias"))
        made = table if isinstance(values.parent, exp.From | exp.Join) else exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
        if values is tree:
            return made
        values.replace(made)
    return tree


def _is_run(value: exp.Expr) -> bool:
    return any(isinstance(node, exp.Lambda) or node.name.lower() == "raise_error" for node in value.find_all(exp.Lambda, exp.Anonymous))
