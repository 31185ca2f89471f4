"""Processes that decode bodies, which the gateways of a test run share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workers.pool import WorkerLimits, WorkerPool


@pytest.fixture(scope="session")
def workers() -> Iterator[WorkerPool]:
    """One worker, started when a test first needs it."""
    made = WorkerPool(WorkerLimits(count=1))
    yield made
    made.close()
