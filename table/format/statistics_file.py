"""Statistics of a snapshot, in a file of their own, as ANALYZE of Paimon's engines and of this server writes them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from model.schema.schema import Schema
from model.schema.types import BigIntType, DataType, DecimalType, DoubleType, FloatType, IntType, SmallIntType, TinyIntType
from model.text.whole_number import signed_number
from table.format.json_document import parse_json

STATISTICS_PREFIX = "stat-"
"""How their names begin."""
_UNKNOWN = -1
"""What Flink's ANALYZE says of sizes it does not know."""
_WHOLE = (TinyIntType, SmallIntType, IntType, BigIntType)
_NUMBERS = (FloatType, DoubleType, DecimalType)


def statistics_in(data: bytes, schema: Schema | None = None) -> Mapping[str, Any]:
    """What a file tells, by Paimon's keys; raises `ValueError` for one that Paimon's readers could not read, of a table of that schema.

    They read it with each query of the snapshot, to plan it.
    """
    body = parse_json(data)
    if not isinstance(body, dict):
        raise ValueError("it is no JSON object")
    for name in ("snapshotId", "schemaId"):
        if schema is None and name not in body:  # Java's readers take one that is not there for 0
            raise ValueError(f"it has no {name}")
    for name in ("snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize"):
        _require_count(body, name)
    columns = body.get("colStats")
    if columns is not None and not (isinstance(columns, dict) and all(isinstance(one, dict) for one in columns.values())):
        raise ValueError("its colStats are none")
    if schema is not None:
        _require_columns(columns or {}, schema)
    return body


def _require_columns(columns: Mapping[str, Mapping[str, Any]], schema: Schema) -> None:
    types = {field.name: field.type for field in schema.fields}
    for name, statistics in columns.items():
        if (type_ := types.get(name)) is None:
            raise ValueError(f"it tells of a column {name[:80]}, which there is not")
        for count in ("colId", "distinctCount", "nullCount", "avgLen", "maxLen"):
            _require_count(statistics, count)
        for bound in ("min", "max"):
            if not _is_of(statistics.get(bound), type_):
                raise ValueError(f"its {bound} of column {name[:80]} is none of its type")


def _require_count(body: Mapping[str, Any], name: str) -> None:
    value = body.get(name)
    if value is not None and not (type(value) is int and _UNKNOWN <= value < 1 << 63):
        raise ValueError(f"its {name} is {value!r:.80}")


def _is_of(value: object, type_: DataType) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    if isinstance(type_, _WHOLE):
        return signed_number(value) is not None
    if isinstance(type_, _NUMBERS):
        try:
            Decimal(value)
        except InvalidOperation:
            return False
    return True
