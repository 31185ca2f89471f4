"""Flight SQL clients whose Arrow data reaches past its buffers: neither rows nor parameters show other memory, and the server lives."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from adbc_driver_manager.dbapi import Cursor

from lake import Owner
from model.errors import BadRequest, OperationNotExist, StatementTooLarge
from server.flight import pending
from server.flight.pending import MOST_PREPARED, PreparedStatement, PreparedStatements
from server.flight.wire.messages import message, packed, unpacked
from server.flight.wire.received import Message, ReceivedRows
from sql.execution.array_memory import memory_of
from tests import fix_postgres
from tests.fix_memory import LastingPath
from tests.server.flight.conftest import Endpoint, rows
from tests.waiting import eventually
from tests.workers.damaged import reaching
from tests.workers.test_arrow import slow
from workers.arrow import ArrowHere
from workers.pool import WorkerLimits, WorkerPool

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
def test_an_ingest_that_reaches_past_its_buffers_is_refused(endpoint: Endpoint, cursor: Cursor, size: int) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS reached (v BYTES)")
    with fl.connect(endpoint.url) as client, pytest.raises(pa.ArrowInvalid, match=r"InvalidData: Column v \(binary\) is damaged"):
        put(client, ingest("reached"), reaching(size))
    assert rows(cursor, "SELECT * FROM reached") == []


@pytest.mark.parametrize("size", SIZES)
def test_a_parameter_that_reaches_past_its_buffers_is_refused(endpoint: Endpoint, size: int) -> None:
    listed = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), reaching(size).column(0))
    with fl.connect(endpoint.url) as client:
        request = packed("ActionCreatePreparedStatementRequest", query="SELECT ?")
        _, made = unpacked(next(client.do_action(fl.Action("CreatePreparedStatement", request))).body.to_pybytes())
        bound = packed("CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle)
        with pytest.raises(pa.ArrowInvalid, match="InvalidData: Column 1"):
            put(client, bound, pa.RecordBatch.from_arrays([listed], ["1"]))


def nameless(kind: str) -> bytes:
    """The header of a schema with a name that is not UTF-8: a column's, or that of a field inside one."""
    within = pa.struct([("na#me", pa.int32())])
    types = {"column": pa.int32(), "struct": within, "list": pa.list_(within), "map": pa.map_(pa.string(), within)}
    schema = pa.schema([("na#me" if kind == "column" else "v", types[kind])])
    (one,) = [one for one in pa.ipc.MessageReader.open_stream(schema.serialize()) if one.type == "schema"]
    return bytes(one.metadata.to_pybytes().replace(b"na#me", b"na\xffme"))


@pytest.mark.parametrize("kind", ["column", "struct", "list", "map"])
@pytest.mark.parametrize("command", ["ingest", "parameters"])
def test_a_name_that_is_not_text_is_refused(endpoint: Endpoint, kind: str, command: str) -> None:
    with fl.connect(endpoint.url) as client:
        request = packed("ActionCreatePreparedStatementRequest", query="SELECT ?")
        _, made = unpacked(next(client.do_action(fl.Action("CreatePreparedStatement", request))).body.to_pybytes())
    bound = packed("CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle)
    descriptor = message("FlightDescriptor", type=2, cmd=ingest("named") if command == "ingest" else bound)
    sent = message("FlightData", flight_descriptor=descriptor, data_header=nameless(kind)).SerializeToString()
    assert refused(endpoint, "DoPut", sent) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "InvalidData: The rows cannot be read: the name 'na\\xffme' of a column is not UTF-8.",
    )


def test_text_of_the_protocol_that_is_none_is_refused(endpoint: Endpoint) -> None:
    sent = message("Action", type="abc").SerializeToString().replace(b"abc", b"a\xffc")
    assert refused(endpoint, "DoAction", sent) == (grpc.StatusCode.INVALID_ARGUMENT, "BadRequest: The body is no Action of Flight SQL.")


def refused(endpoint: Endpoint, method: str, sent: bytes) -> tuple[grpc.StatusCode, str]:
    """How a call of one message ends."""
    with grpc.insecure_channel(endpoint.url.removeprefix("grpc://")) as channel:
        call = channel.stream_stream(f"/arrow.flight.protocol.FlightService/{method}")
        with pytest.raises(grpc.RpcError) as told:
            list(call(iter([sent]), timeout=60))
    return told.value.code(), told.value.details()


def test_an_exchange_is_refused_without_a_traceback(endpoint: Endpoint) -> None:
    with fl.connect(endpoint.url) as client, pytest.raises(pa.ArrowNotImplementedError, match="NotImplementedHere: Flight SQL") as told:
        exchange(client)
    assert "Traceback" not in str(told.value)


ADA, BOB, CID = (Owner(principal=name) for name in ("ada", "bob", "cid"))


