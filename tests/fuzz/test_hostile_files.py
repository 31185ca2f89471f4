"""Files of a table's directory that would end, hold or fill a process that believes them: each is damage, and the server answers on."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient
from pyroaring import BitMap

from model.schema.types import IntType
from table.format.deletions import positions
from table.format.io.file_io import LocalFileIO
from table.format.manifests.avro import records_in, records_of, schema_of
from table.format.manifests.entries import DeletionVector
from table.format.parquet.batches import opened, untrusted_batches
from table.format.parquet.thrift import I32, LIST, Reader, Struct, zigzag
from table.format.store import TableFiles
from table.index.bloom import may_hold
from table.index.container import UnreadableIndex
from tests.fuzz.oracle import judged, sql
from tests.fuzz.test_hostile_tables import _CHANGE, _READ
from tests.lake.register.damage import forget_metadata
from tests.short import diagonal, one_in, short

_MOST = 64 << 20


def _number(value: int) -> bytes:
    return zigzag(value)


def avro(schema: Any, payload: bytes, *, records: int = 1, codec: str = "null") -> bytes:
    """A file with one block, whose schema and bytes need not fit."""
    meta = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    pairs = b"".join(_text(name.encode()) + _text(value.encode()) for name, value in meta.items())
    return b"Obj\x01" + _number(len(meta)) + pairs + b"\0" + b"s" * 16 + _number(records) + _text(payload) + b"s" * 16


def _text(data: bytes) -> bytes:
    return _number(len(data)) + data


def _field(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]}


_WITHIN_ITSELF = {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}
_CHAIN = [
    {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]},
    *({"type": "record", "name": f"R{at}", "fields": [{"name": "a", "type": f"R{at - 1}"}]} for at in range(1, 5_000)),
]
HOSTILE = {
    "a type within itself": avro(_WITHIN_ITSELF, b"\x02" * 1_000_000 + b"\0"),
    "a chain of types": avro(_CHAIN, _number(4_999) + b"\x02"),
    "an array of nothing": avro(_field({"type": "array", "items": "null"}), _number(1 << 50)),
    "an array of empty rows": avro(_field({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}), _number(1 << 50)),
    "an array of fixed values of no bytes": avro(
        _field({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), _number(1 << 50)
    ),
    "rows of nothing": avro({"type": "record", "name": "E", "fields": []}, b"", records=1 << 50),
    "a long decimal": avro(_field({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}), _text(b"\x7f" * (1 << 20))),
    "a block that grows": avro(_field("bytes"), zlib.compress(b"\0" * (1 << 27), 9)[2:-4], codec="deflate"),
    "a size beyond the file": avro(_field("bytes"), _number(1 << 60)),
    "a codec that is not read here": avro(_field("int"), b"\x02", codec="snappy"),
}


@pytest.mark.parametrize("name", short(HOSTILE, HOSTILE.keys() - {"a block that grows"}))
def test_an_avro_file_neither_ends_nor_holds_its_reader(name: str) -> None:
    with pytest.raises((ValueError, EOFError)):
        list(records_of(HOSTILE[name], most_bytes=_MOST))
    with pytest.raises((ValueError, EOFError)):
        list(records_in(pa.BufferReader(HOSTILE[name]), len(HOSTILE[name])))


def test_records_of_many_blocks_take_no_more_than_they_may() -> None:
    out = io.BytesIO()
    fastavro.writer(out, _field("bytes"), ({"a": b"\0" * (1 << 20)} for _ in range(20)), codec="deflate", sync_interval=1 << 20)
    assert len(list(records_of(out.getvalue(), most_bytes=_MOST))) == 20
    with pytest.raises(ValueError, match="take more than"):
        list(records_of(out.getvalue(), most_bytes=4 << 20))


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard"])
def test_every_codec_is_read_as_it_was_written(codec: str) -> None:
    nested = {"type": "array", "items": ["null", {"type": "map", "values": {"type": "fixed", "name": "F", "size": 2}}]}
    out = io.BytesIO()
    rows = [{"a": [None, {"k": b"xy"}]} for _ in range(5_000)]
    fastavro.writer(out, _field(nested), rows, codec=codec)
    assert list(records_of(out.getvalue(), most_bytes=_MOST)) == rows
    assert schema_of(out.getvalue())["fields"][0]["name"] == "a"


def _vector(bitmap: BitMap) -> bytes:
    body = struct.pack(">i", 1581511376) + bitmap.serialize()
    return b"\1" + struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize("rows", [10, 1 << 40])
def test_a_deletion_vector_of_everything_is_damage(tmp_path: Path, rows: int) -> None:
    everything = BitMap()
    everything.add_range(0, 1 << 32)
    everything.run_optimize()
    data = _vector(everything)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index-1").write_bytes(data)
    length = struct.unpack_from(">I", data, 1)[0]
    vector = DeletionVector(path=str(tmp_path / "index" / "index-1"), offset=1, length=length, cardinality=None)
    files, held = TableFiles(LocalFileIO(), str(tmp_path)), psutil.Process().memory_info().rss
    with pytest.raises(Exception, match="deleted"):
        positions(files, vector, rows)
    assert psutil.Process().memory_info().rss < held + (2 << 30)


@pytest.mark.parametrize("probes", [0, -1, (1 << 31) - 1])
def test_a_bloom_filter_is_asked_no_more_than_a_filter_needs(probes: int) -> None:
    with pytest.raises(UnreadableIndex):
        may_hold(struct.pack(">i", probes) + b"\xff" * 8, IntType(), pa.array([1], pa.int32()))
    with pytest.raises(UnreadableIndex):
        may_hold(struct.pack(">i", 3), IntType(), pa.array([1], pa.int32()))


@pytest.mark.parametrize("kind", [1, 3, 7, 8])
def test_a_list_of_what_is_not_there_ends_with_its_bytes(kind: int) -> None:
    claimed = bytes([0xF0 | kind]) + b"\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(IndexError):
        Reader(claimed).skip(LIST)


def _pages_told(data: bytes, field: int, value: int) -> bytes:
    """A file whose first page's header tells another size; the bytes behind it stay where they are."""
    reader = Reader(data[4:])
    header = Struct.read(reader)
    header.fields[field] = (I32, zigzag(value))
    header.fields.pop(4, None)
    told = header.encoded()
    return data[:4] + told + data[4 + len(told) :]


