"""Partitions of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from catalog.listing import Slice
from catalog.records import PartitionRow
from lake import Lake, LakeTable
from model.errors import BadRequest, NotImplementedHere, StatementTooLarge
from model.identifier import Identifier
from model.options.masking import masked_all
from model.options.table import TABLE_OPTIONS
from model.schema.schema import other_kind
from model.wall_clock import epoch_of_wall
from server.paimon.messages.snapshots import statistics
from server.paimon.messages.wire import millis, object_name, specs
from server.paimon.paging import like, max_results, one_more, page, slice_of
from server.paimon.routes import body, body_about, lake, route
from server.sql.bodies import member

_MOST_NAMES = 1000
_MOST_SPECS = 10_000
"""Of a request that changes partitions: one transaction writes them all."""


@route("GET", "databases/{}/tables/{}/partitions")
def list_partitions(database: str, table: str) -> object:
    """With what they hold, in pages."""
    here, wanted = lake(), slice_of("partitionNamePattern")
    opened = _listed(here, object_name(database, table))
    return page("partitions", _told(here, opened, here.partition_page(opened, one_more(wanted))), wanted, lambda row: row.name, _json)


@route("POST", "databases/{}/tables/{}/partitions/list-by-filter")
def list_partitions_by_filter(database: str, table: str) -> object:
    """A superset of what the filter keeps, which the protocol allows: the client filters what it gets."""
    sent = body()
    limit = member(sent, "maxResults", int)
    wanted = Slice(
        after=member(sent, "pageToken", str) or None,
        limit=max_results(None if limit is None else str(limit)),
        like=like(member(sent, "partitionNamePattern", str) or None),
    )
    here = lake()
    opened = _listed(here, object_name(database, table))
    return page("partitions", _told(here, opened, here.partition_page(opened, one_more(wanted))), wanted, lambda row: row.name, _json)


@route("POST", "databases/{}/tables/{}/partitions/list-by-names")
def list_partitions_by_names(database: str, table: str) -> object:
    """Those of the given ones that exist."""
    wanted = specs(body(), "specs")
    if len(wanted) > _MOST_NAMES:
        raise BadRequest(f"The request names {len(wanted)} partitions; at most {_MOST_NAMES} are answered at once.")
    here = lake()
    opened = _listed(here, object_name(database, table))
    return {"partitions": [_json(row) for row in _told(here, opened, here.partitions_named(opened, wanted))]}


@route("POST", "databases/{}/tables/{}/partitions")
def create_partitions(database: str, table: str) -> object:
    """Add partitions by name; without ``ignoreIfExists`` all or none."""
    name, here = object_name(database, table), lake()
    opened, sent = here.open_any(name), body_about(name)
    wanted, reported = _changed(sent, "partitionSpecs"), statistics(sent, "partitionStatistics")
    if len(reported) > _MOST_SPECS:
        raise _too_many(len(reported))
    created, existed = here.create_partitions(
        opened,
        wanted,
        ignore_existing=member(sent, "ignoreIfExists", bool) is not False,
        statistics=reported,
        replace_statistics=bool(member(sent, "replaceStatistics", bool)),
    )
    return {"created": created, "existed": existed}


@route("POST", "databases/{}/tables/{}/partitions/drop")
def drop_partitions(database: str, table: str) -> object:
    """Remove partitions with their rows."""
    name, here = object_name(database, table), lake()
    opened, sent = here.open_any(name), body_about(name)
    wanted = _changed(sent, "partitionSpecs")
    dropped, missing = here.drop_partitions(
        opened,
        wanted,
        ignore_missing=member(sent, "ignoreIfNotExists", bool) is not False,
    )
    return {"dropped": dropped, "missing": missing}


@route("POST", "databases/{}/tables/{}/partitions/mark")
def mark_partitions(database: str, table: str) -> None:
    """Say that partitions are complete."""
    name, here = object_name(database, table), lake()
    opened = here.open_any(name)
    here.mark_partitions_done(opened, _changed(body_about(name), "specs"))


def _changed(sent: dict[str, Any], name: str) -> list[dict[str, str]]:
    wanted = specs(sent, name)
    if len(wanted) > _MOST_SPECS:
        raise _too_many(len(wanted))
    return wanted


def _too_many(count: int) -> StatementTooLarge:
    return StatementTooLarge(f"The request tells of {count:,} partitions; at most {_MOST_SPECS:,} are changed at once. Send it in parts.")


def _listed(here: Lake, name: Identifier) -> LakeTable:
    """The table, whose partitions are the catalog's; raises `NotImplementedHere` where they are the directories that lie there.

    Then Java's client looks into the table's directory, as it does with no other answer: none would be an empty table to it.
    """
    table = here.open_any(name)
    kind, options = other_kind(table.schema.options), table.schema.options
    if kind not in (None, "materialized-table") and not TABLE_OPTIONS.read(options, "metastore.partitioned-table"):
        raise NotImplementedHere(
            f"The partitions of {name}, a {kind} without 'metastore.partitioned-table'='true', are the directories that lie in it; the "
            "catalog keeps no list of them."
        )
    return table


def _told(here: Lake, table: LakeTable, rows: Sequence[PartitionRow]) -> list[PartitionRow]:
    """The rows, done also where a client has left its marker in the partition's directory."""
    done = here.partitions_done(table, [row.spec for row in rows], rows)
    return [replace(row, done=is_done) for row, is_done in zip(rows, done, strict=True)]


def _json(row: PartitionRow) -> object:
    return {
        "spec": row.spec,
        "recordCount": row.record_count,
        "fileSizeInBytes": row.file_size,
        "fileCount": row.file_count,
        "lastFileCreationTime": row.last_file_millis and epoch_of_wall(row.last_file_millis),
        "totalBuckets": row.total_buckets,
        "done": row.done,
        "createdAt": millis(row.created_at),
        "createdBy": row.created_by,
        "updatedAt": millis(row.updated_at),
        "updatedBy": row.updated_by,
        "options": None if row.options is None else masked_all(row.options),
    }
