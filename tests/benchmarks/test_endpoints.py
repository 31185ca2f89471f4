"""The clients whose statements the benchmark of all endpoints counts."""

from __future__ import annotations

import pytest

from benchmarks.harness.endpoints import Client, FlightClient, FlinkClient, HttpClient
from tests.running import RunningServer


@pytest.mark.parametrize("endpoint", [HttpClient, FlinkClient, FlightClient])
def test_one_statement_runs_after_another(server: RunningServer, endpoint: type[HttpClient | FlinkClient | FlightClient]) -> None:
    client: Client = endpoint(server.flight_url if endpoint is FlightClient else server.url)
    with client:
        for _ in range(2):
            assert "default" in str(client.ask("SHOW DATABASES"))
