"""Plain values of parameters as options and quoted literals spell them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any


class Misfit(Exception):
    """A value its type does not have; the message says what would do."""


def text(value: Any) -> str:
    """A plain value as an option or a quoted literal spells it; raises `Misfit` for one that has no such text."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case float():
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value)) or repr(value)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ") + "Z"
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date() | dt.time():
            return value.isoformat()
    raise Misfit("a string, a number, a boolean, a date or a time here")
