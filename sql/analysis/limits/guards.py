"""Guards: expressions of the generated query that raise before a value is made. What they look at is evaluated once.

A plain column is written out again where a guard looks at it. Anything else gets a name: a guard that copied it would double
the text with every call inside another, and the server would not come to an end writing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from model.errors import UnsupportedStatement

_BY_CHANCE = frozenset({"rand", "random", "randn", "uuid", "shuffle", "uniform", "randstr", "monotonically_increasing_id"})
"""Functions whose value is another one each time: Spark seeds each mention by itself."""
_PLAIN = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Paren,
    exp.Neg,
    exp.Cast,
    exp.DataType,
    exp.Add,
    exp.Sub,
    exp.Mul,
)
_OF_LITERALS = frozenset({"make_dt_interval", "map", "array", "struct", "named_struct", "schema_of_json", "schema_of_csv", "schema_of_xml"})
"""Functions that Spark computes once where their arguments are literals."""
_MOST_PLAIN = 12
"""Nodes of what is written out again."""
_GIVEN = "__given"
_OURS = "ours"
_ONCE = "once"
_WRITTEN = "written"


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of Spark's."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def call_for(written: str, name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of Spark's that stands for something else that a user wrote, by which errors call it."""
    made = call(name, *arguments)
    made.meta[_WRITTEN] = written
    return made


def written_as(node: exp.Anonymous) -> str:
    """What a call is called in errors."""
    return str(node.meta.get(_WRITTEN, node.name))


def matches(text: exp.Expr, pattern: str) -> exp.Expr:
    """Whether a text has what a pattern of ours describes, which ends on any text: it is not judged as a caller's is."""
    made = call("regexp_like", text.copy(), exp.Literal.string(pattern))
    made.meta[_OURS] = True
    return made


def is_ours(node: exp.Expr) -> bool:
    """Whether it was made by `matches`."""
    return _OURS in node.meta


def number(value: float) -> exp.Expr:
    """A number in a guard."""
    return exp.Literal.number(str(int(value)))


def double(value: exp.Expr) -> exp.Expr:
    """A number that does not overflow, NULL for what is none."""
    text = exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.TEXT))
    return exp.TryCast(this=text, to=exp.DataType(this=exp.DType.DOUBLE), safe=True)


def wide(count: exp.Expr) -> exp.Expr:
    """A count whose products do not overflow."""
    return exp.Cast(this=count, to=exp.DataType(this=exp.DType.DOUBLE))


def size_of(value: exp.Expr) -> exp.Expr:
    """How many bytes a value of any type takes as text."""
    return wide(call("octet_length", exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.TEXT))))


def is_fixed(node: exp.Expr) -> bool:
    """Whether it is spelled out: a literal, or what is made of literals alone, as options and schemas have to be."""
    if isinstance(node, exp.Literal | exp.Null | exp.Boolean):
        return True
    if isinstance(node, exp.Interval | exp.Neg | exp.Paren | exp.Cast):
        return node.this is not None and is_fixed(node.this)
    if isinstance(node, exp.Map | exp.VarMap | exp.Array | exp.Struct | exp.PropertyEQ):
        return all(map(is_fixed, node.iter_expressions()))
    return isinstance(node, exp.Anonymous) and node.name.lower() in _OF_LITERALS and all(map(is_fixed, node.expressions))


def judged(value: exp.Expr, condition: Callable[[exp.Expr], exp.Expr], message: str) -> exp.Expr:
    """The value, or the statement's error where the condition over it holds."""
    _refuse_chance(value)
    if _is_plain(value):
        return _raising(condition(value), message, value)
    parameter = exp.Column(this=exp.to_identifier(_GIVEN))
    return named(value, _raising(condition(parameter), message, parameter))


def guard_call(node: exp.Anonymous, needed: Iterable[int], condition: Callable[..., exp.Expr], message: str, *, at: int) -> None:
    """Let a call raise where the condition over the needed of its arguments holds, before it evaluates the one ``at`` a place."""
    arguments = list(node.expressions)
    needed = list(needed)
    for place in needed:
        _refuse_chance(arguments[place])
    if not all(is_fixed(arguments[place]) or _is_plain(arguments[place]) for place in needed):
        # All of them: what stands in a lambda may be no aggregate, and one that stands outside may.
        # A lambda is no value, and stays.
        bound = {f"a{at}": one for at, one in enumerate(arguments) if not (is_fixed(one) or isinstance(one, exp.Lambda))}
        arguments = [exp.column(f"a{at}", table=_GIVEN) if f"a{at}" in bound else one for at, one in enumerate(arguments)]
    else:
        bound = {}
    arguments[at] = _raising(condition(*(arguments[place] for place in needed)), message, arguments[at])
    fields = [part for name, value in bound.items() for part in (exp.Literal.string(name), value.copy())]
    node.set("expressions", arguments)
    if bound:
        holder = exp.Placeholder()
        node.replace(holder)
        holder.replace(named(call("named_struct", *fields), node))


def guard_made(node: exp.Expr, condition: Callable[[exp.Expr], exp.Expr], message: str) -> None:
    """Look at what a call has made, of arguments that were looked at themselves."""
    parameter = exp.Column(this=exp.to_identifier(_GIVEN))
    holder = exp.Placeholder()
    node.replace(holder)
    holder.replace(named(node, _raising(condition(parameter), message, parameter)))


def named(value: exp.Expr, body: exp.Expr, name: str = _GIVEN) -> exp.Expr:
    """The body, in which a name is the value."""
    lambda_ = exp.Lambda(this=body, expressions=[exp.to_identifier(name)])
    lambda_.meta[_ONCE] = True
    return call("element_at", call("transform", call("array", value), lambda_), number(1))


def runs_once(lambda_: exp.Lambda) -> bool:
    """Whether it was made by `named`: of an array that has one element."""
    return _ONCE in lambda_.meta


def _raising(condition: exp.Expr, message: str, otherwise: exp.Expr) -> exp.Expr:
    return call("if", condition.copy(), call("raise_error", exp.Literal.string(message)), otherwise.copy())


def _is_plain(value: exp.Expr) -> bool:
    return all(isinstance(node, _PLAIN) and at < _MOST_PLAIN for at, node in enumerate(value.walk()))


def _refuse_chance(value: exp.Expr) -> None:
    if (chance := next((one for one in value.find_all(exp.Anonymous) if one.name.lower() in _BY_CHANCE), None)) is not None:
        raise UnsupportedStatement(
            f"{chance.name} gives another value at each look, so that nothing bounds it here: name it in a subquery, and use the name.",
            fragment=chance.name,
        )
