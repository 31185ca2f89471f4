"""Values of numpy and pandas, and what cannot be sent: errors of PEP 249 and no others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sluice
from sluice.client import Client, ServerError
from sluice.columns import column
from sluice.plain_insert import PlainInsert
from sluice.values import sent

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("value", "parameter"),
    [
        (np.datetime64("2024-02-29T12:00:00.123456789", "ns"), {"type": "TIMESTAMP", "value": "2024-02-29T12:00:00.123456"}),
        (np.datetime64("1969-12-31T23:59:59.5", "ms"), {"type": "TIMESTAMP", "value": "1969-12-31T23:59:59.500000"}),
        (np.datetime64("2024-02-29"), {"type": "DATE", "value": "2024-02-29"}),
        (np.datetime64("NaT", "ns"), None), (np.timedelta64("NaT"), None), (pd.NaT, None), (pd.NA, None),
        (pd.Timestamp("2024-02-29T12:00:00.123456789"), {"type": "TIMESTAMP", "value": "2024-02-29T12:00:00.123456"}),
        (np.int8(5), 5), (np.bool_(True), True), (np.str_("x"), "x"), (np.float64("nan"), {"type": "DOUBLE", "value": "NaN"}),
        (sluice.Typed("DOUBLE", float("-inf")), {"type": "DOUBLE", "value": "-Infinity"}),
        (sluice.Typed("ARRAY<DOUBLE>", (1.5, float("nan"))), {"type": "ARRAY<DOUBLE>", "value": [1.5, "NaN"]}),
    ],
)  # fmt: skip
def test_values_of_other_libraries_are_what_they_stand_for(value: Any, parameter: Any) -> None:
    assert sent(value) == parameter


def test_missing_values_and_nanoseconds_stay_rows_of_one_batch() -> None:
    made = column([pd.NaT, pd.Timestamp(1), np.datetime64(1, "ns"), None], pa.timestamp("us"), "UTC")
    assert made is not None
    assert made.to_pylist() == [None, dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1), None]


@pytest.mark.parametrize(
    "value", [np.array([1, 2]), np.timedelta64(5, "ns"), np.datetime64(10**6, "Y"), sluice.Typed("INT", object()), "\ud800", object()]
)
def test_what_cannot_be_sent_is_an_error_of_the_program(value: Any) -> None:
    with sluice.connect(NOWHERE) as conn, pytest.raises(sluice.ProgrammingError):
        conn.execute("SELECT ?", [value])


def test_a_text_that_cannot_be_sent_and_what_is_no_url() -> None:
    with sluice.connect(NOWHERE) as conn, pytest.raises(sluice.ProgrammingError):
        conn.execute("SELECT '\udfff'")
    with pytest.raises(sluice.InterfaceError, match="no URL"):
        sluice.connect("http://::1:8083")
    with pytest.raises(ServerError, match="no URL"):
        Client("http://::1:8083")


def test_a_connection_that_another_thread_closed_says_so() -> None:
    conn = sluice.connect(NOWHERE)
    conn.http().close()  # as if between the look and the request
    with pytest.raises(sluice.InterfaceError, match="closed"):
        conn.execute("SELECT 1")


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("INSERT INTO sluice.d.t VALUES (?)", "sluice.d.t"), ("INSERT INTO `a``b` VALUES (?)", "`a``b`"),
        ("-- all of them\n/* two * / */ insert into d.t (a) values (?);", "d.t"), ("INSERT INTO other.d.t VALUES (?)", None),
        ("/* /* */ INSERT INTO t VALUES (?)", None), ("INSERT INTO t VALUES (?), (?)", None), ("INSERT INTO t SELECT ?", None),
    ],
)  # fmt: skip
def test_which_inserts_are_one_commit(text: str, table: str | None) -> None:
    found = PlainInsert.of(text)
    assert (found and found.table) == table
