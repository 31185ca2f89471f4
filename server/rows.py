"""``POST /tables/{database}/{table}/rows``: a body of rows becomes one commit."""

from __future__ import annotations

import orjson
from flask import Blueprint, Response, request

from model.identifier import Identifier
from server.access import caller
from server.bodies import body_stream, discard
from server.services import services
from server.statements import idempotency_key

bp = Blueprint("rows", __name__)


@bp.post("/tables/<database>/<table>/rows")
def append_rows(database: str, table: str) -> Response:
    """Append the body's rows and tell how many they were and which snapshot holds them."""
    key = idempotency_key()
    try:
        body = body_stream(services().settings.rows_bytes)
        result = services().gateway.append(
            Identifier(database, table), body, request.content_type or "", idempotency_key=key, caller=caller()
        )
    except BaseException:
        discard()
        raise
    answer = {"rows": result.rows, "snapshotId": result.snapshot_id, "replayed": result.replayed}
    return Response(orjson.dumps(answer), 200, mimetype="application/json")
