"""Calls that make values many times as large as what they are given: judged where the numbers stand in the text, guarded where they do not.

A guard is part of the generated query and raises before the value is made. Nothing is guarded that cannot become large.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import ceil, log2

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.analysis.limits.growth import TIMES
from sql.analysis.limits.guards import call, double, guard_call, guard_made, number, size_of, wide, written_as
from sql.analysis.limits.long_rows import bound_exponents, bound_pairs
from sql.analysis.limits.sequences import MOST_ELEMENTS, bound_sequence
from sql.analysis.limits.spelled import SECONDS, arguments_of, in_lambda, literal_number, literal_size, number_of
from sql.analysis.limits.weights import BY_COUNT, ELEMENT, MOST_FORMAT, Weights, name_of

MOST_BYTES = 32 << 20
"""Of one value that a function makes."""
MOST_BYTES_OF_STATEMENT = 2 * MOST_BYTES
"""Of all that functions make of literals."""
MOST_BYTES_IN_LAMBDA = 64 << 10
"""Of one that is made for each element of an array."""
_MOST_DIGITS = 100_000
"""Characters of a text of literals that becomes a DECIMAL while Spark plans: what Java takes for it grows with their square, to 0.1 s."""
MOST_WORDS = 100_000
"""That writing out what inner queries name may add to a condition."""
MOST_WORDS_OF_STATEMENT = 2 * MOST_WORDS
"""To all conditions of a statement."""
MOST_WINDOWS = 10_000
"""That a row may be in."""
_MOST_OF_GROUP = 1 << 20
"""Bytes of one sketch, of which a task holds 128 before it sorts."""
_MOST_BINS = 10_000
_LEAST_RSD = 0.003
_MOST_SCALE = 1000
_SMALL = 16
"""Bytes that replacing or joining may put in the place of one without a guard."""
_LOOKED_AT = frozenset({"split", "regexp_extract_all", "sentences", "str_to_map", "from_json", "from_csv", "from_xml", "json_object_keys"})
"""Functions that make many objects of one text: their argument is looked at, where others' value is."""
_COUNTED = frozenset({"repeat", "array_repeat", "space", "lpad", "rpad", "randstr", "format_number", "sequence"})
"""Functions whose guard bounds what they make, whatever they are given."""
_DIGITS = re.compile(r"\d+")
_WIDTH = re.compile(r"\d{5,}")
_COUNT = re.compile(r"\d{1,18}(\.\d{1,9})?")


