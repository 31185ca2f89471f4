"""Bodies of some kilobytes that say they are gigabytes, or are: refused within a worker's memory and time, and the server goes on."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from flask.testing import FlaskClient

from server.flight.wire.messages import message, packed
from tests import fix_postgres
from tests.fix_memory import LastingPath
from tests.running import ARROW, PARQUET
from tests.server.flight.conftest import Endpoint
from tests.short import one_in
from tests.workers import bombs
from workers.pool import WorkerLimits, WorkerPool

_COLUMNS = {"text": "STRING", "dictionary": "STRING", "lists": "ARRAY<ARRAY<TINYINT>>"}
_WHOLE = {"a page that says 2 GB", "2^40 rows of which ten are there"}
"""What lies only where nobody believes it: the ten rows are taken."""


def column(name: str) -> str:
    return next((type_ for word, type_ in _COLUMNS.items() if word in name), "BIGINT")


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    """One worker of little memory."""
    made = WorkerPool(WorkerLimits(count=1, memory_bytes=200 << 20))
    yield made
    made.close()


def told(client: FlaskClient, media_type: str, name: str, body: bytes) -> Any:
    assert len(body) < 16 << 20
    assert client.post("/sql", data=f"CREATE TABLE t (id {column(name)}) WITH ('bucket' = '-1')").status_code == 200
    return client.post("/tables/default/t/rows", data=body, content_type=media_type)


def count(client: FlaskClient) -> Any:
    return client.post("/sql", data="SELECT count(*) FROM t").get_json()["rows"]


@pytest.mark.parametrize(
    ("media_type", "name"), one_in(3, [*((PARQUET, name) for name in bombs.PARQUET), *((ARROW, name) for name in bombs.ARROW)])
)
def test_a_body_that_unfolds_past_a_workers_memory_is_refused(client: FlaskClient, media_type: str, name: str) -> None:
    made = (bombs.PARQUET if media_type == PARQUET else bombs.ARROW)[name]
    answer = told(client, media_type, name, made())
    assert (answer.status_code, count(client)) == ((200, [[10]]) if name in _WHOLE else (400, [[0]])), answer.text
    if name not in _WHOLE:
        assert answer.get_json()["errorClass"] in ("InvalidData", "UnsupportedType"), answer.text


def test_forms_are_bounded_before_they_are_taken_apart(client: FlaskClient) -> None:
    """Who has no token may send 64 kB to log in, which as gzip unfold to 64 MB of fields, each some objects."""
    fields = b"a&" * (4 << 20)
    form = "application/x-www-form-urlencoded"
    folded = client.post("/ui/login", data=gzip.compress(fields), content_type=form, headers={"Content-Encoding": "gzip"})
    assert (folded.status_code, "compressed" in folded.text) == (415, True)
    chunked = {"wsgi.input": io.BytesIO(fields), "wsgi.input_terminated": True}
    long = client.post("/ui/login", environ_overrides=chunked, content_type=form)
    assert (long.status_code, "larger than the" in long.text) == (413, True)
    many = client.post("/ui/login", data=fields[:4_000], content_type=form)
    assert (many.status_code, "more than 1000 fields" in many.text) == (413, True)
    part = b"--x\r\nContent-Disposition: form-data; name=a; filename=a\r\n\r\n" + fields + b"\r\n--x--\r\n"
    assert client.post("/ui/login", data=part, content_type="multipart/form-data; boundary=x").status_code < 500
    statement = b"-- %41\nSELECT 1"
    assert client.post("/sql", data=gzip.compress(statement), content_type=form, headers={"Content-Encoding": "gzip"}).status_code == 200


@pytest.fixture(scope="module")
def endpoint(server_dsn: str, template: str, lasting_path: LastingPath, workers: WorkerPool) -> Iterator[Endpoint]:
    with fix_postgres.database(server_dsn, template) as dsn:
        made = Endpoint(dsn, lasting_path("flight"), workers=workers)
        yield made
        made.close()


@pytest.mark.parametrize("name", bombs.ARROW)
def test_rows_of_flight_that_unfold_past_a_workers_memory_are_refused(endpoint: Endpoint, name: str) -> None:
    endpoint.gateway.run(f"DROP TABLE IF EXISTS t; CREATE TABLE t (id {column(name)}) WITH ('bucket' = '-1')").close()
    how = message("TableDefinitionOptions", if_not_exist=2, if_exists=2)
    first: dict[str, Any] = {
        "flight_descriptor": message(
            "FlightDescriptor", type=2, cmd=packed("CommandStatementIngest", table="t", table_definition_options=how)
        )
    }
    sent = []
    for one in pa.ipc.MessageReader.open_stream(bombs.ARROW[name]()):
        header, body = one.metadata.to_pybytes(), one.body.to_pybytes()
        sent.append(message("FlightData", data_header=header, data_body=body, **first).SerializeToString())
        first = {}
    with grpc.insecure_channel(endpoint.url.removeprefix("grpc://")) as channel:
        call = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
        with pytest.raises(grpc.RpcError) as refused:
            list(call(iter(sent), timeout=300))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, refused.value.details()
    assert endpoint.gateway.run("SELECT count(*) FROM t").collect() == [(0,)]
