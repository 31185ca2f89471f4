"""Bodies of rows: four formats, by name, safe casts only, one commit each, and nothing changed after an error."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import random
from codecs import BOM_UTF8
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from lake import Caller, Lake, LakeTable
from model.errors import ColumnNotExist, IdempotencyMismatch, InvalidData, LakeError, TableNotExist, UnsupportedMediaType
from model.identifier import Identifier
from tests.sql.tables import make_table
from workers.readers import READERS

T = Identifier("default", "t")
PARQUET, ARROW, CSV, NDJSON = READERS

ME = Caller(principal="me", administrator=True)


def parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def arrow(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def csv(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pacsv.write_csv(rows, sink)
    return sink.getvalue()


def ndjson(rows: pa.Table) -> bytes:
    return b"".join(json.dumps(row, default=str).encode() + b"\n" for row in rows.to_pylist())


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {PARQUET: parquet, ARROW: arrow, CSV: csv, NDJSON: ndjson}


def all_rows(gateway: Gateway) -> list[tuple[Any, ...]]:
    return gateway.run("SELECT * FROM t").collect()


@pytest.mark.parametrize("kind", WRITERS)
def test_columns_go_by_name_and_missing_ones_are_null(gateway: Gateway, lake: Lake, kind: str) -> None:
    make_table(lake, id="BIGINT NOT NULL", name="STRING", price="DECIMAL(10, 2)", day="DATE")
    body = WRITERS[kind](pa.table({"day": [dt.date(2024, 2, 29), None], "id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]}))
    result = gateway.append(T, io.BytesIO(body), kind)
    assert (result.rows, result.snapshot_id, result.replayed) == (2, 1, False)
    assert all_rows(gateway) == [(1, "a", None, dt.date(2024, 2, 29)), (2, "b", None, None)]


@pytest.mark.parametrize("kind", WRITERS)
def test_an_unknown_column_is_refused_with_the_nearest(gateway: Gateway, lake: Lake, kind: str) -> None:
    table = make_table(lake, id="BIGINT", name="STRING")
    body = WRITERS[kind](pa.table({"id": [1], "nmae": ["x"]}))
    with pytest.raises(ColumnNotExist, match=r"Column nmae does not exist in table default\.t\. Did you mean name\?"):
        gateway.append(T, io.BytesIO(body), kind)
    assert table.latest() is None


@pytest.mark.parametrize("kind", WRITERS)
def test_null_into_not_null_names_column_and_row(gateway: Gateway, lake: Lake, kind: str) -> None:
    table = make_table(lake, id="BIGINT NOT NULL", name="STRING")
    body = WRITERS[kind](pa.table({"id": pa.array([1, None], pa.int64()), "name": ["a", "b"]}))
    with pytest.raises(InvalidData, match="Column id, row 2: NULL"):
        gateway.append(T, io.BytesIO(body), kind)
    assert table.latest() is None
    assert files_under(table) == []


@pytest.mark.parametrize("kind", WRITERS)
def test_a_number_too_large_names_column_and_row(gateway: Gateway, lake: Lake, kind: str) -> None:
    table = make_table(lake, id="TINYINT")
    body = WRITERS[kind](pa.table({"id": pa.array([1, 2, 300], pa.int64())}))
    with pytest.raises(InvalidData, match=r"Column id, row 3: .*300.* does not fit TINYINT"):
        gateway.append(T, io.BytesIO(body), kind)
    assert table.latest() is None


@pytest.mark.parametrize("kind", WRITERS)
def test_a_failure_late_in_a_body_leaves_no_files(gateway: Gateway, lake: Lake, kind: str) -> None:
    table = make_table(lake, id="BIGINT NOT NULL", x="INT", options={"bucket": "4", "bucket-key": "id"})
    rows = pa.table({"id": pa.array([*range(200_000), None], pa.int64()), "x": pa.array([1] * 200_001, pa.int32())})
    with pytest.raises(InvalidData, match="row 200001"):
        gateway.append(T, io.BytesIO(WRITERS[kind](rows)), kind)
    assert table.latest() is None
    assert files_under(table) == []


def files_under(table: LakeTable) -> list[Path]:
    return [path for path in Path(table.location).rglob("data-*") if path.is_file()]


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (PARQUET, b"no parquet at all", "not a Parquet file"),
        (PARQUET, b"", "not a Parquet file"),
        (ARROW, b"no arrow", "not an Arrow IPC stream"),
        (ARROW, b"", "not an Arrow IPC stream"),
        (CSV, b"", "The CSV body is empty"),
        (CSV, b"id,name\n1,a,b\n", "The body cannot be read: .*Expected 2 columns, got 3"),
        (NDJSON, b"{oops}\n", "Row 1 of the body is not JSON"),
        (NDJSON, b'{"id": 1}\n[1]\n', "Row 2 of the body is no JSON object"),
        (NDJSON, b'{"id": "x"}\n', 'Column id, row 1: "x" does not fit BIGINT'),
        (NDJSON, b'{"id": 1.5}\n', "Column id, row 1: 1.5 does not fit BIGINT"),
        (NDJSON, b'{"id": true}\n', "Column id, row 1: true does not fit BIGINT"),
        (NDJSON, b'{"id": "1_0"}\n', 'Column id, row 1: "1_0" does not fit BIGINT'),
        (CSV, b"id\n1.5\n", "Column id, row 1: '1.5' does not fit BIGINT"),
        (CSV, b"id,id\n1,2\n", "stands twice in the body: id"),
    ],
)
def test_a_corrupt_body_says_what_is_wrong(gateway: Gateway, lake: Lake, kind: str, body: bytes, message: str) -> None:
    table = make_table(lake, id="BIGINT", name="STRING")
    with pytest.raises(InvalidData, match=message):
        gateway.append(T, io.BytesIO(body), kind)
    assert table.latest() is None


@pytest.mark.parametrize("kind", [PARQUET, ARROW])
def test_a_body_cut_short_is_refused(gateway: Gateway, lake: Lake, kind: str) -> None:
    table = make_table(lake, id="BIGINT")
    body = WRITERS[kind](pa.table({"id": pa.array(range(10_000), pa.int64())}))
    for cut in (len(body) // 2, len(body) - 12):
        with pytest.raises(InvalidData):
            gateway.append(T, io.BytesIO(body[:cut]), kind)
    assert table.latest() is None


def test_damage_inside_a_parquet_body_is_refused(gateway: Gateway, lake: Lake) -> None:
    table = make_table(lake, id="BIGINT")
    body = bytearray(parquet(pa.table({"id": pa.array(range(100_000), pa.int64())})))
    body[100:4000] = bytes(3900)
    with pytest.raises(InvalidData, match=r"damaged|cannot be read"):
        gateway.append(T, io.BytesIO(bytes(body)), PARQUET)
    assert table.latest() is None


def test_text_is_not_turned_into_numbers_where_the_body_has_types(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="BIGINT")
    with pytest.raises(InvalidData, match="Column id: string is not converted to BIGINT"):
        gateway.append(T, io.BytesIO(arrow(pa.table({"id": ["1"]}))), ARROW)


@pytest.mark.parametrize("kind", [CSV, NDJSON])
def test_a_number_with_an_exponent_far_off_is_judged_by_its_value(gateway: Gateway, lake: Lake, kind: str) -> None:
    """In a column, and as the default of one, which this process reads: Arrow would end it."""
    gateway.run("CREATE TABLE t (a DECIMAL(10, 2))").close()
    body = "a\n{}\n" if kind == CSV else '{{"a": "{}"}}'
    gateway.append(T, io.BytesIO(body.format("0e-600000000").encode()), kind)
    gateway.append(T, io.BytesIO(body.format("1." + "0" * 200_000).encode()), kind)
    with pytest.raises(InvalidData, match="Column a, row 1"):
        gateway.append(T, io.BytesIO(body.format("1e-600000000").encode()), kind)
    assert sorted(all_rows(gateway)) == [(Decimal(0),), (Decimal(1),)]
    with pytest.raises(LakeError, match="default"):
        gateway.run("CREATE TABLE u (a DECIMAL(10, 2) DEFAULT '1e-600000000')")


def test_csv_tells_null_from_the_empty_string(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", a="STRING", b="STRING")
    gateway.append(T, io.BytesIO(b'id,a,b\n1,,""\n2,"x,\n""y""", z \n,NULL,NA\n'), CSV)
    assert all_rows(gateway) == [(1, None, ""), (2, 'x,\n"y"', " z "), (None, "NULL", "NA")]


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b'id,x\n1,AP8=\n\n2,""\n,\n\n', CSV), (b'{"id": 1, "x": "AP8="}\n\n{"id": 2, "x": ""}\n{}\n\n', NDJSON)],
    ids=["csv", "ndjson"],
)
def test_binary_values_are_base64_and_blank_lines_are_no_rows(gateway: Gateway, lake: Lake, body: bytes, kind: str) -> None:
    make_table(lake, id="INT", x="BYTES")
    gateway.append(T, io.BytesIO(body), kind)
    assert all_rows(gateway) == [(1, b"\x00\xff"), (2, b""), (None, None)]
    with pytest.raises(InvalidData, match="x"):
        gateway.append(T, io.BytesIO(body.replace(b"AP8=", b"AP8*")), kind)


