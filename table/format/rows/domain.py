"""Whether values are such that their types have: whoever decodes a file takes any bits for a time, a decimal or a text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

FIRST_DAY, END_DAY = -12_687_428, 11_248_738
"""From the first day of the year -32767 to that after the last of 32767: beyond them no text of a day is made or read here."""
_DAY_SECONDS = 86_400
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}


def value_fault(array: pa.Array) -> str | None:
    """What of an array is no value of its type, in words; None where nothing is.

    Texts that are not UTF-8, decimals of more digits than their type's, times of more than a day or less than none, and days and
    moments of years that have no text; inside arrays, maps and rows as well.
    """
    try:
        array.validate(full=True)
    except pa.ArrowException as problem:
        return str(problem)
    return _moment_fault(array)


def _moment_fault(array: pa.Array) -> str | None:
    types, type_ = pa.types, array.type
    if types.is_struct(type_):
        return next((fault for child in array.flatten() if (fault := _moment_fault(child)) is not None), None)
    if types.is_map(type_):
        return _moment_fault(array.keys) or _moment_fault(array.items)
    if types.is_list(type_) or types.is_large_list(type_):
        return _moment_fault(array.flatten())
    if types.is_date32(type_):
        first, end, numbers = FIRST_DAY, END_DAY, array.view(pa.int32())
    elif types.is_timestamp(type_) and type_.unit != "ns":  # of which none reaches so far
        day = _DAY_SECONDS * _UNITS[type_.unit]
        first, end, numbers = FIRST_DAY * day, END_DAY * day, array.view(pa.int64())
    else:
        return None
    bounds = pc.min_max(numbers)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None or (first <= least and most < end):
        return None
    return f"{type_} {least if least < first else most} lies before the year -32767 or after 32767"
