"""Indexes held against the rows of their file: only what queries ask an index for, in bounded time and memory."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from model.schema.schema import Schema, column, new_schema
from table.index.compared import ComparedIndexes
from table.index.container import encode


def schema_of(spelled: str) -> Schema:
    return new_schema([column("x", spelled)], options={"bucket": "-1"})


@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap"])
@pytest.mark.parametrize(
    ("spelled", "rows"),
    [
        ("TIMESTAMP(9)", pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ns"))),
        ("TIMESTAMP_LTZ(7)", pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ns", "UTC"))),
        ("INT", pa.array(["no number"])),
    ],
)
def test_what_no_query_asks_an_index_for_is_no_fault(kind: str, spelled: str, rows: pa.Array) -> None:
    """Whatever keeps an index from being looked at, it is not what is wrong with the file."""
    compared = ComparedIndexes(encode({"x": {kind: bytes(100)}}), schema_of(spelled))
    compared.look(pa.record_batch({"x": rows}))
    assert compared.fault() is None
