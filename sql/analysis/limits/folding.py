"""Which values Spark may take for literals while it plans: those of literals alone, and those that it simplifies to such.

What it takes for one it writes out at each mention. Where that cannot be told, as it hangs on what a table holds, a value counts as one
unless reports are written with it: a condition on a table's columns, with different literals to choose from, is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import pairwise, permutations
from math import inf
from typing import Any

from sqlglot import exp

from sql.analysis.limits.forms import Forms, joined, may_be_same, united, without_parentheses
from sql.analysis.limits.spelled import number_of
from sql.analysis.limits.weight import Weight

Of = Callable[[exp.Expr], Weight]
_OF_ANY = frozenset({"typeof", "size", "cardinality", "array_size", "equal_null"})
"""Calls that Spark computes though a column stands in them, some of them only of what is made in the query."""
_FIRST_NOT_NULL = frozenset({"coalesce", "ifnull", "nvl"})
_INT = 2.0**31 - 1
_LIMITS = {exp.DType.TINYINT: 127.0, exp.DType.SMALLINT: 2.0**15 - 1, exp.DType.INT: _INT, exp.DType.BIGINT: 2.0**63 - 1}
_LIMITS_OF_CALLS = {"tinyint": 127.0, "smallint": 2.0**15 - 1, "int": _INT, "bigint": 2.0**63 - 1}
_OF_INT_NAMES = """
    ascii bit_count bit_length char_length character_length datediff date_diff day dayofmonth dayofweek dayofyear hash hour instr len length
    levenshtein locate minute month octet_length position quarter second spark_partition_id unix_date weekday weekofyear year
"""
_OF_INT = frozenset(_OF_INT_NAMES.split())
"""Calls whose value is an INT."""
_MOST_TOLD = 100
"""Nodes of a condition that are looked at for what tells it."""
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeNEQ)
_CONSTRUCTORS = (exp.Array, exp.Struct, exp.Map, exp.VarMap)
_NULL_IS_A_VALUE = _FIRST_NOT_NULL | frozenset(
    {"nvl2", "decode", "nullif", "concat_ws", "greatest", "least", "array", "struct", "named_struct", "map"}
)
"""Calls that are not NULL where an argument is."""


def may_fold(node: exp.Expr, name: str | None, of: Of) -> bool:
    """Whether a value of a row, which ``name`` makes where it is a call, may become a literal."""
    inside = list(node.iter_expressions())
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        return any(of(child).empty for child in inside)
    if all(of(child).foldable for child in inside) or name in _OF_ANY or may_be_null(node, name, of):
        return True
    if isinstance(node, (exp.Connector, *_CONSTRUCTORS)):
        return any(of(child).foldable for child in inside) or (isinstance(node, exp.Connector) and _opposed(node, of))
    if isinstance(node, exp.Is) or name in ("isnull", "isnotnull"):
        return not of(inside[0]).given
    if isinstance(node, exp.NullSafeEQ):
        return True
    if isinstance(node, (*_COMPARED, exp.Between, exp.In)):
        return _tells(node, of)
    if isinstance(node, exp.Mul):
        return any(of(one).foldable and not _is_other_than_zero(one) for one in (node.this, node.expression))
    if name in _FIRST_NOT_NULL or name == "named_struct":
        at = slice(0, 1) if name in _FIRST_NOT_NULL else slice(1, None, 2)
        return any(of(value).foldable for value in node.expressions[at])
    choice = _choice(node, name)
    return choice is not None and _may_choose(*choice, of)


def _tells(node: exp.Expr, of: Of) -> bool:
    """Whether a comparison has one result, whatever the values of a row are."""
    if isinstance(node, exp.In):
        return bool(node.expressions) and _is_beyond(of, node.this, *node.expressions)
    if isinstance(node, exp.Between):
        ends = node.args["low"], node.args["high"]
        return all(_same(of, node.this, end) for end in ends) or any(_is_beyond(of, node.this, end) for end in ends)
    sides = node.this, node.expression
    return _same(of, *sides) or any(_is_beyond(of, one, other) for one, other in permutations(sides))


def may_be_never(condition: exp.Expr, of: Of) -> bool:
    """Whether Spark may see while it plans that no row meets a condition."""
    inner = without_parentheses(condition)
    if not isinstance(inner, exp.And):
        return of(inner).foldable and not _may_hold(inner, of)
    conditions = list(joined(inner))
    return any(of(one).foldable and not _may_hold(one, of) for one in conditions) or _opposed(inner, of) or _contradicts(conditions, of)


def _may_hold(condition: exp.Expr, of: Of) -> bool:
    """As reports have it: TRUE or 1 = 1, before further conditions, or one of the literals that the parts of a UNION are told apart by."""
    if isinstance(condition, exp.EQ):
        return _may_equal(of, condition.this, condition.expression)
    if isinstance(condition, exp.In):
        return any(_may_equal(of, condition.this, one) for one in condition.expressions)
    return _spelled(condition) is True


def _may_equal(of: Of, left: exp.Expr, right: exp.Expr) -> bool:
    spelled = _spelled(left), _spelled(right)
    if None not in spelled:
        return spelled[0] == spelled[1] and exp.Null not in spelled
    return of(left).forms != of(right).forms and _same(of, left, right) and of(left).foldable and of(right).foldable


def _contradicts(conditions: list[exp.Expr], of: Of) -> bool:
    """Whether one of them may be told by the values that others say columns have: Spark puts those in their place."""
    equal: dict[Forms, object] = {}
    for condition in conditions:
        for column, literal in _set_columns(condition, of):
            value = _spelled(without_parentheses(literal))
            if equal.setdefault(of(column).forms, value) != value:
                return True
    return bool(equal) and any(_is_told(condition, equal, of) for condition in conditions)


def _set_columns(condition: exp.Expr, of: Of) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The columns that a condition says are equal to a literal, each with that."""
    if isinstance(condition, exp.EQ | exp.NullSafeEQ):
        for one, other in permutations((condition.this, condition.expression)):
            if isinstance(without_parentheses(one), exp.Column) and of(other).foldable:
                yield one, other


