"""Which values Spark may take for literals while it plans: those of literals alone, and those that it simplifies to such.

What it takes for one it writes out at each mention. Where that cannot be told, as it hangs on what a table holds, a value counts as one
unless reports are written with it: a condition on a table's columns, with different literals to choose from, is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise, permutations

from sqlglot import exp

from sql.analysis.limits.forms import Forms, joined, may_be_same, united
from sql.analysis.limits.weight import Weight

Of = Callable[[exp.Expr], Weight]
_OF_ANY = frozenset({"typeof", "size", "cardinality", "array_size", "equal_null"})
"""Calls that Spark computes though a column stands in them, some of them only of what is made in the query."""
_FIRST_NOT_NULL = frozenset({"coalesce", "ifnull", "nvl"})
_MOST_OF_TINYINT = 127
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeNEQ)
_CONSTRUCTORS = (exp.Array, exp.Struct, exp.Map, exp.VarMap)
_NULL_IS_A_VALUE = _FIRST_NOT_NULL | frozenset(
    {"nvl2", "decode", "nullif", "concat_ws", "greatest", "least", "array", "struct", "named_struct", "map"}
)
"""Calls that are not NULL where an argument is."""


def may_fold(node: exp.Expr, name: str | None, of: Of) -> bool:
    """Whether a value of a row, which ``name`` makes where it is a call, may become a literal."""
    inside = list(node.iter_expressions())
    if all(of(child).foldable for child in inside) or name in _OF_ANY or may_be_null(node, name, of):
        return True
    if isinstance(node, (exp.Connector, *_CONSTRUCTORS)):
        return any(of(child).foldable for child in inside) or (isinstance(node, exp.Connector) and _opposed(node, of))
    if isinstance(node, exp.Is) or name in ("isnull", "isnotnull"):
        return not of(inside[0]).given
    if isinstance(node, exp.NullSafeEQ):
        return True
    if isinstance(node, _COMPARED):
        return _same(of, node.this, node.expression) or any(_is_no_tinyint(one) for one in (node.this, node.expression))
    if isinstance(node, exp.Between):
        return _same(of, node.this, node.args["low"]) and _same(of, node.this, node.args["high"])
    if isinstance(node, exp.Mul):
        return any(of(one).foldable and not _is_other_than_zero(one) for one in (node.this, node.expression))
    if name in _FIRST_NOT_NULL or name == "named_struct":
        at = slice(0, 1) if name in _FIRST_NOT_NULL else slice(1, None, 2)
        return any(of(value).foldable for value in node.expressions[at])
    choice = _choice(node, name)
    return choice is not None and _may_choose(*choice, of)


def may_be_null(node: exp.Expr, name: str | None, of: Of) -> bool:
    """Whether a value is NULL because something in it is."""
    if isinstance(node, exp.Null):
        return True
    if name == "nullif":
        return all(of(child).foldable for child in node.iter_expressions()) or _same(of, *node.expressions)
    passes = isinstance(node, exp.Binary | exp.Unary | exp.Alias | exp.Cast | exp.Predicate | exp.Func)
    if not passes or isinstance(node, (exp.Case, exp.If, exp.Connector, exp.Is, exp.NullSafeEQ, exp.Exists, *_CONSTRUCTORS)):
        return False
    return name not in _NULL_IS_A_VALUE and any(of(child).null for child in node.iter_expressions())


def same_as(node: exp.Expr, name: str | None, of: Of) -> Forms:
    """The forms of what ``node`` chooses, where it may be told which one that is."""
    if name in _FIRST_NOT_NULL and node.expressions:
        return of(node.expressions[0]).forms
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):  # by 0, or by 1
        return united(of(other).forms for one, other in permutations((node.this, node.expression)) if of(one).foldable)
    if name in ("greatest", "least"):
        values = node.expressions
    elif (choice := _choice(node, name)) is not None:
        values = choice[1]
    else:
        return frozenset()
    forms = [of(value).forms for value in values if not isinstance(value, exp.Null)]
    is_one = all(may_be_same(one, other) for one, other in pairwise(forms))
    return united(forms) if is_one else frozenset()


def _same(of: Of, *expressions: exp.Expr) -> bool:
    one, *others = (of(expression).forms for expression in expressions)
    return all(may_be_same(one, other) for other in others)


def _opposed(node: exp.Connector, of: Of) -> bool:
    """Whether one of the conditions that are joined may be the opposite of another; asked of the outermost of ANDs, or of ORs."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if type(around) is type(node):
        return False
    senses: dict[object, tuple[bool, type[exp.Expr]]] = {}
    for condition in joined(node):
        holds = True
        while isinstance(condition, exp.Paren | exp.Not):
            holds, condition = holds != isinstance(condition, exp.Not), condition.this
        forms = of(condition).forms
        about: object = forms
        if isinstance(condition, _COMPARED):
            about = frozenset(of(operand).forms for operand in (condition.this, condition.expression))
        if senses.setdefault(about, (holds, type(condition))) != (holds, type(condition)):
            return True
    return False


