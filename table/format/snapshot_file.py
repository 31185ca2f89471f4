"""A snapshot as the bytes of its file, whether two are one, and how the file comes to be there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import orjson

from model.snapshot import Snapshot
from model.snapshot_numbers import fault_of_numbers
from table.format.io.directory import Directory
from table.format.json_document import parse_json


class Published(Enum):
    """What became of the file of a snapshot or schema."""

    WRITTEN = "written"
    THERE = "there"
    FOREIGN = "foreign"


_MOST_BYTES = 2_000
"""Of what the catalog looks for: an index of Postgres's holds no more."""


def stored_snapshot(body: Mapping[str, Any]) -> Snapshot:
    """The snapshot that a file tells; raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for what a catalog cannot hold."""
    snapshot = Snapshot.from_json(body)
    if max(len(text.encode()) for text in (snapshot.key, snapshot.commit_user)) > _MOST_BYTES:
        raise ValueError("the name of its commit or writer is longer than a catalog can look for")
    if (problem := fault_of_numbers(snapshot)) is not None:
        raise ValueError(problem)
    return snapshot


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    """The file, as Paimon writes it."""
    body = snapshot.to_json()
    try:
        return orjson.dumps(body, option=orjson.OPT_INDENT_2)
    except TypeError:  # a number of some client's that 64 bits do not hold
        return json.dumps(body, indent=2, ensure_ascii=False).encode()


def same_snapshot(first: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots of one id are the same commit: by uuid, or without one by delta manifest list."""
    if first.id != other.id:
        return False
    if first.uuid and other.uuid:
        return first.uuid == other.uuid
    return first.delta_manifest_list == other.delta_manifest_list


def publish(snapshot: Snapshot, name: str, place: Directory, *, free: bool) -> Published:
    """Put the decided snapshot's file there; one that is there already is the same, somebody else's, or what a crash left of one.

    No writer leaves a part of a file: what is no JSON object was torn by a loss of power, and is replaced. ``free``: none of that
    name was there just before the decision, after which only the decided one may be; stores are not asked again.
    """
    data = snapshot_bytes(snapshot)
    if free and not place.follows:
        place.write(name, data)
        return Published.WRITTEN
    if place.create(name, data):
        return Published.WRITTEN
    try:
        document = parse_json(place.read(name))
    except FileNotFoundError:  # gone again
        return Published.FOREIGN
    except ValueError:
        document = None
    if not isinstance(document, dict):
        place.write(name, data)
        return Published.WRITTEN
    try:
        present = Snapshot.from_json(document)
    except (ValueError, KeyError, TypeError, AttributeError):  # no snapshot: not ours
        return Published.FOREIGN
    return Published.THERE if same_snapshot(present, snapshot) else Published.FOREIGN
