"""JSON documents of a table's directory, which whoever may write there wrote."""

from __future__ import annotations

import json
import math
from typing import Any

from model.text.whole_number import LARGEST

_MOST_BYTES = 64 << 20
"""A schema of ten thousand columns takes two megabytes."""


def parse_json(data: bytes) -> Any:
    """What a document says; raises `ValueError` also for one nested deeper than Python goes, or that would fill the process."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has {len(data):,} bytes, of which at most {_MOST_BYTES:,} are read")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_to_keep(data: bytes) -> Any:
    """The same of what a catalog is to keep; raises `ValueError` also for what none can hold, nor Java read: NUL, half a character, NaN."""
    document = parse_json(data)
    values = [document]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str):
            if "\0" in value:
                raise ValueError("it holds a text with NUL")
            value.encode()  # raises for half of a character
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError(f"{value} is no number of JSON")
        elif value is not None and not -LARGEST - 1 <= value <= LARGEST:
            raise ValueError("it holds a number of more than 64 bits")
    return document
