"""``POST /tables/{database}/{table}/rows``: a body of rows becomes one commit."""

from __future__ import annotations

import contextlib

import orjson
from flask import Blueprint, Response, request

from model.identifier import Identifier
from server.access.access import caller
from server.openapi.document import documented, json_of
from server.openapi.schemas import BYTES, IDEMPOTENCY, TEXT
from server.process.services import services
from server.settings.options import ROWS_BYTES
from server.sql.bodies import body_stream, discard
from server.sql.disconnect import CONNECTION, Client
from server.sql.statements import idempotency_key
from sql.execution.cancellation import stopped_by

bp = Blueprint("rows", __name__)


@bp.post("/tables/<database>/<table>/rows")
@documented(
    tag="rows",
    body=dict.fromkeys(("text/csv", "application/x-ndjson"), TEXT)
    | dict.fromkeys(("application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"), BYTES),
    parameters=(IDEMPOTENCY,),
    answers={200: json_of("Appended")},
    errors=(404, 409, 413, 415, 422, 429, 507),
)
def append_rows(database: str, table: str) -> Response:
    """Append the body's rows and tell how many they were and which snapshot holds them."""
    key = idempotency_key()
    try:
        body = body_stream(services().settings[ROWS_BYTES])
        client = request.environ.get(CONNECTION)
        with stopped_by(client.watch) if isinstance(client, Client) else contextlib.nullcontext():
            result = services().gateway.append(
                Identifier(database, table), body, request.content_type or "", idempotency_key=key, caller=caller()
            )
    except BaseException:
        discard()
        raise
    answer = {"rows": result.rows, "snapshotId": result.snapshot_id, "replayed": result.replayed}
    return Response(orjson.dumps(answer), 200, mimetype="application/json")
