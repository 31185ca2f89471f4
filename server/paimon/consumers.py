"""Consumers of the protocol."""

from __future__ import annotations

from model.errors import TableNotExist
from server.paimon.messages.wire import object_name
from server.paimon.paging import max_results
from server.paimon.routes import argument, body, done_once, lake, route
from server.sql.bodies import member


@route("GET", "databases/{}/tables/{}/consumers")
def list_consumers(database: str, table: str) -> object:
    """How far each has come, in pages."""
    here = lake()
    after, limit = argument("pageToken"), max_results()
    consumers = [pair for pair in here.consumers(here.open_any(object_name(database, table))).items() if after is None or pair[0] > after]
    return {
        "consumers": [{"consumerId": name, "nextSnapshot": following} for name, following in consumers[:limit]],
        "nextPageToken": consumers[limit - 1][0] if len(consumers) > limit else None,
    }


@route("POST", "databases/{}/tables/{}/consumers/reset")
@done_once
def reset_consumer(database: str, table: str) -> None:
    """Let one go on from a snapshot, or forget it.

    With `after` (our own), the key of the snapshot before: only where that is the table's still. With `tableId` (our own): only of that
    table, as another may have got the name.
    """
    sent = body()
    here = lake()
    opened = here.open_any(object_name(database, table))
    if member(sent, "tableId", str) not in (None, str(opened.table_id)):
        raise TableNotExist(str(opened.identifier))
    name, following = member(sent, "consumerId", str, required=True), member(sent, "nextSnapshotId", int)
    here.reset_consumer(opened, name, following, after=member(sent, "after", str))
