"""The one way to a text for Spark: generated from a tree of which every node, call, table and hint is on a list.

The tree is judged first, then the words of the text generated from it, so that neither a name that an alias binds nor the
generator's own rewriting lets a call through. What the user wrote never reaches Spark.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from model.errors import UnsupportedStatement, nearest
from sql.analysis.functions import FLINKS, FUNCTIONS, HINTS, NOT_FUNCTIONS, REFUSED, RUN_BY_SPARK, SCHEMA_ARGUMENT, SYNTAX, TABLE_FUNCTIONS
from sql.analysis.limits.large_values import bound_values
from sql.analysis.limits.patterns import match_in_time
from sql.analysis.limits.plan_size import bound_plan
from sql.analysis.limits.spelled import literal_number
from sql.analysis.rewrites.inline_tables import expand_values
from sql.analysis.rewrites.json_maps import keep_keys_apart
from sql.analysis.to_spark import generated, to_spark
from sql.dialect import is_query, tokens_of

_EXPLAINED: dict[type[exp.Expr], str] = {
    exp.QueryTransform: "TRANSFORM … USING starts programs on the server",
    exp.Command: "the statement is not a query",
    exp.Parameter: "parameters and variables are not available",
    exp.SessionParameter: "session variables are not available",
    exp.Placeholder: "parameters are not available here",
}

_NODE_NAMES = """
    Add Alias Aliases All Any Between BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor Boolean
    Bracket CTE Cluster Column ColumnConstraint ColumnDef CommentColumnConstraint Cube DPipe DataType DataTypeParam Distinct
    Distribute Div Dot EQ Escape Except Filter From GT GTE Group GroupingSets Having HexString Hint ILike Identifier
    IgnoreNulls In IntDiv Intersect Interval IntervalSpan Is Join Kwarg Lambda Lateral Like Limit Literal LT LTE Mod Mul NEQ
    National Neg Not NotNullColumnConstraint Null NullSafeEQ NullSafeNEQ Offset Order Ordered Paren Pivot PivotAlias PivotAny
    PropertyEQ RawString RespectNulls Rollup Select Slice Sort Star Sub Subquery Table TableAlias TableSample Tuple Union
    UnpivotColumns Values Var Where Window WindowSpec With WithinGroup
"""
_NODES = frozenset(_NODE_NAMES.split())
"""Nodes that are no calls; one of another kind is refused until somebody has looked at what it means to Spark."""

_CALLS = {
    exp.And: "and", exp.Or: "or", exp.Case: "case", exp.If: "if", exp.Cast: "cast", exp.TryCast: "cast", exp.Count: "count", exp.Max: "max",
    exp.Min: "min", exp.Sum: "sum", exp.Avg: "avg", exp.Array: "array", exp.Map: "map", exp.VarMap: "map", exp.Struct: "struct",
    exp.Extract: "extract", exp.Trim: "trim", exp.Overlay: "overlay", exp.StrPosition: "position", exp.Substring: "substring",
    exp.Exists: "exists", exp.Transform: "transform", exp.Unnest: "explode", exp.CurrentDate: "current_date", exp.Concat: "concat",
    exp.CurrentTimestamp: "current_timestamp", exp.RegexpLike: "rlike", exp.Collate: "collate",
}  # fmt: skip
"""Calls and operators the parser has a node of its own for, and the function of Spark's that each is."""

_XML_ARGUMENTS = {"from_xml": 2, "schema_of_xml": 1}
"""Arguments before the options, of which ``rowValidationXSDPath`` makes Spark open a file, and what that file points to."""
_SCHEMA_MAKERS = frozenset({"schema_of_json", "schema_of_csv", "schema_of_xml"})
_NOT_IN_SCHEMAS = re.compile(r"[{}\[\]();=]|\b(default|generated|identity)\b", re.IGNORECASE)
_MOST_PARTITIONS = 10_000
"""That a hint or `range` asks for: each is a task, and a number in every task before it."""
_DECIMALS = re.compile(r"\b(decimal|dec|numeric|char|varchar|time|timestamp\w*)\s*\(\s*\d+\s*(,\s*\d+\s*)?\)", re.IGNORECASE)


def checked_sql(tree: exp.Expr, views: Collection[str]) -> str:
    """The Spark SQL of a query over these views; the tree is not changed. Raises `UnsupportedStatement` naming what is not allowed."""
    with _not_too_deep():
        ready = to_spark(tree.copy())
        if not is_query(ready):
            raise UnsupportedStatement(f"{ready.key.upper()} is not a query and is not run.")
        return _checked(ready, views)


