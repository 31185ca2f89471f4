"""What a copy says of each backup whose files it has: that all were copied, how far consumers were then, and what directories held.

One copy serves several backups, and the files of consumers, and of tables whose rows are files of any kind, change from one to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.backup.archive_parts import PartTable
from lake.register.copied.contents import Contents
from table.format.consumers import read_consumers, write_consumer
from table.format.io.copying import Content
from table.format.io.file_io import FileIO, file_io_for
from table.format.json_document import parse_json
from table.format.store import TableFiles

Consumers = Mapping[str, Mapping[str, Mapping[str, int]]]
"""The next snapshot by table's id, branch and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord:
    """What a copy says of a backup."""

    consumers: Consumers
    contents: Contents | None
    """Files of tables whose rows are files of any kind; None in records of before these were told.

    A table of that kind that is not in it could not be copied.
    """


def write_record(place: str, backup_id: str, record: CopyRecord) -> None:
    """Note in a copy that it has all of a backup."""
    body = {"consumers": record.consumers, "contents": record.contents}
    file_io_for(place).write(_path(place, backup_id), json.dumps(body).encode())


def read_record(place: str, backup_id: str) -> CopyRecord | None:
    """What the copy says of a backup; None where it does not have all of it."""
    try:
        body = parse_json(file_io_for(place).read(_path(place, backup_id)))
        consumers: Consumers = body["consumers"]
        stored = body.get("contents")
        contents = None if stored is None else {table: dict(map(_content, names.items())) for table, names in stored.items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return CopyRecord(consumers=consumers, contents=contents)


def _content(told: tuple[str, Sequence[Any] | None]) -> tuple[str, Content | None]:
    name, content = told
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(name)
    if content is None:
        return name, None
    digest, size = content
    if not str(digest).isalnum():
        raise ValueError(name)
    return name, (str(digest), int(size))


def _path(place: str, backup_id: str) -> str:
    return f"{place.rstrip('/')}/_backups/{backup_id}.json"


def consumers_of(table: PartTable, location: str, io: FileIO) -> dict[str, dict[str, int]]:
    """How far the consumers of a table's branches are whose files lie at a place, as far as the backup's snapshots go.

    The files may be of a moment after the catalog's, even of a later backup: a consumer goes on from the earlier of what both tell,
    and what it reads twice then it would else have passed over.
    """
    consumers = {}
    for branch in table.schemas:
        end = max((int(body["id"]) for body in table.snapshots.get(branch, ())), default=0) + 1
        rows = table.consumers.get(branch, {})
        filed = read_consumers(TableFiles(io, location, branch))
        consumers[branch] = {one.name: min(one.next_snapshot, rows.get(one.name, end), end) for one in filed}
    return consumers


def consumers_told(table: PartTable) -> dict[str, dict[str, int]]:
    """The same of those that the backup itself tells, where their files cannot be asked."""
    consumers = {}
    for branch in table.schemas:
        end = max((int(body["id"]) for body in table.snapshots.get(branch, ())), default=0) + 1
        consumers[branch] = {name: min(following, end) for name, following in table.consumers.get(branch, {}).items()}
    return consumers


def put_back(consumers: Mapping[str, Mapping[str, int]], location: str, io: FileIO) -> int:
    """Write the files of consumers that have none; returns how many."""
    written = 0
    for branch, names in consumers.items():
        files = TableFiles(io, location, branch)
        there = {consumer.name for consumer in read_consumers(files)}
        for name, following in names.items():
            if name not in there:
                write_consumer(files, name, following, restored=True)
                written += 1
    return written
