"""What tests of statements on Spark share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.gateway import Gateway

Run = Callable[..., list[tuple[Any, ...]]]
"""Runs a statement and gives its rows."""


@pytest.fixture
def run(on_spark: Gateway) -> Run:
    def run(text: str, **more: Any) -> list[tuple[Any, ...]]:
        with on_spark.run(text, **more) as result:
            return result.collect()

    return run
