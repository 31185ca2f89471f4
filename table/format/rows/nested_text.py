"""Texts that stand for ARRAYs, MAPs and ROWs, as Paimon reads them in a column's default (`StringToArrayCastRule` and its like)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from model.schema.types import ArrayType, DataType, MapType, RowType

_ARRAY = re.compile(r"\[(.*)\]|ARRAY\s*\((.*)\)", re.IGNORECASE)
_MAP = re.compile(r"\{(.*)\}|(MAP)\s*\((.*)\)", re.IGNORECASE)
_ROW = re.compile(r"\{(.*)\}|STRUCT\s*\((.*)\)", re.IGNORECASE)

Leaf = Callable[[str, DataType], Any]
"""What a text inside is as a value of a simple type."""


def nested_value(text: str, type_: DataType, leaf: Leaf) -> Any:
    """The text as what Arrow takes for a value of the type; raises `ValueError` for one that is none."""
    text = text.strip()
    match type_:
        case ArrayType(element=element):
            return [_inside(part, element, leaf) for part in _parts(_content(_ARRAY, text))]
        case MapType(key=key, value=value):
            if text.upper() == "NULL":
                return None
            pairs = {_inside(one, key, leaf): _inside(other, value, leaf) for one, other in _entries(text)}
            return list(pairs.items())
        case RowType(fields=fields):
            parts = _parts(_content(_ROW, text))
            if not parts:
                return {field.name: None for field in fields}
            if len(parts) != len(fields):
                raise ValueError(f"{len(parts)} values for {len(fields)} fields")
            return {field.name: _inside(part, field.type, leaf) for field, part in zip(fields, parts, strict=True)}
    return leaf(text, type_)


def _inside(text: str, type_: DataType, leaf: Leaf) -> Any:
    text = text.strip()
    return None if text == "null" else nested_value(text, type_, leaf)


def _content(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} has no brackets")
    return next(group for group in match.groups() if group is not None).strip()


def _entries(text: str) -> list[tuple[str, str]]:
    """The keys and values of ``{k -> v}`` or ``MAP(k, v)``; quotes and escapes around them go, as they do at Paimon."""
    match = _MAP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} has no brackets")
    if match[2] is not None:
        parts = [part.strip() for part in _parts(match[3].strip(), quotes=False)]
        if len(parts) % 2:
            raise ValueError("a key has no value")
        return list(zip(parts[::2], parts[1::2], strict=True))
    entries = []
    for part in _parts(match[1].strip(), quotes=False):
        arrow = part.find("->", 1)
        key, value = part[: max(arrow, 0)].strip(), part[arrow + 2 :].strip()
        if arrow < 0 or not key or not value:
            raise ValueError(f"{part!r} has no key, no -> or no value")
        entries.append((key, value))
    return entries


def _parts(content: str, *, quotes: bool = True) -> list[str]:
    """What commas part, outside of quotes and inner brackets; ``quotes``: whether quotes and escapes stay in the parts."""
    parts, current, depth = [], "", 0
    quoted = escaped = False
    for char in content:
        special = True
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        else:
            special = False
            if not quoted and char in "[{(":
                depth += 1
            elif not quoted and char in "]})":
                depth = max(0, depth - 1)
            elif not quoted and char == "," and not depth:
                parts.append(current)
                current = ""
                continue
        if quotes or not special:
            current += char
    return [part for part in [*parts, current] if part]
