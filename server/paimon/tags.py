"""Tags of the protocol."""

from __future__ import annotations

from model.snapshot import Snapshot
from server.paimon.messages.snapshots import snapshot_json, tells_counts
from server.paimon.messages.wire import object_name
from server.paimon.paging import max_results
from server.paimon.routes import argument, body, lake, route
from server.sql.bodies import member


@route("GET", "databases/{}/tables/{}/tags")
def list_tags(database: str, table: str) -> object:
    """Names, in pages; those clients put into the table's directory among them."""
    here = lake()
    after, limit, prefix = argument("pageToken"), max_results(), argument("tagNamePrefix") or ""
    names = [row.name for row in here.tags.all(here.open_any(object_name(database, table))) if row.name.startswith(prefix)]
    names = [name for name in names if after is None or name > after]
    return {"tags": names[:limit], "nextPageToken": names[limit - 1] if len(names) > limit else None}


@route("POST", "databases/{}/tables/{}/tags")
def create_tag(database: str, table: str) -> None:
    """Keep a snapshot under a name."""
    sent = body()
    here = lake()
    here.tags.create(
        here.open_any(object_name(database, table)),
        member(sent, "tagName", str, required=True),
        snapshot_id=member(sent, "snapshotId", int),
        retained=member(sent, "timeRetained", str),
    )


@route("GET", "databases/{}/tables/{}/tags/{}")
def get_tag(database: str, table: str, tag: str) -> object:
    """One, with its snapshot."""
    here = lake()
    opened = here.open_any(object_name(database, table))
    row = here.tags.get(opened, tag)
    snapshot = snapshot_json(Snapshot.from_json(row.snapshot), told=tells_counts(here, opened))
    return {"tagName": row.name, "snapshot": snapshot, "tagCreateTime": row.created_millis, "tagTimeRetained": row.retained}


@route("DELETE", "databases/{}/tables/{}/tags/{}")
def delete_tag(database: str, table: str, tag: str) -> None:
    """Forget one."""
    here = lake()
    here.tags.delete(here.open_any(object_name(database, table)), tag)
