"""Statistics of a snapshot, in a file of their own, as ANALYZE of Paimon's engines and of this server writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from table.format.json_document import parse_json

STATISTICS_PREFIX = "stat-"
"""How their names begin."""


def statistics_in(data: bytes) -> Mapping[str, Any]:
    """What a file tells, by Paimon's keys; raises `ValueError`, `KeyError` or `TypeError` for one that is none."""
    body: Mapping[str, Any] = parse_json(data)
    for key in ("snapshotId", "schemaId"):
        if type(body[key]) is not int:
            raise ValueError(f"'{key}' is no whole number")
    if not isinstance(body.get("colStats") or {}, Mapping):
        raise ValueError("'colStats' is no object")
    return body
