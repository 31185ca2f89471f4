"""Queries of windows over a source with event time, and what they give, as the golden suites count it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.server.golden_model import Windows
from tests.server.streams.golden import START, hint

FUNCTIONS = {
    "TUMBLE": "INTERVAL '1' MINUTES",
    "HOP": "INTERVAL '30' SECONDS, INTERVAL '1' MINUTES",
    "CUMULATE": "INTERVAL '20' SECONDS, INTERVAL '1' MINUTES",
}


def query(kind: str, table: str, options: Mapping[str, str]) -> str:
    """Rows of each window and key, of a table with the columns ``k`` and ``ts``."""
    source = f"(SELECT * FROM {table} {hint(dict(options))})"
    return f"""SELECT window_start, window_end, k, count(*) AS n FROM TABLE({kind}({source}, DESCRIPTOR(ts), {FUNCTIONS[kind]}))
        GROUP BY window_start, window_end, k"""


def counted(rows: Iterable[Mapping[str, Any]]) -> Windows:
    """The number of rows of each window and key, which comes once."""
    found = [((_second(row["window_start"]), _second(row["window_end"]), row["k"]), row["n"]) for row in rows]
    assert len({window for window, _ in found}) == len(found), found
    return Counter(dict(found))


def _second(time: str) -> int:
    return int((dt.datetime.fromisoformat(time) - START) / dt.timedelta(seconds=1))
