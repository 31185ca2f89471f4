"""JSON documents of a table's directory, which whoever may write there wrote."""

from __future__ import annotations

import json
from typing import Any

_MOST_BYTES = 64 << 20
"""A schema of ten thousand columns takes two megabytes."""


def parse_json(data: bytes) -> Any:
    """What a document says; raises `ValueError` also for one nested deeper than Python goes, or that would fill the process."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has {len(data):,} bytes, of which at most {_MOST_BYTES:,} are read")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
