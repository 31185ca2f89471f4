"""What casts to CHAR(n), VARCHAR(n), BINARY(n), VARBINARY(n) and TIMESTAMP(p) cut off and fill up, as Flink's do and Spark's do not."""

from __future__ import annotations

from sqlglot import exp

from model.errors import UnsupportedType
from model.schema.types import MAX_LENGTH
from model.text.whole_number import whole_number
from sql.analysis.limits.guards import call, call_for, named, number

TEXTS = frozenset({exp.DType.CHAR, exp.DType.VARCHAR})
BYTES = frozenset({exp.DType.BINARY, exp.DType.VARBINARY})
TIMESTAMPS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME})
_FILLED = frozenset({exp.DType.CHAR, exp.DType.BINARY})
TYPES_INSIDE = {exp.DType.ARRAY: 1, exp.DType.MAP: 2}
"""How many types an ARRAY or a MAP has inside."""
FINEST = 6
"""Digits of a second that are kept."""


def text_length(type_: exp.DataType) -> int | None:
    """The n of CHAR(n) and VARCHAR(n), 1 of CHAR; None for VARCHAR, which is STRING in casts, for the longest, and for other types.

    Raises `UnsupportedType` for a length that no text has.
    """
    if type_.this not in TEXTS:
        return None
    if not type_.expressions:
        return 1 if type_.this == exp.DType.CHAR else None
    return _length(type_, "a text has", "characters")


def _length(type_: exp.DataType, what: str, units: str) -> int | None:
    length = whole_number(type_.expressions[0].name, most=MAX_LENGTH)
    if not length or len(type_.expressions) > 1:
        raise UnsupportedType(f"There is no type {type_.sql()}; {what} 1 to {MAX_LENGTH} {units}.")
    return length if length < MAX_LENGTH else None


def cut_text(text: str, type_: exp.DataType) -> str:
    """A text as a cast to CHAR(n) or VARCHAR(n) makes it: of n characters at most, and of CHAR(n) filled up with spaces."""
    length = text_length(type_)
    if length is None:
        return text
    return text[:length].ljust(length) if type_.this == exp.DType.CHAR else text[:length]


def cut_to(value: exp.Expr, type_: exp.DataType, depth: int = 0) -> exp.Expr | None:
    """A value that Spark has cast to a type, cut as the type says, also inside ARRAY, MAP and ROW; None where nothing is to be cut.

    A map's keys have to differ when they are cast, and what is NOT NULL inside has to be something. The value stands in it once.
    Raises `UnsupportedType` for lengths and precisions that no value has, for a ROW whose fields have no names, and for an ARRAY
    or a MAP without the types inside.
    """
    kind = type_.this
    if kind in TEXTS or (kind in BYTES and type_.expressions):
        return _cut_length(value, type_)
    if kind in TIMESTAMPS:
        return _cut_time(value, type_)
    if not type_.args.get("nested"):
        return None
    if kind == exp.DType.STRUCT:
        return _cut_row(value, type_, depth)
    if len(type_.expressions) != TYPES_INSIDE.get(kind):
        raise UnsupportedType(f"There is no type {type_.sql('spark')}; there are ARRAY<t> and MAP<k, v>.")
    one, other = exp.to_identifier(f"__cut{depth}"), exp.to_identifier(f"__other{depth}")
    inside = [_part(one, part, depth, required=_is_required_element(part)) for part in type_.expressions]
    if kind == exp.DType.MAP:
        keys, values = inside
        # Also where nothing is cut: '1' and '01' are one INT, and Spark's cast alone would make a map that has this key twice.
        value = call("transform_keys", value, exp.Lambda(this=keys or one.copy(), expressions=[one.copy(), other.copy()]))
        return value if values is None else call("transform_values", value, exp.Lambda(this=values, expressions=[other, one]))
    return None if inside[0] is None else call("transform", value, exp.Lambda(this=inside[0], expressions=[one]))