def _is_told(condition: exp.Expr, equal: dict[Forms, object], of: Of) -> bool:
    """Whether columns of such values are all that a condition is made of, and it is not seen to hold."""
    compared = isinstance(condition, (exp.EQ, exp.NullSafeEQ, *_COMPARED))
    for one, other in permutations((condition.this, condition.expression)) if compared else ():
        value, literal = equal.get(of(one).forms), _spelled(without_parentheses(other))
        if isinstance(without_parentheses(one), exp.Column) and type(value) is type(literal) and value is not None:
            return not _holds(condition, value, literal, is_turned=one is condition.expression)
    count, has_column = 0, False
    for node in condition.walk(prune=lambda inside: isinstance(inside, exp.Column)):
        if isinstance(node, exp.Query) or (isinstance(node, exp.Column) and of(node).forms not in equal):
            return False
        count, has_column = count + 1, has_column or isinstance(node, exp.Column)
        if count > _MOST_TOLD:
            break
    is_equality = any(True for _ in _set_columns(condition, of))
    is_list = isinstance(condition, exp.In) and any(_spelled(one) == equal.get(of(condition.this).forms) for one in condition.expressions)
    return has_column and not is_equality and not is_list


def _holds(condition: exp.Expr, value: Any, literal: Any, *, is_turned: bool) -> bool:
    left, right = (literal, value) if is_turned else (value, literal)
    try:
        match condition:
            case exp.EQ() | exp.NullSafeEQ():
                return bool(left == right)
            case exp.NEQ() | exp.NullSafeNEQ():
                return bool(left != right)
            case exp.GT():
                return bool(left > right)
            case exp.GTE():
                return bool(left >= right)
            case exp.LT():
                return bool(left < right)
        return bool(left <= right)
    except TypeError:  # NULL
        return False


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


def limit_of(node: exp.Expr, name: str | None, of: Of) -> float:
    """The largest number of a value's type, where that is an integer's: Spark looks behind casts to wider ones."""
    if isinstance(node, exp.Paren | exp.Alias):
        return of(node.this).limit
    if isinstance(node, exp.Cast | exp.TryCast):
        return min(_LIMITS.get(node.to.this, inf), of(node.this).limit)
    if name in _LIMITS_OF_CALLS and len(node.expressions) == 1:
        return min(_LIMITS_OF_CALLS[name], of(node.expressions[0]).limit)
    return _INT if name in _OF_INT or isinstance(node, exp.Extract) else inf


def _is_beyond(of: Of, one: exp.Expr, *others: exp.Expr) -> bool:
    """Whether a value is compared with numbers alone that its type does not hold: that tells the result."""
    limit = of(one).limit
    return limit < inf and not of(one).foldable and all(_number_beyond(of, other, limit) for other in others)


def _number_beyond(of: Of, value: exp.Expr, limit: float) -> bool:
    if not of(value).foldable:
        return False
    while isinstance(value, exp.Paren | exp.Cast | exp.TryCast) and number_of(value) is None:
        value = value.this
    number = number_of(value)
    if number is None and isinstance(value, exp.Literal):
        with contextlib.suppress(ValueError):
            number = float(value.name)
    if number is None:  # what a call comes to is not known here: no report has one beside a cast to a small type
        return limit < _INT
    return abs(number) >= limit


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