def test_a_prepared_statement_is_closed_by_its_owner_alone() -> None:
    statements = PreparedStatements()
    empty = pa.schema([])
    handle = statements.add(PreparedStatement(text="SELECT 1", owner=ADA, is_query=True, schema=empty, parameters=empty))
    statements.close(handle, BOB)
    assert statements.get(handle, ADA).text == "SELECT 1"
    statements.close(handle, ADA)
    statements.close(handle, ADA)
    with pytest.raises(OperationNotExist):
        statements.get(handle, ADA)


def test_of_too_many_prepared_statements_ones_own_longest_unused_go() -> None:
    statements, empty = PreparedStatements(), pa.schema([])

    def prepared(principal: str) -> bytes:
        owner = Owner(principal=principal)
        return statements.add(PreparedStatement(text="SELECT 1", owner=owner, is_query=True, schema=empty, parameters=empty))

    other, used, unused = prepared("ada"), prepared("bob"), prepared("bob")
    for _ in range(MOST_PREPARED - 2):
        prepared("bob")
    statements.get(used, BOB)
    prepared("bob")
    assert statements.get(used, BOB).principal == "bob"
    assert statements.get(other, ADA).principal == "ada"
    with pytest.raises(OperationNotExist, match="gave way"):
        statements.get(unused, BOB)


def test_of_too_many_bytes_of_prepared_statements_those_of_whoever_holds_most_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "PREPARED_BYTES", 20_000)
    statements, empty = PreparedStatements(), pa.schema([])

    def held(principal: str, size: int) -> PreparedStatement:
        return PreparedStatement(text="x" * size, owner=Owner(principal=principal), is_query=True, schema=empty, parameters=empty)

    quiet = statements.add(held("bob", 1000))
    loud = [statements.add(held("ada", 5000)) for _ in range(5)]
    assert statements.get(quiet, BOB).text == "x" * 1000
    for gone in loud[:2]:
        with pytest.raises(OperationNotExist):
            statements.get(gone, ADA)
    statement = statements.get(loud[2], ADA)
    statements.bind(loud[2], statement, [pa.record_batch({"0": ["y" * 2500]})])
    with pytest.raises(OperationNotExist):
        statements.get(loud[3], ADA)
    assert statements.get(loud[2], ADA) is statement
    with pytest.raises(StatementTooLarge, match="the most kept of one is 10000"):
        statements.bind(quiet, statements.get(quiet, BOB), [pa.record_batch({"0": ["y" * 10_000]})])
    assert statements.get(quiet, BOB).bound == []
    large = statements.add(held("cid", 8500))
    assert statements.get(large, CID).text == "x" * 8500


def test_parameters_count_with_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of NULLs have no bytes besides: a thousand statements of a principal with twenty such batches each held 28 GB."""
    empty = pa.schema([])
    statement = PreparedStatement(text="SELECT ?", owner=ADA, is_query=True, schema=empty, parameters=empty)
    nulls = pa.record_batch([pa.nulls(1)] * 5000, names=[f"c{number}" for number in range(5000)])
    inside = pa.record_batch({"s": pa.nulls(1, pa.struct([(f"f{number}", pa.null()) for number in range(5000)]))})
    for batch in (nulls, inside):
        statement.bound = [batch] * 20
        assert statement.size() > 20 * 5000 * 280
    statement.bound = [nulls.slice(0, 0).select([0])] * 20_000
    assert statement.size() > 10_000_000
    monkeypatch.setattr(pending, "PREPARED_BYTES", 20 << 20)
    statements = PreparedStatements()
    handle = statements.add(PreparedStatement(text="SELECT ?", owner=ADA, is_query=True, schema=empty, parameters=empty))
    with pytest.raises(StatementTooLarge):
        statements.bind(handle, statements.get(handle, ADA), [nulls] * 20)


def sent(batch: pa.RecordBatch, count: int) -> Iterator[Message]:
    """A batch so many times, as a client sends them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    schema, of_rows = (Message(one.metadata.to_pybytes(), one.body.to_pybytes()) for one in messages)
    return itertools.chain([schema], itertools.repeat(of_rows, count))


def of_nulls(columns: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(rows)] * columns, names=[f"c{number}" for number in range(columns)])


FIVE = pa.record_batch({"a": [1], "b": ["x"], "c": [1.5], "d": [None], "e": pa.array([[1, 2]])})


@pytest.mark.parametrize(("batch", "count"), [(FIVE, 20_000), (of_nulls(5000, 1), 40), (of_nulls(1, 0), 80_000)])
def test_parameters_in_many_batches_are_taken_and_kept_in_one(batch: pa.RecordBatch, count: int) -> None:
    """A client that binds each row in a batch of its own sends arrays that take a hundred times the values."""
    (taken,) = ReceivedRows(sent(batch, count), 1 << 30, ArrowHere(), "").batches()
    assert taken.equals(pa.concat_batches([batch] * count))
    assert memory_of(taken) < 5_000_000


