"""Consumers: how far each reader of a stream has come. The files are the truth; engines write them without asking."""

from __future__ import annotations

import json

from lake.names import check_name
from lake.table import LakeTable


def consumers(table: LakeTable) -> dict[str, int]:
    """Each consumer's next snapshot, by name; a file that cannot be read is no consumer."""
    found = {}
    for status in table.files.io.list(table.files.layout.consumer_dir()):
        name = status.path.rpartition("/")[2]
        if not name.startswith("consumer-"):
            continue
        try:
            found[name.removeprefix("consumer-")] = int(json.loads(table.files.io.read(status.path))["nextSnapshot"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            continue
    return dict(sorted(found.items()))


def reset_consumer(table: LakeTable, name: str, next_snapshot: int | None) -> None:
    """Let a consumer go on from a snapshot; None forgets it."""
    check_name(name, "consumer")
    path = table.files.layout.consumer_file(name)
    if next_snapshot is None:
        table.files.io.delete(path)
    else:
        table.files.io.write(path, json.dumps({"nextSnapshot": next_snapshot}).encode())