@pytest.mark.parametrize("type_", ["INT", "DECIMAL(9, 2)"])
@pytest.mark.parametrize(("kind", "body"), [(CSV, b"id,x\n1,2\n"), (NDJSON, b'{"id": 1, "x": 2}\n')], ids=["csv", "ndjson"])
def test_a_body_may_begin_with_a_byte_order_mark(gateway: Gateway, lake: Lake, type_: str, kind: str, body: bytes) -> None:
    """And has none anywhere else."""
    make_table(lake, id="INT", x=type_)
    gateway.append(T, io.BytesIO(BOM_UTF8 + body), kind)
    assert all_rows(gateway) == [(1, 2)]
    with pytest.raises(LakeError):
        gateway.append(T, io.BytesIO(body + BOM_UTF8 + body), kind)


def test_csv_reads_every_simple_type(gateway: Gateway, lake: Lake) -> None:
    make_table(
        lake, i="INT", d="DOUBLE", n="DECIMAL(10, 2)", o="BOOLEAN", x="BYTES", a="DATE", m="TIME(3)", t="TIMESTAMP(3)", z="TIMESTAMP_LTZ(6)"
    )
    text = "i,d,n,o,x,a,m,t,z\n-1,1e3,1.5,true,AP8=,2024-02-29,23:59:59.5,2024-02-29 10:00:00.5,2024-02-29T10:00:00.123456+01:00\n"
    gateway.append(T, io.BytesIO(text.encode()), "text/csv; charset=utf-8")
    assert all_rows(gateway) == [
        (
            -1, 1000.0, Decimal("1.50"), True, b"\x00\xff", dt.date(2024, 2, 29), dt.time(23, 59, 59, 500000),
            dt.datetime(2024, 2, 29, 10, 0, 0, 500000), dt.datetime(2024, 2, 29, 9, 0, 0, 123456, tzinfo=dt.UTC),
        )
    ]  # fmt: skip


