"""Calls that make values many times as large as what they are given: judged where the numbers stand in the text, guarded where they do not.

A guard is part of the generated query and raises before the value is made. Nothing is guarded that cannot become large.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sqlglot import exp

from model.errors import UnsupportedStatement

MOST_BYTES = 32 << 20
"""Of one value that a function makes."""
MOST_BYTES_IN_LAMBDA = 64 << 10
"""Of one that is made for each element of an array."""
MOST_ELEMENTS = 1_000_000
MOST_WINDOWS = 10_000
"""That a row may be in."""
_LEAST_RSD = 0.003
_MOST_SCALE = 1000
_SMALL = 16
"""Bytes that replacing or joining may put in the place of one without a guard."""
_MOST_GROWTH = 1024
"""Calls that add up their arguments are guarded where all of a statement's together could make a value larger than so many."""
_ADDING_NAMES = """
    array_append array_insert array_prepend array_union arrays_zip base64 concat concat_ws encode flatten format_string hex insert
    map_concat map_from_arrays overlay printf quote to_csv to_json to_xml url_encode
"""
_ADDING = frozenset(_ADDING_NAMES.split())
_REDUCING = frozenset({"aggregate", "reduce"})
_MOST_FORMAT = 10_000
_DIGITS = re.compile(r"\d+")
_BY_CHANCE = frozenset({"rand", "random", "randn", "uuid", "shuffle", "uniform", "randstr", "monotonically_increasing_id"})
"""Functions whose value is another one each time: Spark seeds each mention by itself."""
_WIDTH = re.compile(r"\d{5,}")
_COUNT = re.compile(r"\d{1,18}(\.\d{1,9})?")
_SECONDS = {"WEEK": 604800, "DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1, "MILLISECOND": 1e-3, "MICROSECOND": 1e-6}
_MADE_SECONDS = (86400, 3600, 60, 1)
"""Of the arguments of `make_dt_interval`: days, hours, minutes, seconds."""


def bound_values(tree: exp.Expr) -> None:
    """Put guards into Spark's tree, in place; raises `UnsupportedStatement` where a literal alone is too much."""
    grows = _growth(tree) > _MOST_GROWTH or any(with_.args.get("recursive") for with_ in tree.find_all(exp.With))
    for node in reversed(list(tree.find_all(exp.Anonymous, exp.DPipe, exp.Concat))):  # inner ones first
        name = node.name.lower() if isinstance(node, exp.Anonymous) else "concat"
        if limit := _LIMITS.get(name):
            limit(node)
        if name in _ADDING and (grows or _reduced(node)):
            _guard_made(node, name)


def _growth(tree: exp.Expr) -> float:
    product = 1.0
    for node in tree.find_all(exp.Anonymous, exp.DPipe, exp.Concat):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else "concat"
        if name in _ADDING and not all(isinstance(part, exp.Literal) for part in node.iter_expressions()):
            product *= max(2, len(node.expressions))
            if product > _MOST_GROWTH:
                break
    return product


def _reduced(node: exp.Expr) -> bool:
    """Whether it stands in a lambda whose result goes into the next round."""
    ancestor = node.find_ancestor(exp.Lambda)
    while ancestor is not None:
        call = ancestor.parent
        if isinstance(call, exp.Anonymous) and call.name.lower() in _REDUCING:
            return True
        ancestor = ancestor.find_ancestor(exp.Lambda)
    return False


# Building blocks of guards


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of Spark's."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def number(value: float) -> exp.Expr:
    """A number in a guard."""
    return exp.Literal.number(str(int(value)))


def raising(condition: exp.Expr, message: str, otherwise: exp.Expr) -> exp.Expr:
    """The value, or the statement's error where the condition holds; raises `UnsupportedStatement` where it would be another one then."""
    for part in (condition, otherwise):
        if (chance := next((one for one in part.find_all(exp.Anonymous) if one.name.lower() in _BY_CHANCE), None)) is not None:
            raise UnsupportedStatement(
                f"{chance.name} gives another value at each look, so that nothing bounds it here: name it in a subquery, and use the name.",
                fragment=chance.name,
            )
    return call("if", condition, call("raise_error", exp.Literal.string(message)), otherwise)


def size_of(value: exp.Expr) -> exp.Expr:
    """How many bytes a value of any type takes as text."""
    return _wide(call("octet_length", exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.TEXT))))


def _wide(count: exp.Expr) -> exp.Expr:
    """A count whose products do not overflow."""
    return exp.Cast(this=count, to=exp.DataType(this=exp.DType.DOUBLE))


def double(value: exp.Expr) -> exp.Expr:
    """A number that does not overflow, NULL for what is none."""
    text = exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.TEXT))
    return exp.TryCast(this=text, to=exp.DataType(this=exp.DType.DOUBLE), safe=True)


