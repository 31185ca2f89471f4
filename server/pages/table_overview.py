"""A table at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lake import Lake
from server.pages.table import TableHead, tab


@tab("overview", "Overview", data=False)
def overview(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Numbers, growth and layout."""
    return {}
