"""What Arrow Flight SQL tells of a table that is behind its warehouse, in the places that its clients can look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from adbc_driver_manager.dbapi import Cursor

from model.identifier import Identifier
from server.flight.wire.messages import packed, parsed
from tests.lake.register.damage import leave_behind
from tests.server.flight.conftest import Endpoint


class Heads(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    """Keeps what the head of each answer says."""

    def __init__(self) -> None:
        super().__init__()
        self.notices: list[tuple[str, list[str]]] = []

    def start_call(self, info: Any) -> Any:
        return _Head(self.notices, info.method.name)


class _Head(flight.ClientMiddleware):  # type: ignore[misc]
    def __init__(self, notices: list[tuple[str, list[str]]], method: str) -> None:
        super().__init__()
        self._notices, self._method = notices, method

    def received_headers(self, headers: Any) -> None:
        if "x-notice" in headers:
            self._notices.append((self._method, list(headers["x-notice"])))


@pytest.fixture
def behind(endpoint: Endpoint, cursor: Cursor) -> Iterator[str]:
    cursor.execute("CREATE TABLE behind (id INT)")
    cursor.execute("INSERT INTO behind VALUES (1)")
    leave_behind(Path(endpoint.lake.open(Identifier("default", "behind")).location))
    endpoint.lake.standing.look_around(tables=None)
    yield "Table default.behind is shown as the catalog knows it: snapshot-2 "
    endpoint.gateway.run("CALL sys.repair_table('behind')").close()
    endpoint.lake.standing.look_around(tables=None)
    cursor.execute("DROP TABLE behind")


def test_who_reads_a_table_behind_its_warehouse_is_told(endpoint: Endpoint, behind: str) -> None:
    heads = Heads()
    with flight.FlightClient(endpoint.url, middleware=[heads]) as client:
        command = packed("CommandStatementQuery", query="SELECT id FROM behind")
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        assert client.do_get(info.endpoints[0].ticket).read_all().to_pydict() == {"id": [1]}
        (told,) = json.loads(info.app_metadata)["notices"]
        fine = client.get_flight_info(flight.FlightDescriptor.for_command(packed("CommandStatementQuery", query="SHOW TABLES")))
        assert fine.app_metadata == b""
    assert told.startswith(behind)
    assert "CALL sys.repair_table('default.behind') mends it" in told
    assert heads.notices == [("GET_FLIGHT_INFO", [told]), ("DO_GET", [told])]


def test_a_write_that_reads_it_tells_in_the_head_of_its_answer(endpoint: Endpoint, cursor: Cursor, behind: str) -> None:
    cursor.execute("CREATE TABLE of_behind (id INT)")
    heads = Heads()
    with flight.FlightClient(endpoint.url, middleware=[heads]) as client:
        text = "INSERT INTO of_behind VALUES (2); SELECT id FROM behind; INSERT INTO of_behind VALUES (1)"
        command = packed("CommandStatementUpdate", query=text)
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), pa.schema([]))
        writer.done_writing()
        assert parsed("DoPutUpdateResult", reader.read().to_pybytes()).record_count == 1
        writer.close()
    (((method, (told,)),)) = heads.notices
    assert (method, told.startswith(behind)) == ("DO_PUT", True)