def literal_number(node: exp.Expr) -> float | None:
    """The number a node spells, or None where it depends on something."""
    if isinstance(node, exp.Paren):
        return literal_number(node.this)
    if isinstance(node, exp.Neg):
        inner = literal_number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal):
        try:
            return float(node.name)
        except ValueError:
            return None
    return None


def _literal_size(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Null | exp.Boolean):
        return 8
    if isinstance(node, exp.Neg):
        return _literal_size(node.this)
    return len(node.name.encode()) if isinstance(node, exp.Literal) else None


def _most(node: exp.Expr) -> int:
    return MOST_BYTES if node.find_ancestor(exp.Lambda) is None else MOST_BYTES_IN_LAMBDA


def _says(name: str, most: int, what: str = "bytes") -> str:
    return f"{name} would make a value of more than {most} {what}, the most a function makes here."


def _too_much(node: exp.Expr, name: str, most: int, what: str = "bytes") -> UnsupportedStatement:
    return UnsupportedStatement(_says(name, most, what), fragment=name)


def _arguments(node: exp.Expr, name: str, at_least: int) -> list[exp.Expr] | None:
    """The arguments by their places; None where there are too few, which Spark tells."""
    if any(isinstance(argument, exp.Kwarg) for argument in node.expressions):
        raise UnsupportedStatement(f"{name} takes its arguments by their places, not by names.", fragment=name)
    return node.expressions if len(node.expressions) >= at_least else None


def _set(node: exp.Expr, at: int, value: exp.Expr) -> None:
    arguments = list(node.expressions)
    arguments[at] = value
    node.set("expressions", arguments)


# One limit for each kind of call


def _by_count(node: exp.Expr, *, count: int, unit: int | None = None, most: int | None = None, what: str = "bytes") -> None:
    """The argument ``count`` says how many, of the size of the argument ``unit`` each or of one byte."""
    name = node.name
    arguments = _arguments(node, name, max(count, unit or 0) + 1)
    if arguments is None:
        return
    limit = min(most or _most(node), _most(node))
    times = literal_number(arguments[count])
    each = 1 if unit is None else _literal_size(arguments[unit])
    if times is not None and each is not None:
        if abs(times) * max(each, 1) > limit:
            raise _too_much(node, name, limit, what)
        return
    size = double(arguments[count])
    if unit is not None:
        size = exp.Mul(this=size, expression=exp.Paren(this=call("greatest", size_of(arguments[unit]), number(1))))
    condition = exp.GT(this=call("abs", size), expression=number(limit))
    _set(node, count, raising(condition, _says(name, limit, what), arguments[count]))


def _by_replacing(node: exp.Expr, *, by: int, pattern: int | None) -> None:
    """What is put in the place of each occurrence makes the value grow."""
    name = node.name
    arguments = _arguments(node, name, by + 1)
    if arguments is None:
        return
    size = _literal_size(arguments[by])
    if size is not None and size <= _SMALL:
        return
    limit = _most(node)
    whole: exp.Expr = exp.Mul(this=size_of(arguments[0]), expression=size_of(arguments[by]))
    if pattern is not None:
        whole = exp.Div(this=whole, expression=call("greatest", size_of(arguments[pattern]), number(1)))
    _set(node, by, raising(exp.GT(this=whole, expression=number(limit)), _says(name, limit), arguments[by]))


def _by_joining(node: exp.Expr) -> None:
    """The separator, and what stands for NULL, come once for each element."""
    arguments = _arguments(node, node.name, 2)
    if arguments is None:
        return
    sizes = [_literal_size(argument) for argument in arguments[1:3]]
    if all(size is not None and size <= _SMALL for size in sizes):
        return
    limit = _most(node)
    each = size_of(arguments[1])
    if len(arguments) > 2:
        each = exp.Paren(this=exp.Add(this=each, expression=size_of(arguments[2])))
    whole = exp.Mul(this=_wide(call("size", arguments[0].copy())), expression=each)
    _set(node, 1, raising(exp.GT(this=whole, expression=number(limit)), _says(node.name, limit), arguments[1]))


def _by_separator(node: exp.Expr) -> None:
    if len(node.expressions) > 1 and (_literal_size(node.expressions[1]) or _SMALL**3) > _SMALL**2:
        raise UnsupportedStatement(f"{node.name} takes a literal of at most {_SMALL**2} bytes between the values.", fragment=node.name)