def bound_values(tree: exp.Expr) -> None:
    """Put guards into Spark's tree, in place; raises `UnsupportedStatement` where a literal alone is too much."""
    weights = Weights(tree, MOST_BYTES, MOST_BYTES_IN_LAMBDA)
    if weights.most_copied > MOST_WORDS or weights.copied > MOST_WORDS_OF_STATEMENT:
        raise UnsupportedStatement(
            "With what inner queries name written out at each mention, as Spark does to filter early, a condition, a struct or what is "
            f"made of literals in the statement would have more than {MOST_WORDS} words more, or all of them together more than "
            f"{MOST_WORDS_OF_STATEMENT}: mention such a column less often, filter in the query that reads the table, or write the inner "
            "query's rows into a table."
        )
    for cast in tree.find_all(exp.Cast):
        operand = weights.of(cast.this)
        if cast.to.this == exp.DType.DECIMAL and operand.constant and operand.made > _MOST_DIGITS:
            says = f"A text that may have more than {_MOST_DIGITS} characters is not read as a DECIMAL."
            raise UnsupportedStatement(says, fragment="CAST")
    for node in reversed(list(tree.find_all(exp.Anonymous, exp.DPipe, exp.Concat, exp.Transform))):  # inner ones first
        name, most, weight = name_of(node) or "", _most(node), weights.of(node)
        if isinstance(node, exp.Anonymous) and (limit := _LIMITS.get(name)):
            limit(node)
        if not weights.is_large(node) or name in _COUNTED:
            continue
        if weight.constant and weight.made > most:
            raise _too_much(name, most)
        if name in _LOOKED_AT and isinstance(node, exp.Anonymous):
            guard_call(node, [0], partial(_is_larger, most // TIMES[name]), _says(name, most), at=0)
        else:
            guard_made(node, partial(_is_larger, most), _says(name, most))
    if weights.made > MOST_BYTES_OF_STATEMENT:
        raise UnsupportedStatement(
            f"The functions of literals in the statement would make more than {MOST_BYTES_OF_STATEMENT} bytes together, the most of a "
            "statement: Spark computes them while it plans, and keeps them. Write such values into a table, or make fewer."
        )


def _is_larger(most: int, value: exp.Expr) -> exp.Expr:
    return exp.GT(this=size_of(value), expression=number(most))


def _most(node: exp.Expr) -> int:
    return MOST_BYTES_IN_LAMBDA if in_lambda(node) else MOST_BYTES


def _says(name: str, most: int, what: str = "bytes") -> str:
    return f"{name} would make a value of more than {most} {what}, the most a function makes here."


def _too_much(name: str, most: int, what: str = "bytes") -> UnsupportedStatement:
    return UnsupportedStatement(_says(name, most, what), fragment=name)


# One limit for each kind of call


def _by_count(node: exp.Anonymous, *, unit: int | None = None, most: int | None = None, what: str = "bytes") -> None:
    """One argument says how many (`BY_COUNT`), of the size of the argument ``unit`` each or of one byte."""
    name, count = written_as(node), BY_COUNT[node.name.lower()]
    arguments = arguments_of(node, max(count, unit or 0) + 1)
    if arguments is None:
        return
    limit = min(most or _most(node), _most(node))
    times = literal_number(arguments[count])
    least = ELEMENT if node.name.lower() == "array_repeat" else 1
    each = 1 if unit is None else literal_size(arguments[unit])
    if times is not None and each is not None:
        if abs(times) * max(each, least) > limit:
            raise _too_much(name, limit, what)
        return

    def many(count: exp.Expr, unit: exp.Expr | None = None) -> exp.Expr:
        size = double(count)
        if unit is not None:
            size = exp.Mul(this=size, expression=exp.Paren(this=call("greatest", size_of(unit), number(least))))
        return exp.GT(this=call("abs", size), expression=number(limit))

    guard_call(node, [count] if unit is None else [count, unit], many, _says(name, limit, what), at=count)


def _by_replacing(node: exp.Anonymous, *, by: int, pattern: int | None) -> None:
    """What is put in the place of each occurrence makes the value grow."""
    name = node.name
    arguments = arguments_of(node, by + 1)
    if arguments is None:
        return
    size = literal_size(arguments[by])
    if size is not None and size <= _SMALL:
        return
    limit = _most(node)

    def large(text: exp.Expr, by: exp.Expr, pattern: exp.Expr | None = None) -> exp.Expr:
        whole: exp.Expr = exp.Mul(this=size_of(text), expression=size_of(by))
        if pattern is not None:
            whole = exp.Div(this=whole, expression=call("greatest", size_of(pattern), number(1)))
        return exp.GT(this=whole, expression=number(limit))

    guard_call(node, [0, by] if pattern is None else [0, by, pattern], large, _says(name, limit), at=by)


def _by_joining(node: exp.Anonymous) -> None:
    """The separator, and what stands for NULL, come once for each element."""
    arguments = arguments_of(node, 2)
    if arguments is None:
        return
    sizes = [literal_size(argument) for argument in arguments[1:3]]
    if all(size is not None and size <= _SMALL for size in sizes):
        return
    limit = _most(node)

    def large(values: exp.Expr, separator: exp.Expr, null: exp.Expr | None = None) -> exp.Expr:
        each = size_of(separator)
        if null is not None:
            each = exp.Paren(this=exp.Add(this=each, expression=size_of(null)))
        return exp.GT(this=exp.Mul(this=wide(call("size", values.copy())), expression=each), expression=number(limit))

    guard_call(node, range(len(arguments[:3])), large, _says(node.name, limit), at=1)


def _by_separator(node: exp.Anonymous) -> None:
    if len(node.expressions) > 1 and (literal_size(node.expressions[1]) or _SMALL**3) > _SMALL**2:
        raise UnsupportedStatement(f"{node.name} takes a literal of at most {_SMALL**2} bytes between the values.", fragment=node.name)


def _format(node: exp.Anonymous) -> None:
    """A width such as ``%2000000000d``."""
    arguments = arguments_of(node, 1)
    if arguments is None:
        return
    says = f"{node.name} takes widths of at most 9999, and a text of at most {MOST_FORMAT} bytes where it is no literal."
    if isinstance(arguments[0], exp.Literal):
        widths = [int(width[:8]) for width in _DIGITS.findall(arguments[0].name)]
        if _WIDTH.search(arguments[0].name) or sum(widths) > _most(node):
            raise UnsupportedStatement(says, fragment=node.name)
        return

    def wide(form: exp.Expr) -> exp.Expr:
        # So short a text can not ask for more than a value may have, with a width in every five of its bytes.
        long = exp.GT(this=size_of(form), expression=number(MOST_FORMAT))
        return exp.Or(this=call("regexp_like", form.copy(), exp.Literal.string("[0-9]{5}")), expression=long)

    guard_call(node, [0], wide, says, at=0)


def _sketch(node: exp.Anonymous) -> None:
    """``count_min_sketch(column, eps, confidence, seed)`` takes memory by one over eps."""
    arguments = arguments_of(node, 3) or []
    eps, confidence = (literal_number(argument) for argument in arguments[1:3]) if arguments else (1.0, 0.5)
    if eps is None or confidence is None or eps < 1e-5 or not 0 < confidence <= 0.9999:
        raise UnsupportedStatement(
            "count_min_sketch takes an eps of at least 0.00001 and a confidence of at most 0.9999.", fragment=node.name
        )
    select = node.find_ancestor(exp.Select)
    size = 8 * ceil(2 / eps) * ceil(-log2(1 - confidence))
    if select is not None and select.args.get("group") is not None and size > _MOST_OF_GROUP:
        raise UnsupportedStatement(
            f"count_min_sketch would take {size} bytes for each group: with GROUP BY it takes at most {_MOST_OF_GROUP}, as with an eps of "
            "0.001 and a confidence of 0.99.",
            fragment=node.name,
        )


def _bins(node: exp.Anonymous) -> None:
    """``histogram_numeric(column, bins)`` moves all bins with each row."""
    bins = literal_number(node.expressions[1]) if len(node.expressions) > 1 else 0
    if bins is None or bins > _MOST_BINS:
        raise UnsupportedStatement(f"{node.name} takes a number of bins of at most {_MOST_BINS}, as a literal.", fragment=node.name)


def _registers(node: exp.Anonymous) -> None:
    """``approx_count_distinct(column, rsd)`` takes memory by one over the square of rsd, while it is analysed."""
    if len(node.expressions) > 1 and not (literal_number(node.expressions[1]) or 0) >= _LEAST_RSD:
        raise UnsupportedStatement(f"{node.name} takes a deviation of at least {_LEAST_RSD}, as a literal.", fragment=node.name)


def _digits(node: exp.Anonymous) -> None:
    """``round(value, scale)``: Java writes out as many digits."""
    scale = number_of(node.expressions[1]) if len(node.expressions) > 1 else 0
    if scale is None or abs(scale) > _MOST_SCALE:
        raise UnsupportedStatement(
            f"{node.name} takes a number of digits between -{_MOST_SCALE} and {_MOST_SCALE}, as a literal.", fragment=node.name
        )


def _windows(node: exp.Anonymous) -> None:
    """``window(time, size, slide)``: Spark makes an expression of each window a row can be in."""
    arguments = arguments_of(node, 3)
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
        scale = SECONDS.get(unit.removesuffix("S"))
        if scale is None or not _COUNT.fullmatch(value):
            return None
        seconds += float(value) * scale
    return seconds


def _rows(node: exp.Anonymous) -> None:
    count = literal_number(node.expressions[0]) if node.expressions else 0
    if count is None or count > max(len(node.expressions), 10_000):
        raise UnsupportedStatement("stack takes the number of rows as a literal of at most 10000.", fragment=node.name)


def _by_product(node: exp.Anonymous) -> None:
    """What compares each character of one text with each of another."""
    arguments = arguments_of(node, 2)
    if arguments is None or any(isinstance(argument, exp.Literal) and len(argument.name) < 1000 for argument in arguments[:2]):
        return

    def many(left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return exp.GT(this=exp.Mul(this=size_of(left), expression=size_of(right)), expression=number(1e8))

    guard_call(node, [0, 1], many, f"{node.name} compares texts of at most 100 million pairs of characters.", at=0)


_LIMITS: dict[str, Callable[[exp.Anonymous], None]] = {
    "repeat": partial(_by_count, unit=0),
    "array_repeat": partial(_by_count, unit=0),
    **dict.fromkeys(("space", "randstr", "lpad", "rpad"), _by_count),
    "format_number": partial(_by_count, most=1000, what="digits"),
    "array_insert": partial(_by_count, most=MOST_ELEMENTS, what="elements"),
    "replace": partial(_by_replacing, by=2, pattern=1),
    "regexp_replace": partial(_by_replacing, by=2, pattern=None),
    "array_join": _by_joining,
    **dict.fromkeys(("listagg", "string_agg"), _by_separator),
    "sequence": bound_sequence,
    **dict.fromkeys(("format_string", "printf"), _format),
    "count_min_sketch": _sketch,
    "histogram_numeric": _bins,
    **dict.fromkeys(("from_json", "from_csv", "from_xml"), bound_exponents),
    **dict.fromkeys(("array_distinct", "array_union", "array_intersect", "array_except", "arrays_overlap", "map_zip_with"), bound_pairs),
    "approx_count_distinct": _registers,
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor"), _digits),
    "window": _windows,
    "stack": _rows,
    **dict.fromkeys(("levenshtein", "jaro_winkler_similarity"), _by_product),
}
