"""A server for pages whose examples each stay in databases or tables of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.running import RunningServer


@pytest.fixture(scope="session")
def docs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One Spark, warm for all pages but the first."""
    running = RunningServer(tmp_path_factory.mktemp("docs"))
    try:
        yield running.start()
    finally:
        running.stop()