def test_ndjson_reads_every_type(gateway: Gateway, lake: Lake) -> None:
    make_table(
        lake, i="BIGINT", d="DOUBLE", n="DECIMAL(38, 10)", o="BOOLEAN", x="BYTES", a="DATE", m="TIME(3)", t="TIMESTAMP(3)",
        z="TIMESTAMP_LTZ(6)", r="ARRAY<INT>", p="MAP<INT, STRING>",
    )  # fmt: skip
    lines = (
        '{"i": "9223372036854775807", "d": "NaN", "n": 1234567890123456789012345678.0123456789, "o": false, "x": "AP8=", "a": "2024-02-29",'
        ' "m": "10:00:00", "t": "2024-02-29T10:00:00.5", "z": "2024-02-29T10:00:00Z", "r": [1, null], "p": [[1, "a"], [2, null]]}\n\n'
        '{"d": 1, "n": "-0.5000000000000", "unused": null}'
    ).replace(', "unused": null', "")
    assert gateway.append(T, io.BytesIO(lines.encode()), NDJSON).rows == 2
    first, second = all_rows(gateway)
    assert repr(first[1]) == "nan"
    assert first[:1] + first[2:] == (
        2**63 - 1, Decimal("1234567890123456789012345678.0123456789"), False, b"\x00\xff", dt.date(2024, 2, 29), dt.time(10),
        dt.datetime(2024, 2, 29, 10, 0, 0, 500000), dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC), [1, None], [(1, "a"), (2, None)],
    )  # fmt: skip
    assert second == (None, 1.0, Decimal("-0.5"), *[None] * 8)


