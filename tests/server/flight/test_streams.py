"""Rows without end over Flight: no thread while none comes, told when the client or the server goes."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from server.flight.wire.messages import packed
from tests.server.flight.conftest import Endpoint
from tests.waiting import eventually

STREAMING = "SET 'execution.runtime-mode' = 'streaming'; SELECT {columns} FROM {table} /*+ OPTIONS('scan.mode' = 'latest') */"


def opened(client: fl.FlightClient, table: str, columns: str = "*") -> fl.FlightStreamReader:
    text = STREAMING.format(columns=columns, table=table)
    info = client.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query=text)))
    return client.do_get(info.endpoints[0].ticket)


def run(endpoint: Endpoint, text: str) -> None:
    endpoint.gateway.run(text).close()


def serving() -> int:
    """Threads of this process that answer calls of Flight."""
    return sum(thread.name.startswith("sluice-flight") for thread in threading.enumerate())


def test_open_streams_hold_no_threads_and_each_gets_every_row_in_order(endpoint: Endpoint) -> None:
    run(endpoint, "CREATE TABLE many (a INT)")
    with fl.connect(endpoint.url) as client:
        before = serving()
        streams = [opened(client, "many") for _ in range(100)]
        assert [stream.schema.names for stream in streams] == [["a"]] * 100
        assert endpoint.gateway.streams() == 100
        assert serving() - before < 30
        for number in range(3):
            run(endpoint, f"INSERT INTO many VALUES ({number})")
        for stream in streams:
            assert [stream.read_chunk().data.to_pydict() for _ in range(3)] == [{"a": [0]}, {"a": [1]}, {"a": [2]}]
        assert serving() - before < 30
        for stream in streams[1:]:
            stream.cancel()
        assert eventually(lambda: (endpoint.gateway.streams(), endpoint.endpoint.held()) == (1, 1))
        run(endpoint, "INSERT INTO many VALUES (3)")
        assert streams[0].read_chunk().data.to_pydict() == {"a": [3]}
        streams[0].cancel()
    assert eventually(lambda: (endpoint.gateway.streams(), endpoint.endpoint.held()) == (0, 0))


def test_a_stream_whose_table_is_dropped_ends_with_that(endpoint: Endpoint) -> None:
    run(endpoint, "CREATE TABLE going (a INT) WITH ('continuous.discovery-interval' = '200 ms')")
    with fl.connect(endpoint.url) as client:
        stream = opened(client, "going")
        run(endpoint, "INSERT INTO going VALUES (1)")
        assert stream.read_chunk().data.to_pydict() == {"a": [1]}
        run(endpoint, "DROP TABLE going")
        with pytest.raises(pa.ArrowException, match="going"):
            stream.read_chunk()
    assert eventually(lambda: endpoint.gateway.streams() == 0)


def test_a_limit_ends_a_stream(endpoint: Endpoint) -> None:
    run(endpoint, "CREATE TABLE few (a INT)")
    with fl.connect(endpoint.url) as client:
        text = STREAMING.format(columns="a", table="few") + " LIMIT 2"
        info = client.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query=text)))
        stream = client.do_get(info.endpoints[0].ticket)
        run(endpoint, "INSERT INTO few VALUES (1), (2), (3)")
        assert stream.read_all().to_pydict() == {"a": [1, 2]}
    assert eventually(lambda: (endpoint.gateway.streams(), endpoint.endpoint.held()) == (0, 0))
