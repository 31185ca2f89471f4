"""A version of a schema as the bytes of its file, and how the file comes to be there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from model.errors import UnsupportedType
from model.schema.schema import Schema
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json, parse_to_keep
from table.format.snapshot_file import Published

NO_SCHEMA = (ValueError, KeyError, TypeError, AttributeError, UnsupportedType)
"""What reading a schema raises of bytes that tell none, or one of types that there are not."""


def schema_bytes(body: Mapping[str, Any]) -> bytes:
    """The file, as Paimon writes it."""
    return json.dumps(body, indent=2, ensure_ascii=False).encode()


def made_millis(document: Any) -> int:
    """When a version was made, in milliseconds since 1970, as its file's document tells; 0 where that is so old that it does not.

    One of types that there are not here, as in a newer version, is a schema all the same. Raises one of `NO_SCHEMA` for none.
    """
    try:
        return Schema.from_json(document).time_millis
    except UnsupportedType:
        return int(document.get("timeMillis") or 0)


def schema_told(document: Any, path: str) -> Schema:
    """The schema of a file's document; raises one of `NO_SCHEMA`, an `UnsupportedType` with the file's name."""
    try:
        return Schema.from_json(document)
    except UnsupportedType as problem:
        raise UnsupportedType(f"{path} has a type of a newer version or another program. {problem.message}") from None


def read_schema_file(path: str, io: FileIO) -> Schema | None:
    """The schema that a file tells; None where there is none, or one that tells none, as what a power cut tore.

    Raises `UnsupportedType` for one of types that there are not here.
    """
    try:
        return schema_told(parse_to_keep(io.read(path)), path)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def tells_schema(schema_id: int, path: str, io: FileIO) -> bool:
    """Whether a file tells a schema of a number, be it one of types that there are not here, as in a newer version."""
    try:
        document = parse_to_keep(io.read(path))
        made_millis(document)
        return int(document["id"]) == schema_id
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return False


def publish_schema(schema: Schema, path: str, io: FileIO) -> Published:
    """Put a version's file there, durably; one that is there already is the same or another's. One that a power cut tore is replaced."""
    data = schema_bytes(schema.to_json())
    if io.create(path, data):
        return Published.WRITTEN
    try:
        document = parse_json(io.read(path))
    except (FileNotFoundError, ValueError):
        io.write(path, data)
        return Published.WRITTEN
    try:
        is_ours = Schema.from_json(document) == Schema.from_json(schema.to_json())
    except NO_SCHEMA:  # not ours
        is_ours = False
    return Published.THERE if is_ours else Published.FOREIGN
