"""Flight SQL clients whose Arrow data reaches past its buffers: neither rows nor parameters show other memory, and the server lives."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from adbc_driver_manager.dbapi import Cursor

from model.errors import OperationNotExist
from server.flight.held import PreparedStatement, PreparedStatements
from server.flight.messages import message, packed, unpacked
from tests.server.flight.conftest import Door, rows
from tests.workers.damaged import reaching

SIZES = (100, 1 << 20, 2_000_000_000)


def put(client: fl.FlightClient, command: bytes, batch: pa.RecordBatch) -> None:
    writer, _ = client.do_put(fl.FlightDescriptor.for_command(command), batch.schema)
    with writer:
        writer.write_batch(batch)


def exchange(client: fl.FlightClient) -> None:
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(ingest("t")))
    with writer:
        reader.read_chunk()


def ingest(table: str) -> bytes:
    options = message("TableDefinitionOptions", if_not_exist=2, if_exists=2)
    return packed("CommandStatementIngest", table=table, table_definition_options=options)


@pytest.mark.parametrize("size", SIZES)
def test_an_ingest_that_reaches_past_its_buffers_is_refused(door: Door, cursor: Cursor, size: int) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS reached (v BYTES)")
    with fl.connect(door.url) as client, pytest.raises(pa.ArrowInvalid, match=r"InvalidData: Column v \(binary\) is damaged"):
        put(client, ingest("reached"), reaching(size))
    assert rows(cursor, "SELECT * FROM reached") == []


@pytest.mark.parametrize("size", SIZES)
def test_a_parameter_that_reaches_past_its_buffers_is_refused(door: Door, size: int) -> None:
    listed = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), reaching(size).column(0))
    with fl.connect(door.url) as client:
        request = packed("ActionCreatePreparedStatementRequest", query="SELECT ?")
        _, made = unpacked(next(client.do_action(fl.Action("CreatePreparedStatement", request))).body.to_pybytes())
        bound = packed("CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle)
        with pytest.raises(pa.ArrowInvalid, match="InvalidData: Column 1"):
            put(client, bound, pa.RecordBatch.from_arrays([listed], ["1"]))


def test_an_exchange_is_refused_without_a_traceback(door: Door) -> None:
    with fl.connect(door.url) as client, pytest.raises(pa.ArrowNotImplementedError, match="NotImplementedHere: Flight SQL") as told:
        exchange(client)
    assert "Traceback" not in str(told.value)


def test_a_prepared_statement_is_closed_by_its_owner_alone() -> None:
    statements = PreparedStatements()
    empty = pa.schema([])
    handle = statements.add(PreparedStatement(text="SELECT 1", principal="ada", is_query=True, schema=empty, parameters=empty))
    statements.close(handle, "bob")
    assert statements.get(handle, "ada").text == "SELECT 1"
    statements.close(handle, "ada")
    statements.close(handle, "ada")
    with pytest.raises(OperationNotExist):
        statements.get(handle, "ada")
