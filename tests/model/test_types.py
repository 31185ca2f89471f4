"""Types are read and printed as Paimon spells them."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import UnsupportedType
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import (
    ArrayType,
    DecimalType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    VarCharType,
    parse_type,
)

SPELLINGS = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT NOT NULL",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "CHAR(5)",
    "VARCHAR(10) NOT NULL",
    "STRING",
    "BINARY(4)",
    "VARBINARY(8)",
    "BYTES",
    "DECIMAL(9, 2)",
    "TIME(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    "VARIANT",
    "BLOB",
    "GEOMETRY(OGC:CRS84)",
    "GEOMETRY('EPSG 4326, ''old''') NOT NULL",
    "GEOMETRY('4326')",
    "GEOGRAPHY(srid:4326, karney) NOT NULL",
]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_canonical_spelling_is_printed_as_it_was_read(spelled: str) -> None:
    assert parse_type(spelled).to_json() == spelled


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("integer", "INT"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("NUMERIC(4,1)", "DECIMAL(4, 1)"),
        ("DEC", "DECIMAL(10, 0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(0) WITHOUT TIME ZONE", "TIMESTAMP(0)"),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIME", "TIME(0)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("geometry", "GEOMETRY(OGC:CRS84)"),
        ("GEOGRAPHY ('OGC:CRS84')", "GEOGRAPHY(OGC:CRS84, spherical)"),
        ("geography(srid:4326, 'Thomas') null", "GEOGRAPHY(srid:4326, thomas)"),
    ],
)
def test_other_spellings_become_the_canonical_one(spelled: str, canonical: str) -> None:
    assert parse_type(spelled).to_json() == canonical


@pytest.mark.parametrize(
    "body",
    [
        {"type": "ARRAY", "element": "INT NOT NULL"},
        {"type": "MAP NOT NULL", "key": "STRING NOT NULL", "value": "DOUBLE"},
        {"type": "MULTISET", "element": "INT"},
        {"type": "VECTOR", "element": "FLOAT", "length": 16},
        {
            "type": "ROW",
            "fields": [
                {"id": 29, "name": "x", "type": "INT"},
                {"id": 31, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}, "description": "a doc"},
            ],
        },
    ],
)
def test_nested_types_keep_their_shape(body: dict[str, Any]) -> None:
    assert parse_type(body).to_json() == body


def test_the_nullable_key_of_pypaimon_is_ignored() -> None:
    assert parse_type({"type": "ARRAY", "element": "INT", "nullable": True}) == ArrayType(element=IntType())


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        "FOO",
        "DECIMAL(39, 0)",
        "DECIMAL(4, 5)",
        "CHAR(0)",
        "TIMESTAMP(10)",
        "INT(3)",
        "VARCHAR(3, 4)",
        "GEOMETRY(a, karney)",
        "GEOGRAPHY(a, flat)",
        "GEOMETRY('')",
    ],
)
def test_what_is_no_type_is_refused_by_name(spelled: str) -> None:
    with pytest.raises(UnsupportedType, match=r"There is no type|precision|length"):
        parse_type(spelled)


def test_a_nested_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedType, match="BAG"):
        parse_type({"type": "BAG", "element": "INT"})


def test_sql_text_of_nested_types() -> None:
    row = RowType(fields=())
    assert row.sql() == "ROW<>"
    assert str(MapType(key=VarCharType(nullable=False), value=DecimalType(precision=5, scale=1))) == "MAP<STRING NOT NULL, DECIMAL(5, 1)>"


def test_what_sql_cannot_hold_is_found_inside_nested_types() -> None:
    assert unreadable_in_sql(ArrayType(element=TimestampType(precision=9))) == "TIMESTAMP(9)"
    assert unreadable_in_sql(LocalZonedTimestampType(precision=7)) == "TIMESTAMP(7) WITH LOCAL TIME ZONE"
    assert unreadable_in_sql(parse_type({"type": "MULTISET", "element": "INT"})) == "MULTISET<INT>"
    assert unreadable_in_sql(TimestampType(precision=6)) is None