def _part(value: exp.Expr, type_: exp.DataType, depth: int, *, required: bool) -> exp.Expr | None:
    """A part of a value, cut as its type says, or the error of a NULL where it is required; None where nothing is to be done."""
    cut = cut_to(value.copy(), type_, depth + 1)
    if not required:
        return cut
    says = f"A cast met NULL in what is {type_.sql('spark')} NOT NULL."
    return call("coalesce", cut or value.copy(), call("raise_error", exp.Literal.string(says)))


def _cut_length(value: exp.Expr, type_: exp.DataType) -> exp.Expr | None:
    """Of CHAR(n), VARCHAR(n), BINARY(n) or VARBINARY(n)."""
    is_text = type_.this in TEXTS
    length = text_length(type_) if is_text else _length(type_, "bytes are", "of them")
    if length is None:
        return None
    if type_.this in _FILLED:
        return call_for(type_.sql(), "rpad", value, number(length), *[exp.Literal.string(" ")] * is_text)  # bytes with zeros
    return call("left", value, number(length))


def _cut_row(value: exp.Expr, type_: exp.DataType, depth: int) -> exp.Expr | None:
    """The row's fields by their names: it is given a name first, since it would stand here once for each of them."""
    if not all(isinstance(field, exp.ColumnDef) for field in type_.expressions):
        raise UnsupportedType("The fields of a ROW need names in a cast, as in ROW<a INT>.")
    row = exp.to_identifier(f"__cut{depth}")
    parts = [exp.Dot(this=row.copy(), expression=exp.to_identifier(field.name, quoted=True)) for field in type_.expressions]
    inside = [_part(part, field.kind, depth, required=_is_required(field)) for part, field in zip(parts, type_.expressions, strict=True)]
    if not any(inside):
        return None
    names = [exp.Literal.string(field.name) for field in type_.expressions]
    fields = [one for name, cut, part in zip(names, inside, parts, strict=True) for one in (name, cut or part)]
    empty = exp.Is(this=row.copy(), expression=exp.Null())
    return named(value, call("if", empty, exp.Null(), call("named_struct", *fields)), row.name)


def _is_required(field: exp.ColumnDef) -> bool:
    """Whether a ROW's field is NOT NULL."""
    kinds = [constraint.kind for constraint in field.constraints]
    return any(isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null") for kind in kinds)


def has_required_element(type_: exp.DataType) -> bool:
    """Whether elements of an ARRAY or values of a MAP are NOT NULL somewhere inside a type."""
    return any(map(_is_required_element, type_.find_all(exp.DataType)))


def let_fields_be_null(type_: exp.DataType) -> None:
    """Take NOT NULL from the fields of a ROW, in place."""
    for field in type_.expressions if type_.this == exp.DType.STRUCT else ():
        if isinstance(field, exp.ColumnDef) and _is_required(field):
            field.set(
                "constraints",
                [constraint for constraint in field.constraints if not isinstance(constraint.kind, exp.NotNullColumnConstraint)],
            )


def _is_required_element(type_: exp.DataType) -> bool:
    """Whether an ARRAY's elements or a MAP's values are NOT NULL; its keys are always."""
    is_key = isinstance(type_.parent, exp.DataType) and type_.parent.this == exp.DType.MAP and type_.index == 0
    return type_.args.get("nullable") is False and not is_key


def precision(type_: exp.DataType) -> int | None:
    """The p of TIMESTAMP(p) and its like; None for other types, and without a number."""
    if type_.this not in TIMESTAMPS or not type_.expressions:
        return None
    return whole_number(type_.expressions[0].name)


def _cut_time(value: exp.Expr, type_: exp.DataType) -> exp.Expr | None:
    """On the clock: `date_trunc` would take a TIMESTAMP for an instant of the session's zone, where some clock times do not exist."""
    digits = precision(type_)
    if digits is None or digits == FINEST:
        return None
    if digits > FINEST:
        raise UnsupportedType(f"TIMESTAMP({digits}) is not available in a cast; precisions 0 to {FINEST} are.")
    smallest = exp.Interval(this=exp.Literal.string(f"{10**-digits:.{digits}f}"), unit=exp.var("SECOND"))
    return call("time_bucket", smallest, value)