def _sequence(node: exp.Expr) -> None:
    arguments = _arguments(node, "sequence", 2)
    if arguments is None:
        return
    most = MOST_ELEMENTS if node.find_ancestor(exp.Lambda) is None else MOST_BYTES_IN_LAMBDA // 8
    start, stop = (literal_number(bound) for bound in arguments[:2])
    step = literal_number(arguments[2]) if len(arguments) > 2 else 1.0
    if start is not None and stop is not None and step is not None:
        if step and abs(stop - start) / abs(step) > most:
            raise _too_much(node, "sequence", most, "elements")
        return
    span: exp.Expr
    may_be_interval = False
    step_of = arguments[2] if len(arguments) > 2 else number(1)
    while isinstance(step_of, exp.Neg | exp.Paren):  # the sign says only which way
        step_of = step_of.this
    if len(arguments) > 2 and (isinstance(step_of, exp.Interval) or _is_made(step_of)):
        seconds = _seconds(step_of) if isinstance(step_of, exp.Interval) else _made_seconds(step_of)
        if seconds is None:
            return  # months and years: a hundred centuries are not too many
        instants = [exp.Cast(this=bound.copy(), to=exp.DataType(this=exp.DType.TIMESTAMPLTZ)) for bound in arguments[:2]]
        start_seconds, stop_seconds = (call("unix_seconds", bound) for bound in instants)
        span = exp.Div(
            this=exp.Paren(this=exp.Sub(this=stop_seconds, expression=start_seconds)), expression=exp.Literal.number(repr(seconds))
        )
    else:
        span = exp.Paren(this=exp.Sub(this=double(arguments[1]), expression=double(arguments[0])))
        if len(arguments) > 2:
            if literal_number(arguments[2]) is None and not isinstance(arguments[2], exp.Column | exp.Cast | exp.Neg):
                raise UnsupportedStatement("sequence takes its step as a literal, such as 2 or INTERVAL '1' HOUR.", fragment="sequence")
            span = exp.Div(this=span, expression=call("nullif", double(arguments[2]), number(0)))
            may_be_interval = literal_number(step_of) is None
    condition: exp.Expr = exp.GT(this=call("abs", span), expression=number(most))
    if may_be_interval:
        # An interval out of a column or a cast is no number, and the span would be NULL, which raises nothing.
        is_other = exp.Is(this=exp.Paren(this=double(step_of)), expression=exp.Null())
        given = exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=step_of.copy()), expression=exp.Null())))
        condition = call("coalesce", condition, exp.And(this=given, expression=exp.Paren(this=is_other)))
    _set(node, 1, raising(condition, _says("sequence", most, "elements"), arguments[1]))


def _is_made(step: exp.Expr) -> bool:
    """Whether it is ``make_dt_interval`` of numbers, which the windows of event time are written with."""
    if not isinstance(step, exp.Anonymous) or step.name.lower() != "make_dt_interval":
        return False
    return len(step.expressions) <= len(_MADE_SECONDS) and None not in map(literal_number, step.expressions)


def _made_seconds(step: exp.Expr) -> float:
    parts = zip(map(literal_number, step.expressions), _MADE_SECONDS, strict=False)
    seconds = sum(abs(value or 0.0) * scale for value, scale in parts)
    if not seconds:
        raise UnsupportedStatement("sequence takes a step that is not zero.", fragment="sequence")
    return seconds


def _seconds(interval: exp.Interval) -> float | None:
    unit = interval.args.get("unit")
    scale = _SECONDS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    value = literal_number(interval.this) if interval.this is not None else None
    if scale is None and isinstance(unit, exp.Var) and unit.name.upper().removesuffix("S") in ("MONTH", "YEAR", "QUARTER"):
        return None
    if scale is None or not value:
        raise UnsupportedStatement("sequence takes its step as a literal of one unit, such as INTERVAL '1' HOUR.", fragment="sequence")
    return scale * abs(value)


def _format(node: exp.Expr) -> None:
    """A width such as ``%2000000000d``."""
    arguments = _arguments(node, node.name, 1)
    if arguments is None:
        return
    says = f"{node.name} takes widths of at most 9999, and a text of at most {_MOST_FORMAT} bytes where it is no literal."
    if isinstance(arguments[0], exp.Literal):
        widths = [int(width[:8]) for width in _DIGITS.findall(arguments[0].name)]
        if _WIDTH.search(arguments[0].name) or sum(widths) > _most(node):
            raise UnsupportedStatement(says, fragment=node.name)
        return
    # So short a text can not ask for more than a value may have, with a width in every five of its bytes.
    long = exp.GT(this=size_of(arguments[0]), expression=number(_MOST_FORMAT))
    wide = exp.Or(this=call("regexp_like", arguments[0].copy(), exp.Literal.string("[0-9]{5}")), expression=long)
    _set(node, 0, raising(wide, says, arguments[0]))


def _sketch(node: exp.Expr) -> None:
    """``count_min_sketch(column, eps, confidence, seed)`` takes memory by one over eps."""
    arguments = _arguments(node, node.name, 3) or []
    eps, confidence = (literal_number(argument) for argument in arguments[1:3]) if arguments else (1.0, 0.5)
    if eps is None or confidence is None or eps < 1e-5 or not 0 < confidence <= 0.9999:
        raise UnsupportedStatement(
            "count_min_sketch takes an eps of at least 0.00001 and a confidence of at most 0.9999.", fragment=node.name
        )


