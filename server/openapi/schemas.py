"""The shapes of our own endpoints' bodies and parameters, as JSON Schema."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
_MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_MAYBE_COUNT: dict[str, Any] = {"type": ["integer", "null"]}
_MOMENT: dict[str, Any] = {"type": ["string", "null"], "format": "date-time"}
SECONDS: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
MODE: dict[str, Any] = {"type": "string", "enum": ["batch", "streaming"]}


def _object(required: str, /, *, closed: bool = False, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required.split()
    if closed:
        made["additionalProperties"] = False
    return made


_ref = {name: {"$ref": f"#/components/schemas/{name}"} for name in ("Problem", "Column", "Parameter", "Progress", "Job", "Token", "Part")}

SCHEMAS: dict[str, Any] = {
    "Problem": _object(
        "type title status detail errorClass requestId",
        type=TEXT,
        title=TEXT,
        status={"type": "integer"},
        detail=TEXT,
        errorClass=TEXT | {"description": "Stable, for programs."},
        line=_COUNT,
        column={"type": ["integer", "null"]},
        fragment=TEXT,
        statementIndex=_COUNT,
        completed={"type": "array", "items": TEXT},
        requestId=TEXT,
    ),
    "SqlRequest": _object(
        "statement",
        closed=True,
        statement={"type": "string", "minLength": 1, "examples": ["SHOW TABLES", "SELECT * FROM t WHERE id = :id"]},
        database=_MAYBE_TEXT,
        timeout={"type": ["number", "null"], "exclusiveMinimum": 0},
        mode={"enum": ["batch", "streaming", None]},
        settings={"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
        parameters={
            "oneOf": [
                {"type": "array", "items": _ref["Parameter"]},
                {"type": "object", "additionalProperties": _ref["Parameter"]},
                {"type": "null"},
            ]
        },
        max_rows={"type": ["integer", "null"], "minimum": 0},
        dry_run={"type": ["boolean", "null"]},
        **{"async": {"type": ["boolean", "null"]}},
    ),
    "Parameter": {
        "description": "A plain value, or one with its SQL type.",
        "oneOf": [
            {"type": ["string", "number", "boolean", "null"]},
            _object("type value", closed=True, type={"type": "string", "examples": ["DATE", "DECIMAL(10,2)"]}, value={}),
        ],
    },
    "Column": _object("name type", name=TEXT, type=TEXT),
    "Result": _object(
        "columns rows",
        columns={"type": "array", "items": _ref["Column"]},
        rows={"type": "array", "items": {"type": "array"}},
        truncated={"type": "boolean", "description": "True where max_rows cut rows off."},
        error=_ref["Problem"] | {"description": "What ended the rows early."},
    ),
    "Progress": _object(
        "stage done total bytesDone bytesTotal",
        stage=_MAYBE_TEXT,
        done=_COUNT,
        total=_MAYBE_COUNT,
        bytesDone=_COUNT,
        bytesTotal=_MAYBE_COUNT,
    ),
    "Status": _object(
        "statementId state seconds progress",
        statementId=TEXT,
        state={"enum": ["INITIALIZED", "PENDING", "RUNNING", "FINISHED", "CANCELED", "TIMEOUT", "ERROR", "CLOSED"]},
        seconds={"type": "number"},
        progress=_ref["Progress"],
        expiresAt=_MOMENT,
        result=TEXT | {"description": "Where its rows are."},
        error=_ref["Problem"],
    ),
    "Ended": _object("statementId state", statementId=TEXT, state=TEXT, error=_ref["Problem"]),
    "Appended": _object("rows snapshotId replayed", rows=_COUNT, snapshotId=_MAYBE_COUNT, replayed={"type": "boolean"}),
    "Job": _object(
        "id name state statement database principal batches rows",
        id=TEXT,
        name=TEXT,
        state=TEXT,
        statement=TEXT,
        database=TEXT,
        principal=TEXT,
        server=_MAYBE_TEXT,
        wish=_MAYBE_TEXT,
        batches=_COUNT,
        rows=_COUNT,
        source={},
        lag=_MAYBE_TEXT,
        watermark={},
        restarts=_COUNT,
        attempts=_COUNT,
        nextStart=_MOMENT,
        error=_MAYBE_TEXT,
        errorAt=_MOMENT,
        createdAt=_MOMENT,
        startedAt=_MOMENT,
        endedAt=_MOMENT,
    ),
    "Jobs": _object("jobs", jobs={"type": "array", "items": _ref["Job"]}),
    "StopRequest": _object("", closed=True, drain={"type": ["boolean", "null"]}),
    "Token": _object(
        "name principal administrator createdAt expiresAt",
        name=TEXT,
        principal=TEXT,
        administrator={"type": "boolean"},
        createdAt=_MOMENT,
        expiresAt=_MOMENT,
        token=TEXT | {"description": "The secret; told only when the token is made."},
    ),
    "Tokens": _object("tokens", tokens={"type": "array", "items": _ref["Token"]}),
    "TokenRequest": _object(
        "name",
        closed=True,
        name={"type": "string", "minLength": 1},
        principal=_MAYBE_TEXT,
        administrator={"type": ["boolean", "null"]},
        expiresAt=_MOMENT,
    ),
    "Revoked": _object("open", open={"type": "boolean", "description": "Whether it was the last one: nobody needs a token now."}),
    "Part": _object("ok", ok={"type": "boolean"}, detail=TEXT),
    "Health": _object(
        "status",
        status=TEXT,
        postgres=_ref["Part"],
        spark=_ref["Part"],
        warehouse=_ref["Part"],
        disk=_ref["Part"],
        catalog=_ref["Part"],
        tables=_ref["Part"],
        clock=_ref["Part"],
    ),
    "Document": {"type": "object", "description": "OpenAPI 3.1."},
}


def _parameter(name: str, place: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "schema": schema, "description": description}


BYTES: dict[str, Any] = {"type": "string", "format": "binary"}
IDEMPOTENCY = _parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "minLength": 1, "maxLength": 255},
    "Under it a write lands once.",
)
WAIT = _parameter(
    "wait",
    "query",
    {"type": "number", "minimum": 0},
    "Seconds to wait until it has ended: 30 at most, none where too many wait.",
)
SQL_PARAMETERS = (
    _parameter("database", "query", TEXT, "Where unqualified names are looked up."),
    _parameter("timeout", "query", SECONDS, "Seconds for the whole text, waiting included."),
    _parameter("mode", "query", MODE, "Whether queries end, or follow their tables."),
    _parameter("max_rows", "query", {"type": "integer", "minimum": 0}, "More rows of the result are cut off."),
    _parameter("dry_run", "query", {"type": "boolean"}, "Look at one statement without its taking effect."),
    _parameter("async", "query", {"type": "boolean"}, "Answer 202 at once; the result is asked for later."),
    _parameter("Prefer", "header", {"enum": ["respond-async"]}, "The same as async."),
)
RESULTS: dict[str, Any] = {
    "application/json": {"$ref": "#/components/schemas/Result"},
    **dict.fromkeys(("application/x-ndjson", "text/csv", "text/event-stream"), TEXT),
    "application/vnd.apache.arrow.stream": BYTES,
    "application/vnd.apache.parquet": BYTES,
}
