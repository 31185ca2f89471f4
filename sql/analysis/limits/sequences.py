"""How many elements `sequence` makes: by numbers, by times and by dates without a step."""

from __future__ import annotations

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.analysis.limits.guards import call, double, guard_call, number
from sql.analysis.limits.spelled import SECONDS, arguments_of, in_lambda, literal_number

MOST_ELEMENTS = 1_000_000
MOST_IN_LAMBDA = 8192
_MONTH = 28 * 86400
_LONG = {"MONTH": _MONTH, "QUARTER": 3 * _MONTH, "YEAR": 12 * _MONTH}
"""Units whose length depends: the shortest they have."""
_MADE_SECONDS = (86400, 3600, 60, 1)
"""Of the arguments of `make_dt_interval`: days, hours, minutes, seconds."""


def bound_sequence(node: exp.Anonymous) -> None:
    """Raise for literals that ask for too many; guard what depends on rows."""
    arguments = arguments_of(node, 2)
    if arguments is None:
        return
    most = MOST_IN_LAMBDA if in_lambda(node) else MOST_ELEMENTS
    says = f"sequence would make a value of more than {most} elements, the most a function makes here."
    start, stop = (literal_number(bound) for bound in arguments[:2])
    step = literal_number(arguments[2]) if len(arguments) > 2 else 1.0
    if start is not None and stop is not None and step is not None:
        if step and abs(stop - start) / abs(step) > most:
            raise UnsupportedStatement(says, fragment="sequence")
        return
    if len(arguments) > 2:
        _check_step(arguments[2])
    guard_call(node, range(len(arguments[:3])), lambda *given: _reaches_far(most, *given), says, at=1)


def _unsigned(step: exp.Expr) -> exp.Expr:
    while isinstance(step, exp.Neg | exp.Paren):  # the sign says only which way
        step = step.this
    return step


def _check_step(step: exp.Expr) -> None:
    """Raise for a step that a guard could not look at."""
    unsigned = _unsigned(step)
    if isinstance(unsigned, exp.Interval):
        seconds_of(unsigned)
    elif _is_made(unsigned):
        _made_seconds(unsigned)
    elif literal_number(step) is None and not isinstance(step, exp.Column | exp.Cast | exp.Neg):
        raise UnsupportedStatement("sequence takes its step as a literal, such as 2 or INTERVAL '1' HOUR.", fragment="sequence")


def _reaches_far(most: int, start: exp.Expr, stop: exp.Expr, step: exp.Expr | None = None) -> exp.Expr:
    unsigned = _unsigned(step) if step is not None else number(1)
    if isinstance(unsigned, exp.Interval) or _is_made(unsigned):
        seconds = seconds_of(unsigned) if isinstance(unsigned, exp.Interval) else _made_seconds(unsigned)
        return _beyond(most, exp.Div(this=_span_of(start, stop), expression=exp.Literal.number(repr(seconds))))
    span: exp.Expr = exp.Paren(this=exp.Sub(this=double(stop), expression=double(start)))
    if step is not None:
        span = exp.Div(this=span, expression=call("nullif", double(step), number(0)))
    condition = _beyond(most, span)
    if step is None:
        # What is no number is a date, whose step is a day.
        days = exp.Div(this=_span_of(start, stop), expression=number(86400))
        condition = call("coalesce", condition, _beyond(most, days))
    elif literal_number(unsigned) is None:
        # An interval out of a column or a cast is no number, and the span would be NULL, which raises nothing.
        is_other = exp.Is(this=exp.Paren(this=double(unsigned)), expression=exp.Null())
        is_not_null = exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=unsigned.copy()), expression=exp.Null())))
        condition = call("coalesce", condition, exp.And(this=is_not_null, expression=exp.Paren(this=is_other)))
    return condition


def _beyond(most: int, span: exp.Expr) -> exp.Expr:
    return exp.GT(this=call("abs", span), expression=number(most))


def _span_of(start: exp.Expr, stop: exp.Expr) -> exp.Expr:
    """The seconds between two instants."""
    texts = [exp.Cast(this=bound.copy(), to=exp.DataType(this=exp.DType.TEXT)) for bound in (start, stop)]
    instants = [exp.TryCast(this=text, to=exp.DataType(this=exp.DType.TIMESTAMPLTZ), safe=True) for text in texts]
    start_seconds, stop_seconds = (call("unix_seconds", bound) for bound in instants)
    return exp.Paren(this=exp.Sub(this=stop_seconds, expression=start_seconds))


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


def seconds_of(interval: exp.Interval) -> float:
    """Of an interval of one unit; raises `UnsupportedStatement` for another."""
    unit = interval.args.get("unit")
    scale = (SECONDS | _LONG).get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    value = literal_number(interval.this) if interval.this is not None else None
    if scale is None or not value:
        raise UnsupportedStatement("sequence takes its step as a literal of one unit, such as INTERVAL '1' HOUR.", fragment="sequence")
    return scale * abs(value)
