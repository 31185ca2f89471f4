"""What files of other clients hold that is no value of its column's type: an error that names the column, never a text in its place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from model.schema.types import LocalZonedTimestampType
from server.flink.rows import RowFormat, row_objects
from sql.execution.results import ResultColumn
from tests.server.pages.conftest import Visitor

ACCEPTED = ("application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet")


def _of(type_: pa.DataType, number: int) -> pa.Array:
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(number.to_bytes(type_.bit_width // 8, "little", signed=True))])


FOREIGN = {
    "a TIME": _of(pa.time32("ms"), 86_400_000),
    "a DATE": _of(pa.date32(), 2**31 - 1),
    "a TIMESTAMP(3)": _of(pa.timestamp("ms"), 2**62),
    "a DECIMAL(5, 2)": _of(pa.decimal128(5, 2), 1_234_567),
    "a STRING": pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xc3(")]),
    "a part of a row": pa.StructArray.from_arrays([_of(pa.time32("ms"), -1)], ["a"]),
}


def _taken(client: FlaskClient, gateway: Gateway, tmp_path: Path, values: pa.Array) -> None:
    """Make table ``t`` of a file with these values in its column ``c``."""
    place = tmp_path / "import"
    place.mkdir()
    gateway.lake.import_dirs = (str(place),)
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "c": values}), place / "f.parquet")
    taken = client.post("/sql", data=f"CALL sys.migrate_table(source_type => 'hive', table => '{place}', target_table => 'default.t')")
    assert taken.status_code == 200, taken.text


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_value_is_never_shown(client: FlaskClient, gateway: Gateway, tmp_path: Path, name: str) -> None:
    _taken(client, gateway, tmp_path, FOREIGN[name])
    for media_type in ACCEPTED:
        answer = client.post("/sql", data="SELECT c FROM t", headers={"Accept": media_type})
        assert answer.status_code == 503, (media_type, answer.data)
        assert "holds in column c what is no value of its type" in answer.text
    assert client.post("/sql", data="SELECT id FROM t").get_json()["rows"] == [[1]]
    if not pa.types.is_nested(FOREIGN[name].type):  # bounds that are none are not told, so that Spark would have to look
        assert client.post("/sql", data="SELECT min(c) FROM t").status_code == 503
        assert '"c":null' in client.post("/sql", data="SELECT min_value_stats FROM t$files").text.replace("\\", "")


def test_a_map_that_has_one_key_twice_is_read_and_kept_as_it_is(client: FlaskClient, gateway: Gateway, tmp_path: Path) -> None:
    """Earlier versions stored such maps, other clients do: only new rows are refused."""
    _taken(client, gateway, tmp_path, pa.array([[(1, "a"), (1, "b")]], pa.map_(pa.int32(), pa.string())))
    assert client.post("/sql", data="ALTER TABLE t SET ('rows.erasable' = 'true')").status_code == 200
    for statement in ("SELECT 1", "UPDATE t SET id = 2", "CALL sys.compact(table => 'default.t', compact_strategy => 'full')"):
        answer = client.post("/sql", data=statement)
        assert answer.status_code == 200, answer.text
        assert client.post("/sql", data="SELECT c FROM t").get_json()["rows"] == [[[[1, "a"], [1, "b"]]]]
    assert client.post("/sql", data="SELECT id FROM t").get_json()["rows"] == [[2]]


FAR = {
    "a DATE before the year 1": (_of(pa.date32(), -719_529), "-0001-12-31"),
    "a DATE after 9999": (_of(pa.date32(), 6_574_135), "19969-05-16"),
    "a TIMESTAMP before the year 1": (_of(pa.timestamp("us"), -62_135_769_600_000_000), "0000-12-30"),
    "an instant after 9999": (_of(pa.timestamp("us", "UTC"), 2 * 253_402_300_799_999_999), "18029-12-30"),
}
"""What Java's clients write and Python's own moments cannot hold."""


@pytest.mark.parametrize("name", FAR)
def test_years_that_python_does_not_know_are_shown(client: FlaskClient, gateway: Gateway, tmp_path: Path, name: str) -> None:
    values, text = FAR[name]
    _taken(client, gateway, tmp_path, values)
    for media_type in ACCEPTED:
        answer = client.post("/sql", data="SELECT c FROM t", headers={"Accept": media_type})
        assert answer.status_code == 200, answer.text
        assert "arrow" in media_type or "parquet" in media_type or text in answer.text
    page = Visitor(client).send("/ui/sql", page="/ui/sql", statement="SELECT c FROM t", action="run")
    assert (page.status_code, text in page.text) == (200, True)
    result = gateway.run("SELECT c FROM t")
    (batch,) = (batch for batch in result.batches() if batch.num_rows)
    for format_ in RowFormat:
        assert text.encode() in row_objects(batch, result.columns, format_, "Europe/Berlin")


def test_a_moment_whose_clock_face_lies_in_the_year_10000_is_shown() -> None:
    last = pa.RecordBatch.from_arrays([_of(pa.timestamp("us", "UTC"), 253_402_300_799_999_999)], ["c"])
    columns = [ResultColumn("c", LocalZonedTimestampType(precision=6))]
    assert b"9999-12-31" in row_objects(last, columns, RowFormat.JSON, "Europe/Berlin")