def checked_expression(tree: exp.Expr) -> str:
    """The Spark SQL of one expression over columns; raises `UnsupportedStatement`."""
    # In parentheses: what is guarded is put in another's place, which a node without a parent has none of.
    with _not_too_deep():
        return _checked(exp.Paren(this=to_spark(tree.copy())), ())


@contextmanager
def _not_too_deep() -> Iterator[None]:
    """What is put around the casts to a nested type, and around `from_json`, is several times as deep as the type."""
    try:
        yield
    except RecursionError as problem:
        raise UnsupportedStatement("The statement is nested too deeply.") from problem


def _checked(ready: exp.Expr, views: Collection[str]) -> str:
    named = {cte.alias for cte in ready.find_all(exp.CTE)} | set(views)
    for node in _outside_hints(ready):
        _check_node(node)
        if isinstance(node, exp.Table):
            _check_table(node, named)
    bound_plan(ready)
    _guarded(ready)
    text = generated(ready.this if isinstance(ready, exp.Paren) else expand_values(ready))
    _check_words(tokens_of(text), _named_with_columns(ready))
    return text


def _guarded(tree: exp.Expr) -> None:
    """Limit values and patterns, and keep keys of JSON apart, in place; a column that changes keeps the name it would have had."""
    written = [
        (select, at, generated(column))
        for select in tree.find_all(exp.Select)
        for at, column in enumerate(select.expressions)
        if not isinstance(column, exp.Alias | exp.Aliases | exp.Star | exp.Column | exp.Literal)
        if not (isinstance(column, exp.Anonymous) and column.name.lower() in TABLE_FUNCTIONS)
    ]
    bound_values(tree)
    match_in_time(tree)
    keep_keys_apart(tree)
    for select, at, text in written:
        column = select.expressions[at]
        if generated(column) != text:
            column.replace(exp.alias_(column.copy(), text, quoted=True))


