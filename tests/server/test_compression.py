"""Bodies in zstd and gzip, both ways, and pages of other origins."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from backports import zstd

from model.errors import InvalidOption, StatementTooLarge
from server.http.compression import PlainBody
from server.settings.settings import read_settings
from tests.fix_memory import LastingPath
from tests.server.protocols_of_a_module import Endpoints, endpoints

ROWS = 50_000
ORIGIN = "https://app.example.org"
WAYS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": (gzip.compress, gzip.decompress),
    "zstd": (zstd.compress, zstd.decompress),
}


@pytest.fixture(scope="module")
def opened(module_dsn: str, lasting_path: LastingPath) -> Iterator[Endpoints]:
    directory = lasting_path("compression")
    with endpoints(module_dsn, directory, SLUICE_CORS_ORIGINS=ORIGIN, SLUICE_STATEMENT_MAX_BYTES="100 kb") as made:
        yield made


@pytest.fixture(scope="module")
def http(opened: Endpoints) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=opened.url, headers={"Accept-Encoding": "identity"}) as client:
        client.post("/sql", content="CREATE TABLE numbers (n INT, s STRING)")
        yield client


def arrow_rows() -> bytes:
    sink = io.BytesIO()
    table = pa.table({"n": pa.array(range(ROWS), pa.int32()), "s": [f"row {n % 7}" for n in range(ROWS)]})
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def raw(http: httpx.Client, path: str, **more: Any) -> tuple[httpx.Response, bytes]:
    """An answer and its body as it came over the wire."""
    with http.stream("POST", path, **more) as response:
        return response, b"".join(response.iter_raw())


@pytest.mark.parametrize("encoding", WAYS)
def test_rows_go_up_and_come_back_compressed(http: httpx.Client, encoding: str) -> None:
    pack, unpack = WAYS[encoding]
    body = pack(arrow_rows())
    headers = {"Content-Type": "application/vnd.apache.arrow.stream", "Content-Encoding": encoding}
    http.post("/sql", content="TRUNCATE TABLE numbers")
    sized = http.post("/tables/default/numbers/rows", content=body, headers=headers)
    assert sized.json()["rows"] == ROWS
    chunked = http.post("/tables/default/numbers/rows", content=iter([body[:100], body[100:]]), headers=headers)
    assert chunked.json()["rows"] == ROWS
    statement = b"SELECT n, s FROM numbers"
    for accept in ("application/json", "application/x-ndjson", "text/csv"):
        asked = {"Accept": accept, "Accept-Encoding": encoding, "Content-Encoding": encoding}
        response, data = raw(http, "/sql", content=pack(statement), headers=asked)
        assert (response.headers["Content-Encoding"], response.headers["Vary"]) == (encoding, "Accept-Encoding")
        plain = http.post("/sql", content=statement, headers={"Accept": accept}).content
        assert unpack(data) == plain
        assert len(data) < len(plain) / 3


@pytest.mark.parametrize(
    ("accepted", "accept", "encoding"),
    [
        ("gzip, deflate, br", "application/json", "gzip"),
        ("gzip, zstd", "application/json", "zstd"),
        ("gzip;q=1, zstd;q=0.5", "application/json", "gzip"),
        ("br", "application/json", None),
        ("gzip;q=0", "application/json", None),
        ("gzip, deflate, br, zstd", "application/vnd.apache.arrow.stream", None),
        ("zstd", "application/vnd.apache.arrow.stream", "zstd"),
    ],
)
def test_what_a_client_accepts_decides(http: httpx.Client, accepted: str, accept: str, encoding: str | None) -> None:
    response, data = raw(http, "/sql", content="SHOW DATABASES", headers={"Accept": accept, "Accept-Encoding": accepted})
    assert response.headers.get("Content-Encoding") == encoding
    plain = {"gzip": gzip.decompress, "zstd": zstd.decompress}.get(str(encoding), bytes)(data)
    assert b"default" in plain


def test_small_documents_stay_plain_and_large_ones_have_a_length(http: httpx.Client) -> None:
    assert "Content-Encoding" not in http.get("/livez", headers={"Accept-Encoding": "gzip"}).headers
    metrics = http.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert metrics.headers["Content-Encoding"] == "gzip"
    assert int(metrics.headers["Content-Length"]) < len(metrics.content)


@pytest.mark.parametrize("encoding", WAYS)
def test_rows_of_a_stream_come_at_once(http: httpx.Client, encoding: str) -> None:
    """A row is there before the next one is even written."""
    http.post("/sql", content=f"CREATE TABLE tail_{encoding} (n INT)")
    statement = f"SELECT n FROM tail_{encoding}"
    headers = {"Accept": "application/x-ndjson", "Accept-Encoding": encoding}
    decoder: Any = zlib.decompressobj(31) if encoding == "gzip" else zstd.ZstdDecompressor()
    with http.stream("POST", "/sql?mode=streaming", content=statement, headers=headers, timeout=60) as response:
        assert response.headers["Content-Encoding"] == encoding
        source, seen = response.iter_raw(), b""
        for n in range(3):
            http.post("/sql", content=f"INSERT INTO tail_{encoding} VALUES ({n})")
            while f'{{"n":{n}}}'.encode() not in seen:
                seen += decoder.decompress(next(source))


def test_damaged_bodies_are_told(http: httpx.Client) -> None:
    def post(body: bytes, encoding: str) -> tuple[int, str]:
        answer = http.post("/sql", content=body, headers={"Content-Encoding": encoding})
        return answer.status_code, answer.json()["detail"]

    whole = gzip.compress(b"SHOW DATABASES")
    assert post(whole[:-12], "gzip") == (400, "The request's body ended in the middle of its gzip stream.")
    assert post(zstd.compress(b"SHOW DATABASES")[:-3], "zstd")[0] == 400
    assert "not zstd, as its Content-Encoding says" in post(whole, "zstd")[1]
    assert post(whole, "br") == (415, "A body in the encoding br is not read here; gzip and zstd are.")
    assert post(gzip.compress(b" " * 50_000_000), "gzip")[0] == 413, "a bomb is read to the limit, not to its end"
    assert http.post("/sql", content=whole + gzip.compress(b" LIKE 'x%'"), headers={"Content-Encoding": "x-gzip"}).json()["rows"] == []


def test_a_bomb_is_never_held_whole() -> None:
    body = PlainBody(io.BytesIO(gzip.compress(bytes(200 << 20))), "gzip")
    piece = bytearray(1 << 16)
    assert body.readinto(piece) == 1 << 16


@pytest.mark.parametrize("encoding", WAYS)
def test_a_bomb_ends_at_two_hundred_times_its_size(encoding: str) -> None:
    bomb = WAYS[encoding][0](bytes(100 << 20))
    body, piece, sizes = PlainBody(io.BytesIO(bomb), encoding), bytearray(1 << 20), list[int]()
    with pytest.raises(StatementTooLarge, match="200 times"):
        sizes.extend(iter(lambda: body.readinto(piece), 0))
    assert sum(sizes) <= (64 << 20) + 200 * len(bomb)


def test_pages_of_named_origins_may_call(http: httpx.Client) -> None:
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    preflight = http.options("/sql", headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    for body, status in (("SHOW DATABASES", 200), ("SELEC", 400)):
        answer = http.post("/sql", content=body, headers={"Origin": ORIGIN})
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, ORIGIN)
        assert "Location" in answer.headers["Access-Control-Expose-Headers"]
        assert "Origin" in answer.headers["Vary"]


def test_pages_of_others_may_not(http: httpx.Client) -> None:
    for answer in (
        http.options("/sql", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}),
        http.post("/sql", content="SHOW DATABASES", headers={"Origin": "https://evil.example"}),
    ):
        assert answer.status_code == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "SLUICE_CORS_ORIGINS" in json.loads(answer.content)["detail"]
    with pytest.raises(InvalidOption, match="every page in the world"):
        read_settings({"SLUICE_CORS_ORIGINS": "*"})
    with pytest.raises(InvalidOption, match="is no origin"):
        read_settings({"SLUICE_CORS_ORIGINS": "app.example.org"})