def _registers(node: exp.Expr) -> None:
    """``approx_count_distinct(column, rsd)`` takes memory by one over the square of rsd, while it is analysed."""
    if len(node.expressions) > 1 and not (literal_number(node.expressions[1]) or 0) >= _LEAST_RSD:
        raise UnsupportedStatement(f"{node.name} takes a deviation of at least {_LEAST_RSD}, as a literal.", fragment=node.name)


def _digits(node: exp.Expr) -> None:
    """``round(value, scale)``: Java writes out as many digits."""
    scale = literal_number(node.expressions[1]) if len(node.expressions) > 1 else 0
    if scale is None or abs(scale) > _MOST_SCALE:
        raise UnsupportedStatement(
            f"{node.name} takes a number of digits between -{_MOST_SCALE} and {_MOST_SCALE}, as a literal.", fragment=node.name
        )


def _windows(node: exp.Expr) -> None:
    """``window(time, size, slide)``: Spark makes an expression of each window a row can be in."""
    arguments = _arguments(node, node.name, 3)
    if arguments is None:
        return
    size, slide = (_span(argument) for argument in arguments[1:3])
    if not size or not slide or size / slide > MOST_WINDOWS:
        raise UnsupportedStatement(
            f"window takes a size of at most {MOST_WINDOWS} slides, both as texts such as '1 hour' or '5 minutes'.", fragment=node.name
        )


def _span(node: exp.Expr) -> float | None:
    """The seconds of a text such as ``1 hour 30 minutes``; a number alone is microseconds to Spark."""
    if not isinstance(node, exp.Literal):
        return None
    if not node.is_string:
        microseconds = literal_number(node)
        return None if microseconds is None else microseconds * 1e-6
    words = node.name.upper().removeprefix("INTERVAL ").split()
    if not words or len(words) % 2:
        return None
    seconds = 0.0
    for value, unit in zip(words[::2], words[1::2], strict=True):
        scale = _SECONDS.get(unit.removesuffix("S"))
        if scale is None or not _COUNT.fullmatch(value):
            return None
        seconds += float(value) * scale
    return seconds


def _rows(node: exp.Expr) -> None:
    count = literal_number(node.expressions[0]) if node.expressions else 0
    if count is None or count > max(len(node.expressions), 10_000):
        raise UnsupportedStatement("stack takes the number of rows as a literal of at most 10000.", fragment=node.name)


def _by_product(node: exp.Expr) -> None:
    """What compares each character of one text with each of another."""
    arguments = _arguments(node, node.name, 2)
    if arguments is None or any(isinstance(argument, exp.Literal) and len(argument.name) < 1000 for argument in arguments[:2]):
        return
    product = exp.Mul(this=size_of(arguments[0]), expression=size_of(arguments[1]))
    says = f"{node.name} compares texts of at most 100 million pairs of characters."
    _set(node, 0, raising(exp.GT(this=product, expression=number(1e8)), says, arguments[0]))


def _guard_made(node: exp.Expr, name: str) -> None:
    """Look at what was made of arguments that were looked at themselves."""
    limit = _most(node)
    made = exp.to_identifier("__made")
    value = exp.Column(this=made.copy())
    judged = raising(exp.GT(this=size_of(value), expression=number(limit)), _says(name, limit), value)
    holder = exp.Placeholder()
    node.replace(holder)
    lambda_ = exp.Lambda(this=judged, expressions=[made])
    holder.replace(call("element_at", call("transform", call("array", node), lambda_), number(1)))


_LIMITS: dict[str, Callable[[exp.Expr], None]] = {
    "repeat": partial(_by_count, count=1, unit=0),
    "array_repeat": partial(_by_count, count=1, unit=0),
    "space": partial(_by_count, count=0),
    "randstr": partial(_by_count, count=0),
    **dict.fromkeys(("lpad", "rpad"), partial(_by_count, count=1)),
    "format_number": partial(_by_count, count=1, most=1000, what="digits"),
    "array_insert": partial(_by_count, count=1, most=MOST_ELEMENTS, what="elements"),
    "replace": partial(_by_replacing, by=2, pattern=1),
    "regexp_replace": partial(_by_replacing, by=2, pattern=None),
    "array_join": _by_joining,
    **dict.fromkeys(("listagg", "string_agg"), _by_separator),
    "sequence": _sequence,
    **dict.fromkeys(("format_string", "printf"), _format),
    "count_min_sketch": _sketch,
    "approx_count_distinct": _registers,
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor"), _digits),
    "window": _windows,
    "stack": _rows,
    **dict.fromkeys(("levenshtein", "jaro_winkler_similarity"), _by_product),
}
