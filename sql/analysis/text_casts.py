"""CHAR(n) and VARCHAR(n) as casts take them: Flink's cut and fill up, where Spark's make a text of any length."""

from __future__ import annotations

from sqlglot import exp

from model.errors import UnsupportedType
from model.schema.types import MAX_LENGTH
from model.text.whole_number import whole_number

TEXTS = frozenset({exp.DType.CHAR, exp.DType.VARCHAR})


def text_length(type_: exp.DataType) -> int | None:
    """The n of CHAR(n) and VARCHAR(n), 1 of CHAR; None for VARCHAR, which is STRING in casts, for the longest, and for other types.

    Raises `UnsupportedType` for a length that no text has.
    """
    if type_.this not in TEXTS:
        return None
    if not type_.expressions:
        return 1 if type_.this == exp.DType.CHAR else None
    length = whole_number(type_.expressions[0].name, most=MAX_LENGTH)
    if not length or len(type_.expressions) > 1:
        raise UnsupportedType(f"There is no type {type_.sql()}; a text has 1 to {MAX_LENGTH} characters.")
    return length if length < MAX_LENGTH else None


def cut_text(text: str, type_: exp.DataType) -> str:
    """A text as a cast to CHAR(n) or VARCHAR(n) makes it: of n characters at most, and of CHAR(n) filled up with spaces."""
    length = text_length(type_)
    if length is None:
        return text
    return text[:length].ljust(length) if type_.this == exp.DType.CHAR else text[:length]
