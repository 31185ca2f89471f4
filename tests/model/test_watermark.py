"""Watermarks: their delay, and what ALTER may do to them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from model.errors import InvalidSchema, InvalidSchemaChange
from model.options.watermark import Watermark, interval_millis, watermark_of
from model.schema.change import DropColumn, DropWatermark, RenameColumn, SchemaChange, SetWatermark, UpdateColumnType, apply_changes
from model.schema.schema import Schema, column, new_schema
from model.schema.types import parse_type


def changed(schema: Schema, *changes: SchemaChange) -> Schema:
    return apply_changes(schema, changes, table="d.t", has_snapshot=True, time_millis=0)


@pytest.fixture
def schema() -> Schema:
    return new_schema((column("id", "INT"), column("ts", "TIMESTAMP(3)"), column("late", "TIMESTAMP(6)")))


def mark(expression: str, column: str = "ts") -> Watermark:
    return Watermark(column=column, expression=expression)


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("ts", 0), ("`ts`", 0), ("`ts` - INTERVAL '5' SECOND", 5), ("ts-interval '1:30' minute to second", 90),
        ("`ts` - INTERVAL '0.250' SECOND(3)", 0.25), ("ts - INTERVAL '1 02:03:04.005' DAY TO SECOND", 93784.005), 
        ("ts - INTERVAL '2' HOURS", 7200),
    ],
)  # fmt: skip
def test_the_delay_is_what_is_taken_off(expression: str, seconds: float) -> None:
    assert mark(expression).delay() == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "expression", ["to_timestamp(x)", "ts + INTERVAL '5' SECOND", "ts - INTERVAL '1' MONTH", "tsx", "ts - INTERVAL 'a' SECOND"]
)
def test_other_expressions_are_refused_by_name(expression: str) -> None:
    with pytest.raises(InvalidSchema, match=r"INTERVAL|understood"):
        mark(expression).delay()


def test_negative_and_wrong_intervals() -> None:
    assert interval_millis("-1:00", "HOUR", "MINUTE") == -3_600_000
    for text, unit, to in (("1", "MINUTE", "HOUR"), ("1:2:3", "HOUR", "MINUTE"), ("", "DAY", None)):
        with pytest.raises(InvalidSchema):
            interval_millis(text, unit, to)


def test_a_watermark_is_added_changed_and_dropped(schema: Schema) -> None:
    one = changed(schema, SetWatermark(watermark=mark("ts - INTERVAL '5' SECOND"), new=True))
    assert {key: value for key, value in one.options.items() if key.startswith("schema.")} == {
        "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
    }
    assert watermark_of(changed(one, SetWatermark(watermark=mark("ts"), new=False)).options) == mark("`ts`")
    assert changed(one, DropWatermark()).options == schema.options
    assert watermark_of(changed(one, RenameColumn(name="ts", to="at")).options) == mark("`at` - INTERVAL '5' SECOND", "at")
    without = changed(one, DropWatermark(), DropColumn(name="ts"))
    assert without.find("ts") is None
    for start, change, says in (
        (one, SetWatermark(watermark=mark("ts"), new=True), "has a watermark already"),
        (schema, SetWatermark(watermark=mark("ts"), new=False), "no watermark to modify"),
        (schema, DropWatermark(), "no watermark to drop"),
        (one, DropColumn(name="ts"), "DROP WATERMARK first"),
        (one, UpdateColumnType(name="ts", type=parse_type("TIMESTAMP(6)")), "DROP WATERMARK first"),
    ):
        with pytest.raises(InvalidSchemaChange, match=says):
            changed(start, change)
    for column_ in ("id", "late"):
        with pytest.raises(InvalidSchema, match=r"TIMESTAMP\(3\)"):
            changed(schema, SetWatermark(watermark=mark(column_, column_), new=True))


@pytest.mark.parametrize("text", ["9" * 200_000, "9" * 40, "999999999999"])
def test_an_interval_beyond_time_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidSchema, match="INTERVAL '9999999999"):
        interval_millis(text, "SECOND" if len(text) > 20 else "DAY")
