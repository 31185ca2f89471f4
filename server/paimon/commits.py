"""Snapshots of the protocol: committed, listed, and gone back to."""

from __future__ import annotations

import math
from dataclasses import replace

from flask import request

from lake.commit.clients.judgement import RowsChanged
from model.errors import BadRequest, SnapshotNotExist
from model.text.whole_number import whole_number
from model.wall_clock import epoch_of_wall
from server.access.access import caller
from server.access.audit import tell
from server.paimon.messages.snapshots import client_commit, snapshot_json, tells_counts
from server.paimon.messages.wire import object_name
from server.paimon.paging import max_results, number_token
from server.paimon.routes import argument, body, body_about, done_once, lake, raw_segments, route
from server.process.services import services
from server.settings.options import THREADS
from server.sql.bodies import member

MOST_WAIT_SECONDS = 30.0
_EARLIER_SPARK_SOURCES = "python-httpx/"
"""How our Spark source names itself, which did not always send `identifierDecides`; no client of Paimon builds on httpx."""


@route("POST", "databases/{}/tables/{}/commit")
@done_once
def commit(database: str, table: str) -> object:
    """Make a client's snapshot the latest; false is the protocol's word for "look again and rebuild".

    With `identifierDecides` (our own) the answer names the snapshot it is: of a repeat the one that landed, which has other files.
    """
    name = object_name(database, table)
    sent = client_commit(body_about(name))
    snapshot, rows = sent.snapshot, "rows unknown"
    what = f"{name.written()}, snapshot {snapshot.id}, {snapshot.commit_kind}, {snapshot.done or 'no operation told'}"

    def judged(changed: RowsChanged) -> None:
        nonlocal rows
        rows = f"files with {changed.added} rows added and with {changed.taken} rows taken away"

    tell(what)
    decides = sent.identifier_decides or (request.user_agent.string or "").startswith(_EARLIER_SPARK_SOURCES)
    attempt = replace(sent, identifier_decides=decides, judged=judged, waiting=lambda: services().may_wait_for_turn(caller()))
    landed = lake().client_commit(name, attempt)
    tell(f"{what}, {rows}" if landed is not None else f"{what}, not taken: another came first")
    return {"success": landed is not None} | ({"snapshotUuid": landed} if landed is not None and sent.identifier_decides else {})


@route("GET", "databases/{}/tables/{}/snapshot")
def latest_snapshot(database: str, table: str) -> object:
    """The latest snapshot, its file in place, with what it holds.

    With `newerThan` and `wait` (our own): as soon as there is a newer one, or after so many seconds; fewer where too many wait. It says
    then which table it is of, as another may have got the name.
    """
    here = lake()
    opened = here.open_any(object_name(database, table))
    known, seconds = snapshot_argument("newerThan"), seconds_argument("wait", most=MOST_WAIT_SECONDS)
    if known is not None and seconds:
        most = services().settings[THREADS] // 2
        here.wait_beyond(opened, known, seconds, most_waiters=most, stopping=services().stopping.is_set)
    totals = here.totals(opened)
    if totals is None:
        raise SnapshotNotExist(f"Table {opened.identifier} has no snapshot yet.", resource_name=str(opened.identifier))
    snapshot, counts = totals
    counted = tells_counts(here, opened)
    own = {} if known is None else {"tableId": str(opened.table_id)}
    return own | {
        "snapshot": {
            "snapshot": snapshot_json(snapshot, told=counted),
            "recordCount": counts.record_count if counted else 0,
            "fileSizeInBytes": counts.file_size if counted else 0,
            "fileCount": counts.file_count if counted else 0,
            "lastFileCreationTime": epoch_of_wall(counts.last_file_millis) if counted and counts.last_file_millis else 0,
        }
    }


@route("GET", "databases/{}/tables/{}/snapshots")
def list_snapshots(database: str, table: str) -> object:
    """All of them, newest first, in pages."""
    here = lake()
    below, limit = number_token(digits=18), max_results()
    opened = here.open_any(object_name(database, table))
    newest = here.history.page(opened, below=below, limit=limit + 1)
    page_of_snapshots, counted = newest[:limit], tells_counts(here, opened)
    return {
        "snapshots": [snapshot_json(snapshot, told=counted) for snapshot in page_of_snapshots],
        "nextPageToken": str(page_of_snapshots[-1].id) if len(newest) > limit else None,
    }


@route("GET", "databases/{}/tables/{}/snapshots/{}")
def snapshot_by_version(database: str, table: str, version: str) -> object:
    """EARLIEST, LATEST, a number, or else a tag's name.

    With `key` (our own) and a number: whether the snapshot of that key is one of the table's past, as far as that is known of expired ones.
    """
    here = lake()
    opened = here.open_any(object_name(database, table))
    if (key := argument("key")) is not None and (number := whole_number(version)) is not None:
        return {"isPast": here.history.is_past(opened, number, key)}
    try:
        snapshot = here.history.version(opened, version)
    except SnapshotNotExist:
        if (raw := raw_segments(request.environ)[-1]) == version:
            raise
        snapshot = here.history.version(opened, raw)  # Java's client escapes all names but this one: "a+b" comes as it is
    return {"snapshot": snapshot_json(snapshot, told=tells_counts(here, opened))}


@route("POST", "databases/{}/tables/{}/rollback")
def rollback(database: str, table: str) -> None:
    """Go back to a snapshot or a tag.

    From a compaction to the snapshot just before it: so a writer asks whose files it took away, and the compaction is undone.
    """
    sent = body()
    instant = member(sent, "instant", dict, required=True)
    expected = member(sent, "fromSnapshot", int)
    here = lake()
    opened = here.open_any(object_name(database, table))
    match instant.get("type"):
        case "snapshot":
            to = member(instant, "snapshotId", int, required=True)
            if expected is None or to != expected - 1 or not here.undo_compaction(opened, latest=expected):
                here.history.rollback_to_snapshot(opened, to, expected=expected)
        case "tag":
            here.history.rollback_to_tag(opened, member(instant, "tagName", str, required=True), expected=expected)
        case other:
            raise BadRequest(f"An instant is of type 'snapshot' or 'tag', not {other!r}.")


@route("POST", "databases/{}/tables/{}/rollback-schema")
def rollback_schema(database: str, table: str) -> None:
    """Go back to an older schema."""
    here = lake()
    here.history.rollback_schema(here.open_any(object_name(database, table)), member(body(), "schemaId", int, required=True))


def snapshot_argument(name: str) -> int | None:
    """A snapshot's id among the query parameters."""
    value = argument(name)
    number = None if value is None else whole_number(value)
    if value is not None and number is None:
        raise BadRequest(f"The parameter '{name}' takes the id of a snapshot, not {value!r}.")
    return number


def seconds_argument(name: str, *, most: float) -> float:
    """A time to wait among the query parameters, in seconds."""
    value = argument(name)
    try:
        seconds = float(value or 0)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise BadRequest(f"The parameter '{name}' is a number of seconds, not {value!r}.")
    return min(seconds, most)