def any_row(dice: random.Random) -> dict[str, Any]:
    """A row of anything the columns can hold, a NULL in every fifth place."""
    text = "".join(chr(dice.choice([dice.randrange(0x80), dice.randrange(0xD800), dice.randrange(0xE000, 0x110000)])) for _ in range(6))
    row = {
        "i": dice.choice([0, -(2**63), 2**63 - 1, dice.randrange(-(2**63), 2**63)]),
        "s": text[: dice.randrange(7)],
        "x": dice.randbytes(dice.randrange(10)),
        "n": Decimal(dice.randrange(-(10**25), 10**25)).scaleb(-5),
        "t": dt.datetime(1, 1, 1) + dt.timedelta(days=dice.randrange(3_652_000), microseconds=dice.randrange(86_400_000_000)),
    }
    return {name: None if dice.random() < 0.2 else value for name, value in row.items()}


@pytest.mark.parametrize("seed", range(20))
def test_ndjson_comes_back_as_it_was_sent(gateway: Gateway, lake: Lake, seed: int) -> None:
    dice = random.Random(seed)
    rows, size = [any_row(dice) for _ in range(dice.randrange(1, 20))], dice.randrange(1, 200)
    make_table(lake, i="BIGINT", s="STRING", x="BYTES", n="DECIMAL(38, 5)", t="TIMESTAMP(6)")
    spelled: dict[str, Callable[[Any], Any]] = {
        "x": lambda v: base64.b64encode(v).decode(),
        "n": str,
        "t": dt.datetime.isoformat,
    }
    lines = [{k: None if v is None else spelled.get(k, lambda v: v)(v) for k, v in row.items()} for row in rows]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    gateway.append(T, Trickle(body, size), NDJSON)
    assert all_rows(gateway) == [tuple(row[name] for name in "isxnt") for row in rows]


class Trickle(io.BytesIO):
    """A body that comes in small pieces, as from a network."""

    def __init__(self, body: bytes, size: int) -> None:
        super().__init__(body)
        self._size = size

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._size if size is None or size < 0 else min(size, self._size))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_body_may_come_in_small_pieces(gateway: Gateway, lake: Lake, kind: str) -> None:
    make_table(lake, id="BIGINT", s="STRING")
    rows = pa.table({"id": pa.array(range(1000), pa.int64()), "s": [f"text {n}" for n in range(1000)]})
    gateway.append(T, Trickle(WRITERS[kind](rows), 777), kind)
    assert all_rows(gateway) == [(n, f"text {n}") for n in range(1000)]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_body_without_rows_commits_nothing(gateway: Gateway, lake: Lake, kind: str) -> None:
    table = make_table(lake, id="BIGINT")
    result = gateway.append(T, io.BytesIO(WRITERS[kind](pa.table({"id": pa.array([], pa.int64())}))), kind, idempotency_key="k")
    assert (result.rows, result.snapshot_id) == (0, None)
    assert table.latest() is None