def _is_no_tinyint(value: exp.Expr) -> bool:
    """What a column is compared with that may hold no such number: that tells the result."""
    while isinstance(value, exp.Paren | exp.Neg | exp.Cast | exp.TryCast):
        value = value.this
    spelled = _spelled(value)
    return isinstance(spelled, Decimal) and abs(spelled) > _MOST_OF_TINYINT


def _is_other_than_zero(value: exp.Expr) -> bool:
    return _spelled(value) not in (None, 0)


def _choice(node: exp.Expr, name: str | None) -> tuple[list[list[exp.Expr]], list[exp.Expr]] | None:
    """The conditions of a choice, each with all that it is made of, and the values; None where a node chooses nothing."""
    if isinstance(node, exp.Case):
        ifs, compared = node.args["ifs"], [node.this] if node.this is not None else []
        return [[*compared, one.this] for one in ifs], [*(one.args["true"] for one in ifs), _else(node, "default")]
    if isinstance(node, exp.If):
        return [[node.this]], [node.args["true"], _else(node, "false")]
    arguments = node.expressions
    if name == "nvl2" and len(arguments) == 3:
        return [[arguments[0]]], list(arguments[1:])
    if name == "decode" and len(arguments) > 2:
        otherwise = arguments[-1] if len(arguments) % 2 == 0 else exp.Null()
        return [[arguments[0], one] for one in arguments[1:-1:2]], [*arguments[2::2], otherwise]
    return None


def _else(node: exp.Expr, key: str) -> exp.Expr:
    otherwise = node.args.get(key)
    return otherwise if isinstance(otherwise, exp.Expr) else exp.Null()


def _may_choose(conditions: list[list[exp.Expr]], values: list[exp.Expr], of: Of) -> bool:
    folds = [isinstance(value, exp.Null) or of(value).foldable for value in values]
    if any(all(of(part).foldable for part in condition) or (len(condition) == 2 and _same(of, *condition)) for condition in conditions):
        return any(folds)
    return all(folds) and not _differ(values)


def _differ(values: Iterable[exp.Expr]) -> bool:
    """Whether two of them are literals of one kind that are not the same, or only one of two is NULL."""
    spelled: dict[type[object], object] = {}
    for value in values:
        literal = _spelled(value)
        if literal is not None and spelled.setdefault(type(literal), literal) != literal:
            return True
    return type(exp.Null) in spelled and len(spelled) > 1


def _spelled(value: exp.Expr) -> object:
    """The value of a literal; None where it is not spelled out."""
    sign = 1
    while isinstance(value, exp.Paren | exp.Neg):
        sign, value = -sign if isinstance(value, exp.Neg) else sign, value.this
    if isinstance(value, exp.Null):
        return exp.Null
    if isinstance(value, exp.Boolean):
        return bool(value.this)
    if not isinstance(value, exp.Literal):
        return None
    return value.name if value.is_string else sign * Decimal(value.name)
