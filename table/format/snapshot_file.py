"""A snapshot as the bytes of its file, and whether two are one."""

from __future__ import annotations

import json
from enum import Enum

import orjson

from model.snapshot import Snapshot


class Published(Enum):
    """What became of a snapshot file."""

    WRITTEN = "written"
    THERE = "there"
    FOREIGN = "foreign"


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
