"""What a copy says of each backup whose files it has: that all were copied, and how far consumers were then.

One copy serves several backups, and the files of consumers change from one to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from catalog.backup.archive_parts import PartTable
from table.format.consumers import read_consumers, write_consumer
from table.format.io.file_io import FileIO, file_io_for
from table.format.json_document import parse_json
from table.format.store import TableFiles

Consumers = Mapping[str, Mapping[str, Mapping[str, int]]]
"""The next snapshot by table's id, branch and name."""


def write_record(place: str, backup_id: str, consumers: Consumers) -> None:
    """Note in a copy that it has all of a backup."""
    file_io_for(place).write(_path(place, backup_id), json.dumps({"consumers": consumers}).encode())


def read_record(place: str, backup_id: str) -> Consumers | None:
    """How far consumers were; None where the copy does not have all of the backup."""
    try:
        consumers: Consumers = parse_json(file_io_for(place).read(_path(place, backup_id)))["consumers"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return consumers


def _path(place: str, backup_id: str) -> str:
    return f"{place.rstrip('/')}/_backups/{backup_id}.json"


def consumers_of(table: PartTable, location: str, io: FileIO) -> dict[str, dict[str, int]]:
    """How far the consumers of a table's branches are whose files lie at a place, as far as the backup's snapshots go.

    The files may be of a moment after the catalog's, even of a later backup: a consumer goes on from the earlier of what both tell,
    and what it reads twice then it would else have passed over.
    """
    found = {}
    for branch in table.schemas:
        end = max((int(body["id"]) for body in table.snapshots.get(branch, ())), default=0) + 1
        rows = table.consumers.get(branch, {})
        filed = read_consumers(TableFiles(io, location, branch))
        found[branch] = {one.name: min(one.next_snapshot, rows.get(one.name, end), end) for one in filed}
    return found


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