def _outside_hints(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Every node but those inside hints, which are judged as a whole."""
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Hint)):
        if isinstance(node, exp.Hint):
            _check_hint(node)
        yield node


def _check_node(node: exp.Expr) -> None:
    if reason := _EXPLAINED.get(type(node)):
        written = node.sql("spark")[:80]
        fragment = "TRANSFORM" if isinstance(node, exp.QueryTransform) else written.strip("${}")
        raise UnsupportedStatement(f"'{written}' is not available: {reason}.", fragment=fragment)
    if isinstance(node, exp.Anonymous):
        _check_call(node)
    elif isinstance(node, exp.Func):
        name = _CALLS.get(type(node))
        if name is None or name not in RUN_BY_SPARK:
            raise _refused(name or node.sql_name())
    elif type(node).__name__ not in _NODES:
        raise UnsupportedStatement(f"'{node.sql('spark')[:80]}' is not available.", fragment=None)
    elif isinstance(node, exp.Column) and any(part.name.lower() == "_metadata" for part in node.parts):
        raise UnsupportedStatement("The column _metadata is not available: it shows paths of the server.", fragment="_metadata")


def _check_call(call: exp.Anonymous) -> None:
    name = call.name.lower()
    if isinstance(call.parent, exp.Dot) and call.arg_key == "expression":
        raise _qualified(call.name)
    if name not in RUN_BY_SPARK and not (name in TABLE_FUNCTIONS and isinstance(call.parent, exp.Table | exp.Lateral)):
        raise _refused(call.name)
    if name == "to_timestamp_ltz" and len(call.expressions) > 1 and literal_number(call.expressions[1]) is not None:
        ways = "timestamp_millis(n) and timestamp_seconds(n) read a number, to_timestamp_ltz(text, 'yyyy-MM-dd') reads a text"
        raise UnsupportedStatement(f"{call.name} of a number and a precision is not available; {ways}.", fragment=call.name)
    if len(call.expressions) > _XML_ARGUMENTS.get(name, len(call.expressions)):
        raise UnsupportedStatement(f"{call.name} takes no options here: one names a file of the server to read.", fragment=call.name)
    at = SCHEMA_ARGUMENT.get(name)
    if (at is not None or name in _XML_ARGUMENTS) and any(isinstance(argument, exp.Kwarg) for argument in call.expressions):
        raise UnsupportedStatement(f"{call.name} takes its arguments by their places, not by names.", fragment=call.name)
    if at is not None and len(call.expressions) > at:
        _check_schema(call, call.expressions[at])


def _check_schema(call: exp.Anonymous, schema: exp.Expr) -> None:
    """A schema is written out: as JSON, or as a text put together, it could carry default values, which Spark evaluates."""
    if isinstance(schema, exp.Anonymous) and schema.name.lower() in _SCHEMA_MAKERS:
        return
    if not (isinstance(schema, exp.Literal) and schema.is_string) or _NOT_IN_SCHEMAS.search(_DECIMALS.sub("", schema.name)):
        raise UnsupportedStatement(
            f"{call.name} takes its schema as one text of names and types, such as 'a INT, b ARRAY<STRING>', or from schema_of_json(…).",
            fragment=call.name,
        )


def _check_hint(hint: exp.Hint) -> None:
    """A hint names a way to join or to part rows, and takes names and numbers: a call inside would be run, too."""
    for member in hint.expressions:
        if not isinstance(member, exp.Expr):
            raise UnsupportedStatement(f"The hint {member} is not available.", fragment=str(member))
        name = (
            member.name
            if isinstance(member, exp.Anonymous | exp.JoinHint | exp.Column | exp.Var)
            else member.sql("spark").partition("(")[0]
        )
        plain = all(isinstance(part, exp.Column | exp.Identifier | exp.Table | exp.Literal) for part in member.expressions)
        if name.lower() not in HINTS or not plain or any(member.find_all(exp.Func, exp.Query)) is not isinstance(member, exp.Func):
            raise UnsupportedStatement(f"The hint {member.sql('spark')[:80]} is not available.", fragment=name or None)
        if any(isinstance(part, exp.Literal) and (literal_number(part) or 0) > _MOST_PARTITIONS for part in member.expressions):
            raise UnsupportedStatement(f"The hint {name} takes at most {_MOST_PARTITIONS:,} partitions.", fragment=name or None)


def _check_table(node: exp.Table, named: Collection[str]) -> None:
    if not isinstance(node.this, exp.Identifier):
        name = node.this.name if isinstance(node.this, exp.Anonymous) else node.this.sql_name() if isinstance(node.this, exp.Func) else ""
        if name.lower() not in TABLE_FUNCTIONS:
            raise UnsupportedStatement(f"The table function {name or node.sql('spark')} is not available.", fragment=name or None)
        if name.lower() == "range" and len(node.this.expressions) > 3:
            partitions = literal_number(node.this.expressions[3])
            if partitions is None or partitions > _MOST_PARTITIONS:
                raise UnsupportedStatement(f"range takes at most {_MOST_PARTITIONS:,} partitions, as a literal.", fragment=name)
        return
    if len(node.parts) == 1 and node.name in named:
        return
    raise UnsupportedStatement(f"'{node.sql('spark')}' is no table of the catalog.", fragment=node.name)


def _named_with_columns(tree: exp.Expr) -> set[str]:
    """Names that stand before a parenthesis because they name columns: ``WITH x(a) AS …``, ``… AS t(a)``; calls of them were refused."""
    names = {alias.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns")}
    return names - REFUSED.keys()


def _check_words(tokens: list[Token], named: set[str]) -> None:
    for index, token in enumerate(tokens[:-1]):
        if tokens[index + 1].token_type != TokenType.L_PAREN or not _is_word(token):
            continue
        before = tokens[index - 1] if index else None
        if before is not None and before.token_type == TokenType.DOT:
            raise _qualified(token.text)
        name = token.text.lower()
        if name in RUN_BY_SPARK or name in named or (name in SYNTAX and token.token_type != TokenType.IDENTIFIER):
            continue
        raise _refused(token.text)


def _is_word(token: Token) -> bool:
    return token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"


def _qualified(name: str) -> UnsupportedStatement:
    return UnsupportedStatement(f"The function {name} is called by a qualified name, which is not available.", fragment=name)


def _refused(name: str) -> UnsupportedStatement:
    if reason := REFUSED.get(name.lower()) or NOT_FUNCTIONS.get(name.lower()):
        return UnsupportedStatement(f"The function {name} is not available: {reason}.", fragment=name)
    near = FLINKS.get(name.lower()) or nearest(name.lower(), FUNCTIONS)
    hint = f" Did you mean {near}?" if near else " SHOW FUNCTIONS lists what there is."
    return UnsupportedStatement(f"There is no function {name}.{hint}", fragment=name)
