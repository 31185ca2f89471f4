"""Commits and partitions' statistics, from the protocol's JSON."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from lake import ClientCommit, Lake, LakeTable
from model.access import Access, table_resource
from model.errors import BadRequest, InvalidData
from model.partition import PartitionStatistics
from model.schema.lengths import MOST_NAME_BYTES, MOST_SNAPSHOT_BYTES
from model.snapshot import ANSWERS, BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from model.text.whole_number import signed_number
from model.wall_clock import wall_of_epoch
from server.paimon.messages.wire import reading
from server.sql.bodies import member

_COUNTS = ("totalRecordCount", "deltaRecordCount", "changelogRecordCount")
_NUMBERS = ("id", "schemaId", "timeMillis", "totalRecordCount", "deltaRecordCount")
_TEXTS = ("baseManifestList", "deltaManifestList", "commitUser", "commitKind")
_SIZES = ("baseManifestListSize", "deltaManifestListSize", "changelogManifestListSize")
_OPTIONAL_NUMBERS = ("version", "watermark", "nextRowId", "changelogRecordCount", *_SIZES)
_OF_ALL_ROWS = frozenset(("watermark", "nextRowId", *_SIZES))
_OPTIONAL_TEXTS = ("uuid", "changelogManifestList", "indexManifest", "statistics", "operation", "writerVersion")
_LARGEST = 2**63
_LATEST_VERSION = 3
"""Of a snapshot's layout, in Paimon 1.0 to master; what a later one means nobody here can judge."""


def tells_counts(lake: Lake, table: LakeTable) -> bool:
    """Whether a snapshot goes out with its counts: not to readers of a part, but to all who commit, as a commit must carry them on."""
    return lake.tells_counts(table) or lake.caller.may(Access.UPDATE, table_resource(table.identifier))


def snapshot_json(snapshot: Snapshot, *, told: bool) -> dict[str, Any]:
    """A snapshot for a client; counts it may not know are 0, since Paimon's readers know no snapshot without them.

    How far event time and the ids of rows have come is told by hidden rows, too, by sizes of lists how many files have some, and by what
    requests with a key were answered how many rows came.
    """
    body = dict(snapshot.to_json())
    if told:
        return body
    if ANSWERS in snapshot.properties:
        body["properties"] = {key: value for key, value in snapshot.properties.items() if key != ANSWERS}
    return {name: 0 if name in _COUNTS else value for name, value in body.items() if name not in _OF_ALL_ROWS}


def client_commit(body: dict[str, Any]) -> ClientCommit:
    """A commit; the snapshot is kept with all its members, known or not."""
    sent = member(body, "snapshot", dict, required=True)
    _check_members(sent)
    if sent["commitKind"] not in CommitKind.__members__:
        raise BadRequest(f"The commit kind {sent['commitKind']!r} is none of {', '.join(CommitKind)}.")
    fields = {key: value for key, value in sent.items() if value is not None}
    fields["commitIdentifier"] = identifier = _identifier(sent)
    if not sent["commitUser"] and identifier != BATCH_COMMIT_IDENTIFIER:  # Java's expire_partitions has no name, and needs none
        raise BadRequest("The member 'commitUser' of the snapshot is empty: a writer that numbers its commits has a name.")
    with reading("The snapshot"):
        snapshot = Snapshot.from_json(fields)
    table_id = member(body, "tableId", str)
    return ClientCommit(
        snapshot=snapshot,
        table_id=_uuid(table_id) if table_id is not None else None,
        base_given="baseSnapshotUuid" in body,
        base=member(body, "baseSnapshotUuid", str),
        identifier_decides=member(body, "identifierDecides", bool) or False,
        statistics=statistics(body, "statistics"),
    )


def _check_members(sent: dict[str, Any]) -> None:
    """Refuse what would be kept for good and could be read by nobody."""
    for name in (*_NUMBERS, *_OPTIONAL_NUMBERS):
        value = member(sent, name, int, required=name in _NUMBERS)
        if value is not None and not -_LARGEST <= value < _LARGEST:
            raise BadRequest(f"The member '{name}' of the snapshot does not fit 64 bits.")
    version = sent.get("version")
    if version is not None and not 1 <= version <= _LATEST_VERSION:
        raise BadRequest(f"The snapshot's 'version' is {version}; this server knows 1 to {_LATEST_VERSION}.")
    for name in (*_TEXTS, *_OPTIONAL_TEXTS):
        if member(sent, name, str, required=name in _TEXTS) == "" and name != "commitUser":
            raise BadRequest(f"The member '{name}' of the snapshot is empty.")
    properties = member(sent, "properties", dict) or {}
    if not all(isinstance(value, str) for value in properties.values()):
        raise BadRequest("The member 'properties' of the snapshot must be an object of strings.")
    _check_size(sent)


def _check_size(sent: dict[str, Any]) -> None:
    """Refuse a snapshot that every listing, every reader and Postgres would carry for as long as it lives."""
    user = len(sent["commitUser"].encode(errors="replace"))
    if user > MOST_NAME_BYTES:
        raise BadRequest(f"The snapshot's 'commitUser' is {user:,} bytes long; at most {MOST_NAME_BYTES} fit.")
    size = len(json.dumps(sent, separators=(",", ":")))
    if size > MOST_SNAPSHOT_BYTES:
        raise BadRequest(
            f"The snapshot is {size:,} bytes long; at most {MOST_SNAPSHOT_BYTES:,} fit. Keep 'properties' short, and larger facts in files."
        )


def _identifier(sent: dict[str, Any]) -> int:
    """A number; the protocol's description has it as text."""
    value = sent.get("commitIdentifier")
    if isinstance(value, str):
        value = signed_number(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value < _LARGEST:
        raise BadRequest("The member 'commitIdentifier' must be a whole number of 64 bits.")
    return value


def _uuid(text: str) -> UUID:
    """A table's id; one that none of our tables can have is that of no table."""
    try:
        return UUID(text)
    except ValueError:
        return UUID(int=0)


def statistics(body: dict[str, Any], name: str) -> tuple[PartitionStatistics, ...]:
    """What partitions gained; none is nothing."""
    partitions = []
    for entry in member(body, name, list) or []:
        if not isinstance(entry, dict):
            raise BadRequest(f"The member '{name}' must be a list of objects.")
        spec = member(entry, "spec", dict) or {}
        if not all(isinstance(value, str) or value is None for value in spec.values()):
            raise BadRequest(f"The specs of '{name}' must be objects of strings.")
        partitions.append(
            PartitionStatistics(
                spec={key: str(value) for key, value in spec.items()},
                record_count=_count(entry, "recordCount"),
                file_size=_count(entry, "fileSizeInBytes"),
                file_count=_count(entry, "fileCount"),
                last_file_millis=last if (last := _count(entry, "lastFileCreationTime")) <= 0 else wall_of_epoch(last),
                total_buckets=_count(entry, "totalBuckets", bits=31),
            )
        )
    return tuple(partitions)


def _count(body: dict[str, Any], name: str, *, bits: int = 62) -> int:
    value = member(body, name, int) or 0
    if not -(1 << bits) <= value < 1 << bits:
        raise InvalidData(f"The member '{name}' of the statistics is out of range.")
    return int(value)
