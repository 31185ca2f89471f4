"""Texts of values in CSV, of which Arrow reads more than others write: Flink's converter refuses them, or takes them for something else."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NUMBERS_OF_BOOLEANS = ("0", "1")
"""1 is FALSE to Flink, as all that is not spelled true."""


def first_unlike(texts: pa.Array, values: pa.Array) -> int | None:
    """The place of the first text that does not spell the value Arrow has made of it; None where there is none.

    As a number for a BOOLEAN, and hexadecimal digits. ``inf`` and ``nan``, as Python writes them, can mean nothing else, and are taken.
    """
    if pa.types.is_boolean(values.type):
        unlike = pc.is_in(texts, value_set=pa.array(_NUMBERS_OF_BOOLEANS, texts.type))
    elif pa.types.is_integer(values.type):
        unlike = pc.or_(pc.match_substring(texts, "x"), pc.match_substring(texts, "X"))
    else:
        return None
    place = int(pc.index(unlike, True).as_py())
    return None if place < 0 else place
