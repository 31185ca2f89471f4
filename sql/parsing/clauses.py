"""Clauses that the grammar reads and nothing here executes: each is refused by name, none is left out without a word."""

from __future__ import annotations

from sqlglot import exp

from model.errors import UnsupportedStatement

_OF_SETS = frozenset({"by_name", "cluster", "distinct", "distribute", "expression", "limit", "offset", "order", "sort", "this", "with_"})
EXECUTED: dict[type[exp.Expr], frozenset[str]] = {
    exp.Insert: frozenset({"this", "expression", "overwrite", "partition", "with_", "hint"}),
    exp.Select: frozenset(
        {
            *("with_", "hint", "distinct", "expressions", "from_", "joins", "laterals", "sample", "where", "group", "having"),
            *("qualify", "windows", "order", "sort", "cluster", "distribute", "limit", "offset"),
        }
    ),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins", "laterals", "pivots", "sample", "version"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Subquery: frozenset(
        {
            *("alias", "cluster", "distribute", "joins", "laterals", "limit", "offset", "order", "pivots", "sample", "sort", "this"),
            *("group", "having", "qualify", "where", "windows", "with_"),
        }
    ),
    exp.Union: _OF_SETS,
    exp.Except: _OF_SETS,
    exp.Intersect: _OF_SETS,
    exp.Join: frozenset({"expressions", "kind", "method", "on", "pivots", "side", "this", "using"}),
    exp.Order: frozenset({"expressions", "this"}),
    exp.Sort: frozenset({"expressions"}),
    exp.Distribute: frozenset({"expressions"}),
    exp.Pivot: frozenset(
        {
            *("this", "alias", "expressions", "fields", "unpivot", "include_nulls", "columns"),
            *("identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "value_columns_first"),
        }
    ),
    exp.Limit: frozenset({"this", "expression", "offset", "limit_options"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.LimitOptions: frozenset({"rows"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.TableSample: frozenset(
        {"expressions", "bucket_numerator", "bucket_denominator", "bucket_field", "percent", "rows", "size", "seed"}
    ),
}
"""The slots of sqlglot's expressions whose meaning reaches the run; whatever else one of them holds is refused, what is new in a later
version of sqlglot as well."""
_WRITTEN = {
    "alternative": "INSERT OR …",
    "changes": "CHANGES",
    "by_name": "BY NAME",
    "conflict": "ON CONFLICT",
    "connect": "CONNECT BY",
    "default": "DEFAULT VALUES",
    "exclude": "EXCLUDE",
    "exists": "IF EXISTS",
    "hints": "WITH or USE INDEX behind a table",
    "expressions": "LIMIT … BY",
    "is_function": "INSERT INTO FUNCTION",
    "kind": "SELECT AS",
    "locks": "FOR UPDATE",
    "match": "MATCH_RECOGNIZE",
    "method": "BERNOULLI or SYSTEM",
    "on": "DISTINCT ON",
    "ordinality": "WITH ORDINALITY",
    "when": "AT or BEFORE",
    "where": "REPLACE WHERE",
}
_WAYS_OUT = {
    "changes": "OPTIONS('incremental-between' = '1,2') in a hint behind the table shows what was added between two snapshots",
    "by_name": "name the columns in the query's order: INSERT INTO t (a, b) SELECT …",
    "conflict": "append tables have no keys that could conflict",
    "exclude": "name the frame without it",
    "hints": "options of a read go into a hint behind the table: /*+ OPTIONS('scan.snapshot-id' = '1') */",
    "locks": "a query reads one snapshot, which nothing changes",
    "method": "TABLESAMPLE (10 PERCENT) takes a sample",
    "on": "number the rows of each key in a subquery, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n, and take those WHERE n = 1",
    "returning": "SELECT the rows after the INSERT",
    "when": "FOR SYSTEM_TIME AS OF TIMESTAMP '…' reads the table as it was then",
    "where": "INSERT OVERWRITE t PARTITION (…) replaces a partition",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def check_clauses(tree: exp.Expr) -> None:
    """Raise `UnsupportedStatement` for the first clause that would not be executed."""
    for node in tree.walk():
        if isinstance(node, exp.Any | exp.All):
            _check_quantified(node)
        executed = EXECUTED.get(type(node))
        if executed is None:
            continue
        if isinstance(node, exp.Insert) and isinstance(node.this, exp.Table) and node.this.alias:
            raise UnsupportedStatement("An alias of the table that is written is not available here.", fragment=node.this.alias)
        for slot, value in node.args.items():
            if value and slot not in executed and not (slot == "partition" and _is_written(node)):
                words = _WRITTEN.get(slot, slot.strip("_").upper().replace("_", " "))
                advice = f"; {_WAYS_OUT[slot]}" if slot in _WAYS_OUT else ""
                raise UnsupportedStatement(f"{words} is not available here{advice}.", fragment=_fragment(words))


def _check_quantified(node: exp.Any | exp.All) -> None:
    """Raise `UnsupportedStatement` where a value is compared with any or all of several; ``any(a)`` elsewhere is an aggregate's call."""
    comparison = node.parent
    if isinstance(comparison, _COMPARISONS) and comparison.expression is node:
        word = "ANY" if isinstance(node, exp.Any) else "ALL"
        ways = "exists(array, x -> x = 1), forall(array, x -> x > 1), IN (SELECT …) and comparisons with (SELECT MAX(…) …)"
        raise UnsupportedStatement(f"A comparison with {word} (…) is not available here; {ways} are.", fragment=word)


def _is_written(table: exp.Expr) -> bool:
    """Whether it is an INSERT's target, with a list of columns or without."""
    parent = table.parent
    return isinstance(parent.parent if isinstance(parent, exp.Schema) else parent, exp.Insert)


def _fragment(words: str) -> str:
    """What an error points at: the clause's own first words."""
    return words.split(" or ")[0].removesuffix(" …")