@pytest.mark.parametrize(("field", "value"), [(3, 2**31 - 1), (3, -1), (2, 2**31 - 1), (2, -1)])
def test_a_page_that_tells_more_than_its_column_has_is_not_read(field: int, value: int) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array(["x"] * 3)}), sink, compression="snappy", use_dictionary=False)
    source = pa.BufferReader(_pages_told(sink.getvalue(), field, value))
    with pytest.raises(pa.ArrowException, match="a page"):
        list(untrusted_batches(source, opened(source)))


@pytest.fixture
def table(client: FlaskClient, tmp_path: Path) -> Path:
    sql(client, "CREATE TABLE t (id INT, s STRING, c STRING) PARTITIONED BY (s)")
    sql(client, "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x')")
    sql(client, "INSERT INTO t VALUES (3, 'a', 'y')")
    sql(client, "CALL sys.create_tag('t', 'kept')")
    return tmp_path / "warehouse" / "default.db" / "t"


def _ask(client: FlaskClient, what: str) -> None:
    forget_metadata()
    for text in (*_READ, *_CHANGE):
        sent = text.encode()
        judged(partial(client.post, "/sql", data=sent, buffered=True), f"{what}: {text}", sent)
    assert sql(client, "SELECT 1").get_json()["rows"] == [[1]]


@pytest.mark.parametrize(
    ("name", "pattern"),
    diagonal(
        ["a type within itself", "an array of nothing", "a long decimal"], ["manifest/manifest-list-*", "manifest/manifest-????????-*"]
    ),
)
def test_the_server_answers_on(client: FlaskClient, table: Path, name: str, pattern: str) -> None:
    for file in table.glob(pattern):
        file.write_bytes(HOSTILE[name])
    _ask(client, name)


_HOLES = (
    "snapshot/LATEST", "snapshot/EARLIEST", "snapshot/snapshot-2", "schema/schema-0", "tag/tag-kept", "tag/tag-laid",
    "consumer/consumer-c", "manifest/manifest-list-*", "manifest/manifest-????????-*", "s=a/bucket-0/data-*", "s=a/_SUCCESS",
)  # fmt: skip


@pytest.mark.parametrize("name", one_in(3, _HOLES))
def test_a_file_of_holes_fills_nothing(client: FlaskClient, table: Path, name: str) -> None:
    for file in list(table.glob(name)) or [table / name]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.truncate(file, 1 << 40)
    _ask(client, name)


_MARKERS = ("", "[]", "{", '{"creationTime": 1, "modificationTime": 1e400}', '{"modificationTime": "x"}', "[" * 9_999)


def test_a_marker_that_tells_no_times_is_none(client: FlaskClient, table: Path) -> None:
    for text in _MARKERS:
        (table / "s=a" / "_SUCCESS").write_text(text)
        sql(client, "CALL sys.mark_partition_done('t', 's=a')")
        assert json.loads((table / "s=a" / "_SUCCESS").read_text())["creationTime"] > 0, text