@pytest.mark.parametrize(("columns", "count"), [(90_000, 1), (20_000, 300)], ids=["columns", "sent"])
def test_parameters_that_are_nothing_but_arrays_are_refused_as_they_come(columns: int, count: int) -> None:
    with pytest.raises(StatementTooLarge, match=r"more than 67108864 bytes: as they were sent, or .* each column"):
        ReceivedRows(sent(of_nulls(columns, 1), count), 1 << 30, ArrowHere(), "").batches()


def test_a_prepared_statement_counts_with_its_columns() -> None:
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(5000)])
    held = PreparedStatement(text="SELECT 1", owner=ADA, is_query=True, schema=wide, parameters=pa.schema([]))
    assert held.size() > 1_000_000


ZEROS = pa.record_batch({"v": pa.array(np.zeros(40_000_000, np.int64))})
"""320 MB that are some kilobytes on the wire."""
NULLS = pa.record_batch({"v": pa.nulls(1_000_000_000)})
"""Nothing at all on the wire, and gigabytes in any other type."""


def put_compressed(client: fl.FlightClient, command: bytes, batch: pa.RecordBatch) -> None:
    options = fl.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression="zstd"))
    writer, _ = client.do_put(fl.FlightDescriptor.for_command(command), batch.schema, options)
    with writer:
        writer.write_batch(batch)


@pytest.fixture(scope="module")
def small_door(server_dsn: str, template: str, lasting_path: LastingPath) -> Iterator[Endpoint]:
    """A server whose workers have little memory, and that takes messages up to a megabyte."""
    workers = WorkerPool(WorkerLimits(count=1, memory_bytes=200 << 20))
    with fix_postgres.database(server_dsn, template) as dsn:
        made = Endpoint(dsn, lasting_path("flight"), workers=workers, SLUICE_FLIGHT_MESSAGE_BYTES="1 mb")
        made.gateway.run("CREATE TABLE v (v BIGINT)").close()
        yield made
        made.close()
        workers.close()


