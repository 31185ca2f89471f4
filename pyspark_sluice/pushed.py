"""Conditions that leave out partitions, buckets and files, as the JSON of an option: Spark has no such hook for streams."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from model.errors import InvalidOption
from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate

_TAGS: dict[str, Callable[[str], object]] = {
    "decimal": Decimal,
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "binary": base64.b64decode,
}


def predicate_text(predicate: Predicate) -> str:
    """The predicate as an option's text."""
    return json.dumps(_json(predicate))


def predicate_of(text: str | None) -> Predicate | None:
    """Read it back; raises `InvalidOption`."""
    if text is None:
        return None
    try:
        return _predicate(json.loads(text))
    except (ValueError, KeyError, TypeError, ArithmeticError) as problem:
        raise InvalidOption(f"Option 'filter' is no condition as this source writes them: {problem}.") from None


def _json(predicate: Predicate) -> dict[str, Any]:
    match predicate:
        case Compare():
            return {"column": predicate.column, "op": predicate.op.value, "value": _value(predicate.value)}
        case In():
            return {"column": predicate.column, "in": [_value(value) for value in predicate.values]}
        case IsNull():
            return {"column": predicate.column, "null": not predicate.negated}
        case And():
            return {"and": [_json(part) for part in predicate.parts]}
        case Or():
            return {"or": [_json(part) for part in predicate.parts]}


def _predicate(body: dict[str, Any]) -> Predicate:
    if "and" in body:
        return And(tuple(_predicate(part) for part in body["and"]))
    if "or" in body:
        return Or(tuple(_predicate(part) for part in body["or"]))
    if "in" in body:
        return In(body["column"], tuple(_read(value) for value in body["in"]))
    if "null" in body:
        return IsNull(body["column"], negated=not body["null"])
    return Compare(body["column"], Op(body["op"]), _read(body["value"]))


def _value(value: object) -> object:
    """Numbers, text and truth are JSON's; the rest carries its kind."""
    match value:
        case Decimal():
            return {"decimal": str(value)}
        case dt.datetime():
            return {"timestamp": value.isoformat()}
        case dt.date():
            return {"date": value.isoformat()}
        case bytes():
            return {"binary": base64.b64encode(value).decode()}
    return value


def _read(value: Any) -> object:
    if isinstance(value, dict):
        ((tag, text),) = value.items()
        return _TAGS[tag](text)
    return value
