"""Bodies of the protocol: handles, pages and column types as Flink spells them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
from flask import Response

from gateway.result_pages import ResultPage
from model.errors import BadRequest
from model.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntervalDayTimeType,
    IntervalYearMonthType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    TimestampType,
    TimeType,
    VarCharType,
)
from server.flink.rows import RowFormat, has_string_keys, row_objects
from server.process.services import services
from server.settings.options import STATEMENT_BYTES
from server.sql.bodies import json_object, read_body

CONTENT_TYPE = "application/json; charset=UTF-8"
_ENVELOPE_BYTES = 1 << 20
"""What may stand around a statement in its JSON body, escapes included in the doubled size."""
_ROOTS = {"INT": "INTEGER", "TIME": "TIME_WITHOUT_TIME_ZONE"}


def answer(value: object) -> Response:
    """A JSON answer with the protocol's content type."""
    return Response(orjson.dumps(value), 200, content_type=CONTENT_TYPE)


def body() -> dict[str, Any]:
    """The JSON body; none at all is an empty object."""
    return json_object(read_body(2 * services().settings[STATEMENT_BYTES] + _ENVELOPE_BYTES))


def handle(text: str) -> str:
    """A session's or operation's handle; raises `BadRequest` for what is no UUID."""
    try:
        return str(UUID(text))
    except ValueError:
        raise BadRequest(f"{text!r} is not a handle: a UUID is expected.") from None


def not_ready(uri: str) -> dict[str, Any]:
    """The page of a statement still running: ask again for the same token."""
    return {"resultType": "NOT_READY", "nextResultUri": uri}


def page_body(page: ResultPage, format_: RowFormat, zone: str | None, uri: Callable[[int], str]) -> bytes:
    """A page with rows, or the end, in the order Flink writes the members."""
    head: dict[str, Any] = {"resultType": "EOS" if page.next_token is None else "PAYLOAD", "isQueryResult": page.is_query}
    if page.job_id is not None:
        head["jobID"] = page.job_id
    head["resultKind"] = page.kind
    type_json = json_type if format_ is RowFormat.JSON else (lambda type_: type_)
    columns = [{"name": c.name, "logicalType": logical_type(type_json(c.type)), "comment": c.comment} for c in page.columns]
    rows = b",".join(row_objects(batch, page.columns, format_, zone) for batch in page.batches)
    start, end = orjson.dumps(head)[:-1], b"}"
    if page.next_token is not None:
        end = b',"nextResultUri":' + orjson.dumps(uri(page.next_token)) + b"}"
    results = b'{"columns":%b,"rowFormat":"%b","data":[%b]}' % (orjson.dumps(columns), format_.encode(), rows)
    return start + b',"results":' + results + end


def logical_type(type_: DataType) -> dict[str, Any]:
    """A column type as Flink's client reads it; it needs every attribute to be there (`gateway.md` 1.3)."""
    if isinstance(type_, NullType):
        return {"type": "NULL"}
    return {"type": _root(type_), "nullable": type_.nullable, **_attributes(type_)}


def json_type(type_: DataType) -> DataType:
    """What a column is told to be in JSON, where its client can hold no NULL type and no map keys but strings: those are strings there."""
    match type_:
        case NullType():
            return VarCharType()
        case ArrayType(element=element) | MultisetType(element=element):
            return replace(type_, element=json_type(element))
        case MapType(key=key, value=value):
            return replace(type_, key=key if has_string_keys(type_) else VarCharType(nullable=False), value=json_type(value))
        case RowType(fields=fields):
            return replace(type_, fields=tuple(replace(f, type=json_type(f.type)) for f in fields))
    return type_


def _root(type_: DataType) -> str:
    match type_:
        case TimestampType():
            return "TIMESTAMP_WITHOUT_TIME_ZONE"
        case LocalZonedTimestampType():
            return "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        case IntervalDayTimeType():
            return "INTERVAL_DAY_TIME"
        case IntervalYearMonthType():
            return "INTERVAL_YEAR_MONTH"
    return _ROOTS.get(type_.root, type_.root)


def _attributes(type_: DataType) -> dict[str, Any]:
    match type_:
        case DecimalType(precision=precision, scale=scale):
            return {"precision": precision, "scale": scale}
        case TimeType(precision=precision) | TimestampType(precision=precision) | LocalZonedTimestampType(precision=precision):
            return {"precision": precision}
        case IntervalDayTimeType():
            return {"precision": 6, "fractionalPrecision": 3, "resolution": "DAY_TO_SECOND"}  # more days or years the client refuses
        case IntervalYearMonthType():
            return {"precision": 4, "resolution": "YEAR_TO_MONTH"}
        case ArrayType(element=element) | MultisetType(element=element):
            return {"elementType": logical_type(element)}
        case MapType(key=key, value=value):
            return {"keyType": logical_type(key), "valueType": logical_type(value)}
        case RowType(fields=fields):
            return {
                "fields": [
                    {"name": f.name, "fieldType": logical_type(f.type)} | ({"description": f.description} if f.description else {})
                    for f in fields
                ]
            }
    length = getattr(type_, "length", None)
    return {} if length is None else {"length": length}
