"""Avro files and JSON documents that can be read and say something else: any member, at any depth, changed, doubled, left out."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro

from tests.fuzz.inputs import value

NUMBERS = (0, 1, -1, 2, 2**31 - 1, -(2**31), 2**31, 2**40, 2**63 - 1, -(2**63))
BYTES = (b"", b"\x00" * 12, b"\x00\x00\x00\x01" + b"\x00" * 16, b"\x7f\xff\xff\xff" * 4, b"\xff" * 40, b"\x00" * 4000)
_Place = tuple[Any, Any]
"""What holds a value, and its key or index there."""


def rewritten(rng: random.Random, data: bytes, names: Sequence[str]) -> bytes:
    """An Avro file with its records changed and its schema kept, so that whoever decodes it gets to the values."""
    reader = fastavro.reader(io.BytesIO(data))
    records = [dict(record) for record in reader if isinstance(record, dict)]
    for _ in range(rng.choice([1, 1, 2, 4])):
        _change_record(rng, records, names)
    made = io.BytesIO()
    codec = rng.choice([reader.metadata.get("avro.codec", "null"), "null", "deflate"])
    try:
        fastavro.writer(made, reader.writer_schema, records, codec=codec)
    except (ValueError, TypeError, OverflowError, AttributeError):  # a number its type cannot say, or a value of another type
        return data[: rng.randrange(len(data))]
    return made.getvalue()


def _change_record(rng: random.Random, records: list[dict[str, Any]], names: Sequence[str]) -> None:
    if not records:
        return
    at = rng.randrange(len(records))
    match rng.randrange(10):
        case 0:
            del records[at]
        case 1:
            records.append(copy.deepcopy(records[at]))
        case 2:
            records[at], records[0] = records[0], records[at]
        case _:
            members = list(places(records[at]))
            named = [place for place in members if "NAME" in str(place[1]) or "PATH" in str(place[1]) or "FILES" in str(place[1])]
            holder, key = rng.choice(named if named and rng.random() < 0.5 else members)
            holder[key] = _other(rng, key, holder[key], names)


def places(record: Any) -> Iterator[_Place]:
    """Every member, and every member of its members."""
    pairs = record.items() if isinstance(record, dict) else enumerate(record)
    for key, held in list(pairs):
        yield record, key
        if isinstance(held, dict | list):
            yield from places(held)


def _other(rng: random.Random, key: Any, held: Any, names: Sequence[str]) -> Any:
    """A value of the same kind that is not the right one."""
    if key in ("_EXTERNAL_PATH", "_FILE_NAME") or isinstance(held, str):
        return rng.choice(names)
    if key == "_EXTRA_FILES":
        return [rng.choice(names)]
    if isinstance(held, bool):
        return not held
    if isinstance(held, int):
        return rng.choice((*NUMBERS, held + 1, held - 1))
    if isinstance(held, bytes):
        return rng.choice((*BYTES, held[:-1], held[::-1]))
    if isinstance(held, list):
        return rng.choice(([], held * 2, held * 500))
    return rng.choice((None, 0, "", names[0], b"", [], {}))


def retold(rng: random.Random, document: Any, names: Sequence[str]) -> bytes:
    """A JSON document with a member at any depth changed, left out, or said twice with different values."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 2, 3])):
        members = list(places(changed))
        if not members:
            break
        holder, key = rng.choice(members)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(["id", "type", "name", "path", "class", "\x00", "é"])] = holder[key]
            case 2 | 3:
                holder[key] = rng.choice(names)
            case _:
                holder[key] = value(rng)
    text = json.dumps(changed)
    if rng.random() < 0.1 and text.startswith("{") and len(text) > 2:
        text = f'{{{text[1:-1]}, "id": {json.dumps(value(rng))}}}'
    return text.replace("Infinity", "1e999").encode("utf-8", "surrogatepass")
