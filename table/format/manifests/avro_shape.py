"""Whether a manifest, list or index manifest is laid out as all readers of Paimon's take it.

We read fields by their names. Java reads them by their places and exact types, so that a file with others is none to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from table.format.manifests.avro_name import header_value
from table.format.manifests.codec import MANIFEST_LIST_SCHEMA, MANIFEST_SCHEMA

_CODECS = frozenset({b"null", b"deflate", b"snappy", b"zstandard"})
"""What every reader unpacks."""
_MOST_KEPT_BYTES = 64 << 10
"""Of a schema's text; Paimon's have some thousand."""
_VECTORS = {
    "type": "record",
    "name": "record__DELETIONS_VECTORS_RANGES",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        {"name": "_CARDINALITY", "type": ["null", "long"]},
    ],
}
INDEX_MANIFEST_SCHEMA = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": "_DELETIONS_VECTORS_RANGES", "type": ["null", {"type": "array", "items": _VECTORS}]},
        {"name": "_EXTERNAL_PATH", "type": ["null", "string"]},
    ],
}
_SHAPES: Mapping[str, Any] = {"manifest": MANIFEST_SCHEMA, "list": MANIFEST_LIST_SCHEMA, "index": INDEX_MANIFEST_SCHEMA}


def shape_fault(data: bytes, kind: str) -> str | None:
    """What is wrong with the layout of a file that is to be a ``manifest``, a ``list`` of such, or an ``index`` manifest."""
    codec = header_value(data, "avro.codec")
    if codec is not None and codec not in _CODECS:
        return f"it is packed with {codec[:40].decode(errors='replace')}, which not all readers unpack"
    text = header_value(data, "avro.schema")
    return "it has no schema" if text is None else _fault_of_schema(text, kind)


def _fault_of_schema(text: bytes, kind: str) -> str | None:
    return (_known_fault if len(text) <= _MOST_KEPT_BYTES else _known_fault.__wrapped__)(text, kind)


@lru_cache(maxsize=200)
def _known_fault(text: bytes, kind: str) -> str | None:
    """The same by the schema's text, of which each writer has one."""
    return _fault(json.loads(text), _SHAPES[kind], {}, "")


def _fault(written: Any, ours: Any, named: dict[str, Any], where: str) -> str | None:
    written, ours = _plain(written, named), _plain(ours, {})
    if isinstance(written, Mapping) and "name" in written:
        named[str(written["name"])] = written
    kind, wanted = _kind(written), _kind(ours)
    if kind != wanted:
        return f"its {where or 'record'} is of type {str(kind)[:40]}, and not {wanted}"
    if wanted == "array":
        return _fault(written["items"], ours["items"], named, where)
    return _fault_of_fields(written["fields"], ours["fields"], named, where) if wanted == "record" else None


def _fault_of_fields(written: Any, ours: Any, named: dict[str, Any], where: str) -> str | None:
    """Fields come in the order in which versions of Paimon added them; those that may be NULL are left out by some writers.

    As by older ones, and those between by pypaimon 1.4.
    """
    place = 0
    for field in ours:
        if place < len(written) and written[place]["name"] == field["name"]:
            if (problem := _fault(written[place]["type"], field["type"], named, field["name"])) is not None:
                return problem
            place += 1
        elif not isinstance(field["type"], list):
            there = f"is {str(written[place]['name'])[:40]}, and not" if place < len(written) else "is missing:"
            return f"field {place} of its {where or 'record'} {there} {field['name']}"
    strange = {one["name"] for one in written[place:]} & {field["name"] for field in ours}
    return f"{min(strange)} of its {where or 'record'} is out of order" if strange else None


def _plain(type_: Any, named: Mapping[str, Any]) -> Any:
    """A type without NULL, and the one that a name means; whether values may be NULL all readers go by what is written."""
    if isinstance(type_, list):
        others = [part for part in type_ if part != "null"]
        type_ = others[0] if len(others) == 1 else type_
    return named.get(type_, type_) if isinstance(type_, str) else type_


def _kind(type_: Any) -> Any:
    return type_.get("type") if isinstance(type_, Mapping) else type_
