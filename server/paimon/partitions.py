"""Partitions of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog.listing import Slice
from catalog.records import PartitionRow
from lake import Lake, LakeTable
from model.errors import BadRequest
from model.options.masking import masked_all
from server.paimon.messages.snapshots import statistics
from server.paimon.messages.wire import millis, object_name, specs
from server.paimon.paging import like, max_results, one_more, page, slice_of
from server.paimon.routes import body, lake, route
from server.sql.bodies import member

_MOST_NAMES = 1000


@route("GET", "databases/{}/tables/{}/partitions")
def list_partitions(database: str, table: str) -> object:
    """With what they hold, in pages."""
    here, wanted = lake(), slice_of("partitionNamePattern")
    opened = here.open_any(object_name(database, table))
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
    opened = here.open_any(object_name(database, table))
    return page("partitions", _told(here, opened, here.partition_page(opened, one_more(wanted))), wanted, lambda row: row.name, _json)


@route("POST", "databases/{}/tables/{}/partitions/list-by-names")
def list_partitions_by_names(database: str, table: str) -> object:
    """Those of the given ones that exist."""
    wanted = specs(body(), "specs")
    if len(wanted) > _MOST_NAMES:
        raise BadRequest(f"The request names {len(wanted)} partitions; at most {_MOST_NAMES} are answered at once.")
    here = lake()
    opened = here.open_any(object_name(database, table))
    return {"partitions": [_json(row) for row in _told(here, opened, here.partitions_named(opened, wanted))]}


@route("POST", "databases/{}/tables/{}/partitions")
def create_partitions(database: str, table: str) -> object:
    """Add partitions by name; without ``ignoreIfExists`` all or none."""
    sent = body()
    here = lake()
    created, existed = here.create_partitions(
        here.open_any(object_name(database, table)),
        specs(sent, "partitionSpecs"),
        ignore_existing=member(sent, "ignoreIfExists", bool) is not False,
        statistics=statistics(sent, "partitionStatistics"),
        replace_statistics=bool(member(sent, "replaceStatistics", bool)),
    )
    return {"created": created, "existed": existed}


@route("POST", "databases/{}/tables/{}/partitions/drop")
def drop_partitions(database: str, table: str) -> object:
    """Remove partitions with their rows."""
    sent = body()
    here = lake()
    dropped, missing = here.drop_partitions(
        here.open_any(object_name(database, table)),
        specs(sent, "partitionSpecs"),
        ignore_missing=member(sent, "ignoreIfNotExists", bool) is not False,
    )
    return {"dropped": dropped, "missing": missing}


@route("POST", "databases/{}/tables/{}/partitions/mark")
def mark_partitions(database: str, table: str) -> None:
    """Say that partitions are complete."""
    here = lake()
    here.mark_partitions_done(here.open_any(object_name(database, table)), specs(body(), "specs"))


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
        "lastFileCreationTime": row.last_file_millis,
        "totalBuckets": row.total_buckets,
        "done": row.done,
        "createdAt": millis(row.created_at),
        "createdBy": row.created_by,
        "updatedAt": millis(row.updated_at),
        "updatedBy": row.updated_by,
        "options": None if row.options is None else masked_all(row.options),
    }