@pytest.mark.parametrize("kind", WRITERS)
def test_a_repeat_under_a_key_is_answered_and_not_done(gateway: Gateway, lake: Lake, kind: str) -> None:
    make_table(lake, id="BIGINT")
    body = WRITERS[kind](pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
    first = gateway.append(T, io.BytesIO(body), kind, idempotency_key="once", caller=ME)
    again = gateway.append(T, io.BytesIO(body), kind, idempotency_key="once", caller=ME)
    assert (first.rows, first.snapshot_id, first.replayed) == (3, 1, False)
    assert (again.rows, again.snapshot_id, again.replayed) == (3, 1, True)
    assert len(all_rows(gateway)) == 3
    gateway.append(T, io.BytesIO(body), kind, idempotency_key="once", caller=Caller(principal="somebody else", administrator=True))
    assert len(all_rows(gateway)) == 6


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("change", ["ALTER TABLE t RENAME TO elsewhere", "DROP TABLE t"])
def test_a_repeat_is_answered_whatever_became_of_the_table(gateway: Gateway, lake: Lake, kind: str, change: str) -> None:
    """Else its sender would take it for not done, and send it to the table's new name."""
    make_table(lake, id="BIGINT")
    body = WRITERS[kind](pa.table({"id": pa.array(range(100_000), pa.int64())}))
    first = gateway.append(T, io.BytesIO(body), kind, idempotency_key="once", caller=ME)
    gateway.run(change).close()
    again = gateway.append(T, io.BytesIO(body), kind, idempotency_key="once", caller=ME)
    assert (again.rows, again.snapshot_id, again.replayed) == (first.rows, first.snapshot_id, True)
    with pytest.raises(IdempotencyMismatch):
        gateway.append(T, io.BytesIO(body + body), kind, idempotency_key="once", caller=ME)
    with pytest.raises(TableNotExist):
        gateway.append(T, io.BytesIO(body), kind, idempotency_key="another", caller=ME)
    with pytest.raises(TableNotExist):
        gateway.append(T, io.BytesIO(body), kind, caller=ME)


def test_another_body_under_a_key_is_refused(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="BIGINT")
    gateway.append(T, io.BytesIO(b"id\n1\n"), CSV, idempotency_key="once")
    with pytest.raises(IdempotencyMismatch):
        gateway.append(T, io.BytesIO(b"id\n2\n"), CSV, idempotency_key="once")


def test_a_key_comes_free_after_a_failure(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="BIGINT")
    for _ in range(2):
        with pytest.raises(InvalidData):
            gateway.append(T, io.BytesIO(b"id\nx\n"), CSV, idempotency_key="once")


def test_unknown_formats_and_tables_are_named(gateway: Gateway, lake: Lake) -> None:
    with pytest.raises(TableNotExist):
        gateway.append(T, io.BytesIO(b"id\n1\n"), CSV)
    make_table(lake, id="BIGINT")
    with pytest.raises(UnsupportedMediaType, match=r"application/xml are not read here; send one of application/vnd.apache.parquet"):
        gateway.append(T, io.BytesIO(b"<x/>"), "application/xml")


def test_a_body_whose_sender_goes_away_changes_nothing(gateway: Gateway, lake: Lake) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            chunk = super().read(size)
            if not chunk:
                raise InvalidData("The body ended before all of it was sent.")
            return chunk

    table = make_table(lake, id="BIGINT")
    for kind, writer in WRITERS.items():
        with pytest.raises(LakeError):
            gateway.append(T, Broken(writer(pa.table({"id": pa.array(range(100), pa.int64())}))[:-1]), kind)
    assert table.latest() is None
    assert files_under(table) == []
