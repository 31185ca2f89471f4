"""The Arrow schemas of Flight SQL's metadata results; drivers compare the names letter by letter (`FlightSql.proto`)."""

from __future__ import annotations

import pyarrow as pa

from model.errors import UnsupportedType
from model.schema.types import (
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from sql.execution.results import ResultColumn, result_arrow_type

_LONGEST = 2_147_483_647


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


CATALOGS = pa.schema([_required("catalog_name", pa.string())])
DB_SCHEMAS = pa.schema([pa.field("catalog_name", pa.string()), _required("db_schema_name", pa.string())])
TABLES = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        _required("table_name", pa.string()),
        _required("table_type", pa.string()),
    ]
)
TABLES_WITH_SCHEMA = TABLES.append(_required("table_schema", pa.binary()))
TABLE_TYPES = pa.schema([_required("table_type", pa.string())])
PRIMARY_KEYS = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        _required("table_name", pa.string()),
        _required("column_name", pa.string()),
        pa.field("key_name", pa.string()),
        _required("key_sequence", pa.int32()),
    ]
)
FOREIGN_KEYS = pa.schema(
    [
        pa.field("pk_catalog_name", pa.string()),
        pa.field("pk_db_schema_name", pa.string()),
        _required("pk_table_name", pa.string()),
        _required("pk_column_name", pa.string()),
        pa.field("fk_catalog_name", pa.string()),
        pa.field("fk_db_schema_name", pa.string()),
        _required("fk_table_name", pa.string()),
        _required("fk_column_name", pa.string()),
        _required("key_sequence", pa.int32()),
        pa.field("fk_key_name", pa.string()),
        pa.field("pk_key_name", pa.string()),
        _required("update_rule", pa.uint8()),
        _required("delete_rule", pa.uint8()),
    ]
)
SQL_INFO = pa.schema(
    [
        _required("info_name", pa.uint32()),
        _required(
            "value",
            pa.dense_union(
                [
                    pa.field("string_value", pa.string()),
                    pa.field("bool_value", pa.bool_()),
                    pa.field("bigint_value", pa.int64()),
                    pa.field("int32_bitmask", pa.int32()),
                    pa.field("string_list", pa.list_(pa.string())),
                    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
                ]
            ),
        ),
    ]
)
TYPE_INFO = pa.schema(
    [
        _required("type_name", pa.string()),
        _required("data_type", pa.int32()),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", pa.list_(_required("item", pa.string()))),
        _required("nullable", pa.int32()),
        _required("case_sensitive", pa.bool_()),
        _required("searchable", pa.int32()),
        pa.field("unsigned_attribute", pa.bool_()),
        _required("fixed_prec_scale", pa.bool_()),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        _required("sql_data_type", pa.int32()),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)


def flight_schema(columns: tuple[ResultColumn, ...]) -> pa.Schema:
    """A result's schema, with what Arrow's types do not say of SQL's."""
    return pa.schema([pa.field(c.name, result_arrow_type(c.type), metadata=_type_metadata(c.type)) for c in columns])


def table_schema(columns: tuple[ResultColumn, ...], *, catalog: str, database: str, table: str) -> pa.Schema:
    """A table's columns as ``GetTables`` sends them, which drivers make their column lists of."""
    where = {"CATALOG_NAME": catalog, "SCHEMA_NAME": database, "TABLE_NAME": table, "IS_AUTO_INCREMENT": "0"}
    fields = []
    for column in columns:
        metadata = _type_metadata(column.type) | _named(where)
        if column.comment:
            metadata |= _named({"REMARKS": column.comment})
        fields.append(pa.field(column.name, _shown(column.type), nullable=column.type.nullable, metadata=metadata))
    return pa.schema(fields)


def _shown(type_: DataType) -> pa.DataType:
    """A column nobody can read here yet is listed all the same."""
    try:
        return result_arrow_type(type_)
    except UnsupportedType:
        return pa.binary()


def _named(values: dict[str, str]) -> dict[str, str]:
    return {f"ARROW:FLIGHT:SQL:{key}": value for key, value in values.items()}


def _type_metadata(type_: DataType) -> dict[str, str]:
    metadata = {"TYPE_NAME": type_.with_nullable(True).sql()}
    match type_:
        case DecimalType(precision=precision, scale=scale):
            metadata |= {"PRECISION": str(precision), "SCALE": str(scale)}
        case TimestampType(precision=precision) | LocalZonedTimestampType(precision=precision) | TimeType(precision=precision):
            metadata |= {"SCALE": str(precision)}
        case CharType(length=length) | VarCharType(length=length) | BinaryType(length=length) | VarBinaryType(length=length):
            metadata |= {"PRECISION": str(min(length, _LONGEST))}
    return _named(metadata)
