"""Snapshot and tag files whose operation Paimon cannot parse are written again (`docs/decisions/snapshot-operations.md`).

Versions up to 0.1 wrote words of their own into ``operation``, and readers since Paimon 2.0 fail on a table that has one such file.
This is the one case in which the file of a decided snapshot is overwritten: the snapshot stays the same, its uuid and manifests too.
The file comes first and the row in Postgres after it: a row that still holds the old word is what is left to do, so whoever was killed
in between is followed by somebody who finds the file done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from model.snapshot import OPERATION, Operation, Snapshot
from table.format.json_document import parse_json
from table.format.store import TableFiles


def rewrite_operations(files: TableFiles, snapshots: Iterable[Snapshot]) -> None:
    """Write the files of those snapshots again whose operation only their properties may hold, where they still say otherwise."""
    for snapshot in snapshots:
        if OPERATION in snapshot.properties:
            rewrite_operation(files, files.layout.snapshot_file(snapshot.id), snapshot)


def rewrite_operation(files: TableFiles, path: str, snapshot: Snapshot) -> bool:
    """Write a snapshot's or tag's file again where its operation is none of Paimon's; False for one that is right, gone or another's."""
    try:
        body = parse_json(files.io.read(path))
        if not _told_otherwise(body):
            return False
        lying = Snapshot.from_json(body)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):  # expired, or no snapshot
        return False
    if lying.key != snapshot.key:
        return False
    files.io.write(path, json.dumps(lying.to_json(), indent=2, ensure_ascii=False).encode())
    return True


def _told_otherwise(body: dict[str, Any]) -> bool:
    return body.get("operation") is not None and body["operation"] not in Operation.__members__
