"""The formats records have: JSON, CSV, Avro and raw bytes, as Flink writes and reads them."""

from __future__ import annotations

import json

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from model.errors import Unavailable, UnsupportedType
from model.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    VarBinaryType,
    VarCharType,
)
from sql.connectors import ConnectorTable
from sql.connectors.kafka import Side
from sql.spark.connectors.far_numbers import as_texts, from_texts, has_decimal, json_values
from sql.spark.read.reads import once
from sql.spark.read.types import to_spark

_SQL, _ISO = "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss"


def decoded(column: str, side: Side, table: ConnectorTable) -> tuple[Column, Column | None]:
    """The bytes of a record's side as a struct of its columns; and, where errors are to be ignored, which records have any sense."""
    data = F.col(column)
    if side.format == "raw":
        return F.struct(_from_bytes(data, side.columns[0].type).alias(side.inner(side.columns[0]))), None
    if side.format == "avro":
        return _from_avro(data, avro_schema(side)), None
    text, schema = data.cast("string"), _schema(side)
    ignoring = _ignores_errors(side, table)
    options = _reading_options(side, table)
    if side.format == "json":
        sound = F.try_parse_json(text).isNotNull() & text.rlike(r"^\s*[{\[]") if ignoring else None  # else it is a row of NULLs to Spark
        return json_values(text, schema, options, ignoring=ignoring), sound
    if not has_decimal(schema):
        return F.from_csv(text, _ddl(schema), options), None
    texts = F.from_csv(text, _ddl(as_texts(schema)), options)
    return once(texts, lambda value: from_texts(value, schema, ignoring=ignoring)), None


def decoded_values(column: str, side: Side, table: ConnectorTable) -> tuple[Column, Column | None]:
    """The same with a row for each value of a record: of JSON each object of an array that is its root, as in Flink."""
    one, sound = decoded(column, side, table)
    if side.format != "json":
        return one, sound
    text, several = F.col(column).cast("string"), st.ArrayType(_schema(side))
    values = json_values(text, several, _reading_options(side, table), ignoring=_ignores_errors(side, table))
    return F.explode(F.when(text.rlike(r"^\s*\["), F.filter(values, F.isnotnull)).otherwise(F.array(one))), sound


def _schema(side: Side) -> st.StructType:
    return st.StructType([st.StructField(side.inner(c), to_spark(c.type), True) for c in side.columns])


def _ignores_errors(side: Side, table: ConnectorTable) -> bool:
    return (side.option(table.options, "ignore-parse-errors") or "false").lower() == "true"


def _reading_options(side: Side, table: ConnectorTable) -> dict[str, str]:
    return {"mode": "PERMISSIVE" if _ignores_errors(side, table) else "FAILFAST"} | _text_options(side, table, reading=True)


def _ddl(schema: st.StructType) -> str:
    """The schema as DDL; an instant under the name that means one whatever TIMESTAMP means in the session."""
    kinds = ["TIMESTAMP_LTZ" if isinstance(f.dataType, st.TimestampType) else f.dataType.simpleString() for f in schema.fields]
    return ", ".join(f"`{f.name.replace('`', '``')}` {kind}" for f, kind in zip(schema.fields, kinds, strict=True))


def encoded(row: Column, side: Side, table: ConnectorTable) -> Column:
    """A struct of the side's columns as bytes."""
    match side.format:
        case "json":
            ignoring = (side.option(table.options, "encode.ignore-null-fields") or "false").lower()
            return F.to_json(row, _text_options(side, table) | {"ignoreNullFields": ignoring}).cast("binary")
        case "csv":
            return F.to_csv(row, _text_options(side, table)).cast("binary")
        case "avro":
            return _to_avro(row, avro_schema(side))
    only = row.getField(side.inner(side.columns[0]))
    return only.cast("binary")


def _text_options(side: Side, table: ConnectorTable, *, reading: bool = False) -> dict[str, str]:
    pattern = _ISO if (side.option(table.options, "timestamp-format.standard") or "sql").lower() == "iso-8601" else _SQL
    fraction = "[.SSSSSSSSS]" if reading else ".SSSSSS"
    options = {
        "timestampNTZFormat": pattern + fraction,
        "timestampFormat": pattern + fraction + ("[X]" if reading else "'Z'"),
        "timeZone": "UTC",
    }
    if side.format == "csv":
        for name, option in (("field-delimiter", "sep"), ("quote-character", "quote"), ("null-literal", "nullValue")):
            if (text := side.option(table.options, name)) is not None:
                options[option] = text
        options["escape"] = side.option(table.options, "escape-character") or '"'
    return options


def _from_bytes(data: Column, type_: DataType) -> Column:
    if isinstance(type_, VarBinaryType):
        return data
    if isinstance(type_, VarCharType):
        return data.cast("string")
    raise UnsupportedType(f"The format raw holds STRING or BYTES here, not {type_.sql()}.")


def _from_avro(data: Column, schema: str) -> Column:
    from pyspark.sql.avro.functions import from_avro

    return _with_avro(lambda: from_avro(data, schema))


def _to_avro(row: Column, schema: str) -> Column:
    from pyspark.sql.avro.functions import to_avro

    return _with_avro(lambda: to_avro(row, schema))


def _with_avro(make: object) -> Column:
    assert callable(make)
    try:
        made: Column = make()
        return made
    except TypeError as problem:  # how pyspark tells that its Avro module is not on the class path
        raise Unavailable(
            "Spark was started without its Avro module. Start the server with SLUICE_SPARK_PACKAGES=org.apache.spark:spark-avro_2.13:4.1.1 "
            "or with that jar in SLUICE_SPARK_JARS."
        ) from problem


_AVRO = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long", "FLOAT": "float", "DOUBLE": "double",
    "CHAR": "string", "VARCHAR": "string", "BINARY": "bytes", "VARBINARY": "bytes",
}  # fmt: skip


def avro_schema(side: Side) -> str:
    """The record schema Flink derives from the columns."""
    fields = [(side.inner(column), column.type) for column in side.columns]
    return json.dumps(_record("org.apache.flink.avro.generated.record", fields))


def _record(name: str, fields: list[tuple[str, DataType]]) -> dict[str, object]:
    short = name.rpartition(".")[2]
    made: list[dict[str, object]] = []
    for field, type_ in fields:
        schema = _avro(type_, f"{short}_{field}")
        made.append({"name": field, "type": ["null", schema], "default": None} if type_.nullable else {"name": field, "type": schema})
    return {"type": "record", "name": short, **({"namespace": name.rpartition(".")[0]} if "." in name else {}), "fields": made}


def _optional(type_: DataType, name: str) -> object:
    return ["null", _avro(type_, name)] if type_.nullable else _avro(type_, name)


def _avro(type_: DataType, name: str) -> object:
    if simple := _AVRO.get(type_.root):
        return simple
    match type_:
        case DecimalType(precision=precision, scale=scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case TimestampType(precision=p) | LocalZonedTimestampType(precision=p):
            unit = "millis" if p <= 3 else "micros"
            return {"type": "long", "logicalType": f"{'local-' if isinstance(type_, TimestampType) else ''}timestamp-{unit}"}
        case ArrayType(element=element):
            return {"type": "array", "items": _optional(element, name)}
        case MapType(value=value):
            return {"type": "map", "values": _optional(value, name)}
        case RowType(fields=fields):
            return _record(name, [(f.name, f.type) for f in fields])
    if type_.root == "DATE":
        return {"type": "int", "logicalType": "date"}
    raise UnsupportedType(f"The format avro holds no {type_.sql()} here.")
