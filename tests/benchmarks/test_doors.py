"""The clients whose statements the benchmark of all doors counts."""

from __future__ import annotations

import pytest

from benchmarks.endpoints import Client, FlightClient, FlinkClient, HttpClient
from tests.running import RunningServer


@pytest.mark.parametrize("door", [HttpClient, FlinkClient, FlightClient])
def test_every_door_runs_one_statement_after_another(server: RunningServer, door: type[HttpClient | FlinkClient | FlightClient]) -> None:
    client: Client = door(server.flight_url if door is FlightClient else server.url)
    with client:
        for _ in range(2):
            assert "default" in str(client.ask("SHOW DATABASES"))