def rows_of(endpoint: Endpoint) -> list[dict[str, int]]:
    with endpoint.gateway.run("SELECT count(*) AS n FROM v") as result:
        return [row for batch in result.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize("bomb", [ZEROS, NULLS], ids=["zeros", "nulls"])
def test_ingested_rows_that_unfold_past_a_workers_memory_cost_that_call_alone(small_door: Endpoint, bomb: pa.RecordBatch) -> None:
    with fl.connect(small_door.url) as client:
        with pytest.raises(pa.ArrowInvalid, match=r"InvalidData: .*200 MB"):
            put_compressed(client, ingest("v"), bomb)
        assert rows_of(small_door) == [{"n": 0}]
        put_compressed(client, ingest("v"), ZEROS.slice(0, 0))


@pytest.mark.parametrize(("bomb", "said"), [(ZEROS, "64"), (NULLS, "1000000 rows")], ids=["zeros", "nulls"])
def test_parameters_that_unfold_to_much_are_refused_before_they_do(endpoint: Endpoint, bomb: pa.RecordBatch, said: str) -> None:
    with fl.connect(endpoint.url) as client:
        request = packed("ActionCreatePreparedStatementRequest", query="SELECT ?")
        _, made = unpacked(next(client.do_action(fl.Action("CreatePreparedStatement", request))).body.to_pybytes())
        bound = packed("CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle)
        before = pa.total_allocated_bytes()
        with pytest.raises(pa.ArrowInvalid, match=r"StatementTooLarge: The parameters are more than .*decompressed"):
            put_compressed(client, bound, bomb)
        assert pa.total_allocated_bytes() - before < 64 << 20


MANY = {
    "truths": lambda: pa.Array.from_buffers(pa.bool_(), 400_000_000, [None, pa.py_buffer(bytes(50_000_000))]),
    "numbers": lambda: pa.array(np.zeros(60_000_000, np.int8)),
    "rows": lambda: pa.StructArray.from_arrays([pa.array(np.zeros(30_000, np.int8))] * 2, ["a", "b"]),
}


@pytest.mark.parametrize("kind", MANY)
def test_a_parameter_of_many_values_is_refused_before_it_is_made(endpoint: Endpoint, kind: str) -> None:
    """Two kilobytes of zeros in an array cost gigabytes as values of Python and literals of a text."""
    values = MANY[kind]()
    listed = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    told = ask_with(endpoint, pa.RecordBatch.from_arrays([listed], ["1"]))
    assert "StatementTooLarge: The parameters hold more than 50000 values" in told


def test_a_parameter_of_views_that_show_terabytes_is_refused_unread(endpoint: Endpoint) -> None:
    view = np.tile(np.array([1 << 20, 0, 0, 0], np.int32), 1_000_000)
    shown = pa.Array.from_buffers(pa.string_view(), 1_000_000, [None, pa.py_buffer(view), pa.py_buffer(bytes(1 << 20))])
    listed = pa.ListArray.from_arrays(pa.array([0, len(shown)], pa.int32()), shown)
    assert "InvalidData: Column 1 (list<item: string_view>) shows more than 2 GB" in ask_with(
        endpoint, pa.RecordBatch.from_arrays([listed], ["1"])
    )


def ask_with(endpoint: Endpoint, parameters: pa.RecordBatch) -> str:
    """What is said of a query with these parameters."""
    with fl.connect(endpoint.url) as client:
        request = packed("ActionCreatePreparedStatementRequest", query="SELECT ?")
        _, made = unpacked(next(client.do_action(fl.Action("CreatePreparedStatement", request))).body.to_pybytes())
        bound = packed("CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle)
        try:
            put_compressed(client, bound, parameters)
            client.get_flight_info(fl.FlightDescriptor.for_command(bound))
        except pa.ArrowInvalid as told:
            return str(told)
    raise AssertionError("nothing was said")


def test_a_message_longer_than_is_taken_is_refused(small_door: Endpoint) -> None:
    wide = pa.record_batch({"v": pa.array(range(200_000), pa.int64())})
    with fl.connect(small_door.url) as client, pytest.raises(pa.ArrowException, match="larger than max"):
        put(client, ingest("v"), wide)
    assert rows_of(small_door) == [{"n": 0}]


def test_messages_compressed_by_grpc_are_refused_unread(endpoint: Endpoint) -> None:
    with grpc.insecure_channel(endpoint.url.removeprefix("grpc://"), compression=grpc.Compression.Gzip) as channel:
        call = channel.unary_unary("/arrow.flight.protocol.FlightService/GetFlightInfo")
        with pytest.raises(grpc.RpcError) as told:
            call(bytes(50_000_000), timeout=60)
    assert told.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_header_with_bits_flipped_tells_sizes_or_is_refused() -> None:
    """Whatever stands in a header, reading it ends, and ends in nothing but a number or a refusal."""
    batch, sink = pa.record_batch({"a": [1] * 1000, "b": ["x"] * 1000, "c": [[1], []] * 500}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    _, sent = pa.ipc.MessageReader.open_stream(sink.getvalue())
    header, body, chance, refused = sent.metadata.to_pybytes(), sent.body.to_pybytes(), random.Random(5), 0
    for _ in range(5_000):
        damaged = bytearray(header)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            assert Message(bytes(damaged), body).unfolded_bytes() >= 0
            _ = Message(bytes(damaged), body).rows
        except BadRequest:
            refused += 1
    assert Message(header, body).rows == 1000
    assert Message(header, body).unfolded_bytes() >= batch.nbytes
    assert 0 < refused < 5_000


def test_nothing_that_comes_as_arrow_is_decoded_in_the_server(endpoint: Endpoint, cursor: Cursor, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(*_: object) -> None:
        raise AssertionError("decoded in the server")

    for name in ("schema", "rows"):
        monkeypatch.setattr(ArrowHere, name, here)
    cursor.execute("CREATE TABLE IF NOT EXISTS apart (n BIGINT, t STRING)")
    cursor.adbc_ingest("apart", pa.table({"n": pa.array([1, 2], pa.int64()), "t": ["a", "b"]}), mode="append")
    cursor.executemany("INSERT INTO apart VALUES (?, ?)", [(3, "c"), (4, "d")])
    cursor.execute("INSERT INTO apart VALUES (?, ?)", (5, "e"))
    assert sorted(rows(cursor, "SELECT t FROM apart WHERE n > ?", (2,))) == [("c",), ("d",), ("e",)]


def test_parameters_that_end_their_worker_cost_that_call_alone(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS lives (n BIGINT)")
    asked = "SELECT n FROM lives WHERE n = ?"
    assert rows(cursor, asked, (1,)) == []
    before = {pid: psutil.Process(pid).cpu_times().user for pid in endpoint.endpoint._reader.pids()}

    def busy() -> list[int]:
        return [pid for pid, used in before.items() if psutil.Process(pid).cpu_times().user > used + 0.02]

    batch = next(iter(pa.ipc.open_stream(slow())))
    listed = pa.ListArray.from_arrays(pa.array([0, batch.num_rows], pa.int32()), batch.column(0))
    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(ask_with, endpoint, pa.RecordBatch.from_arrays([listed], ["1"]))
        assert eventually(lambda: bool(busy()), pause=0.01)
        os.kill(busy()[0], signal.SIGSEGV)
        assert "InvalidData: The process that read the rows ended (SIGSEGV)" in told.result()
    assert rows(cursor, asked, (2,)) == []
