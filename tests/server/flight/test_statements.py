"""Arrow Flight SQL as ADBC's users have it: values, parameters, metadata, bulk ingest, sessions, errors."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from adbc_driver_manager import OperationalError, ProgrammingError
from adbc_driver_manager.dbapi import Connection, Cursor

from server.flight import pending
from server.flight.statements import MESSAGE_BYTES, pieces
from server.flight.wire import received
from server.flight.wire.messages import message, packed, unpacked
from tests.server.flight.conftest import Endpoint, rows
from tests.waiting import eventually

ALL = (
    "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, d DECIMAL(10, 2), s STRING, c CHAR(3), v BYTES, "
    "dt DATE, tm TIME, ts3 TIMESTAMP(3), ts6 TIMESTAMP(6), lz TIMESTAMP_LTZ(3), a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y STRING>"
)
VALUES = (
    "TRUE, CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, 4, CAST(1.5 AS FLOAT), CAST(2.5 AS DOUBLE), 3.25, 'é日😀', 'abc', X'00ff', "
    "DATE '2024-02-29', TIME '01:02:03', TIMESTAMP '2024-01-02 03:04:05.678', TIMESTAMP '2024-01-02 03:04:05.678901', "
    "TIMESTAMP '2024-01-02 03:04:05', ARRAY[1, NULL], MAP['k', 1], ROW(7, 'seven')"
)


def test_every_type_null_and_the_empty_result_come_back_as_arrow_has_them(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.execute(f"CREATE TABLE everything ({ALL})")
    schema = pa.schema(
        [
            ("b", pa.bool_()), ("i1", pa.int8()), ("i2", pa.int16()), ("i4", pa.int32()), ("i8", pa.int64()), ("f4", pa.float32()),
            ("f8", pa.float64()), ("d", pa.decimal128(10, 2)), ("s", pa.string()), ("c", pa.string()), ("v", pa.binary()),
            ("dt", pa.date32()), ("tm", pa.time32("ms")), ("ts3", pa.timestamp("ms")), ("ts6", pa.timestamp("us")),
            ("lz", pa.timestamp("ms", "UTC")), ("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32())),
            ("r", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ]
    )  # fmt: skip
    cursor.execute("SELECT * FROM everything")
    empty = cursor.fetch_arrow_table()
    assert (empty.num_rows, [f.type for f in empty.schema], empty.schema.names) == (0, [f.type for f in schema], schema.names)
    row = (
        True, 1, 2, 3, 4, 1.5, 2.5, Decimal("3.25"), "é日😀", "abc", b"\x00\xff", dt.date(2024, 2, 29), dt.time(1, 2, 3),
        dt.datetime(2024, 1, 2, 3, 4, 5, 678000), dt.datetime(2024, 1, 2, 3, 4, 5, 678901), dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        [1, None], [("k", 1)], {"x": 7, "y": "seven"},
    )  # fmt: skip
    sent = pa.Table.from_arrays([pa.array([value, None], f.type) for value, f in zip(row, schema, strict=True)], schema=schema)
    assert cursor.adbc_ingest("everything", sent, mode="append") == 2
    with endpoint.services.gateway.run("SELECT * FROM everything") as over_http:
        assert over_http.collect() == [row, (None,) * len(row)]
    cursor.execute("SELECT * FROM everything")
    found = cursor.fetch_arrow_table()
    assert [tuple(values) for values in zip(*(column.to_pylist() for column in found.columns), strict=True)] == [row, (None,) * len(row)]
    told = {
        field.name: field.metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"].decode()
        for field in cursor.adbc_execute_schema("SELECT * FROM everything")
    }
    assert (told["d"], told["lz"], told["m"]) == ("DECIMAL(10, 2)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "MAP<STRING, INT>")


def test_statements_say_whether_they_give_rows_and_how_many_they_wrote(cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE words (id BIGINT, word STRING)")
    assert (cursor.rowcount, cursor.description) == (0, [])
    cursor.execute("INSERT INTO words VALUES (1, 'one'), (2, NULL), (3, '')")
    assert cursor.rowcount == 3
    assert rows(cursor, "SELECT word, id FROM words WHERE id > 1") == [(None, 2), ("", 3)]
    assert rows(cursor, "SHOW TABLES LIKE 'word%'") == [("words",)]
    assert rows(cursor, "DESCRIBE words")[0][:3] == ("id", "BIGINT", True)
    assert rows(cursor, "SELECT count(*) FROM words") == [(3,)]
    assert rows(cursor, "SELECT total_record_count FROM words$snapshots") == [(3,)]
    assert rows(cursor, "CALL sys.create_tag('words', 'v1')")[0][0] == "v1"


def test_a_prepared_statement_tells_what_there_is_when_it_is_run(endpoint: Endpoint, cursor: Cursor) -> None:
    with fl.connect(endpoint.url) as client:
        request = packed("ActionCreatePreparedStatementRequest", query="SHOW TABLES LIKE 'fresh%'")
        _, made = unpacked(next(client.do_action(fl.Action("CreatePreparedStatement", request))).body.to_pybytes())
        assert pa.ipc.read_schema(pa.py_buffer(made.dataset_schema)).names == ["table name"]
        asked = packed("CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle)
        for count in range(2):
            info = client.get_flight_info(fl.FlightDescriptor.for_command(asked))
            assert client.do_get(info.endpoints[0].ticket).read_all().to_pydict() == {"table name": ["fresh"][:count]}
            cursor.execute("CREATE TABLE IF NOT EXISTS fresh (a INT)")


def test_tickets_nobody_brings_are_bounded_and_a_refused_statement_did_nothing(
    endpoint: Endpoint, cursor: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor.execute("CREATE TABLE fetched (a INT)")
    monkeypatch.setattr(pending, "MOST_HELD", 6)
    insert = fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query="INSERT INTO fetched VALUES (1)"))
    with fl.connect(endpoint.url) as client:
        infos = [client.get_flight_info(insert) for _ in range(5)]
        with pytest.raises(fl.FlightError, match="wait to be fetched by their tickets"):
            client.get_flight_info(insert)
        client.do_get(infos[0].endpoints[0].ticket).read_all()
        infos.append(client.get_flight_info(insert))
        with pytest.raises(fl.FlightError, match="wait to be fetched by their tickets"):
            client.get_flight_info(insert)
        for info in infos[1:]:
            client.do_get(info.endpoints[0].ticket).read_all()
    assert rows(cursor, "SELECT COUNT(*) FROM fetched") == [(6,)]


def test_parameters_are_values_whatever_they_spell(cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE bound (id INT, s STRING, d DECIMAL(8, 2), ts TIMESTAMP(3))")
    hostile = "'); DROP TABLE bound; --"
    cursor.execute("INSERT INTO bound VALUES (?, ?, ?, ?)", (1, hostile, Decimal("1.50"), dt.datetime(2024, 1, 1)))
    assert cursor.rowcount == 1
    cursor.execute("INSERT INTO bound (id, s) VALUES (?, ?)", (2, None))
    assert rows(cursor, "SELECT * FROM bound WHERE id = ?", (1,)) == [(1, hostile, Decimal("1.50"), dt.datetime(2024, 1, 1))]
    assert rows(cursor, "SELECT id FROM bound WHERE s = ?", (hostile,)) == [(1,)]
    assert rows(cursor, "SELECT id FROM bound LIMIT ?", (1,)) == [(1,)]
    assert rows(cursor, "SELECT id FROM bound WHERE id = :one", (2,)) == [(2,)]
    with pytest.raises(ProgrammingError, match=r"takes 1 parameters, and 2 were sent"):
        cursor.execute("SELECT id FROM bound WHERE id = ?", (1, 2))
    with pytest.raises(ProgrammingError, match=r"InvalidParameter"):
        cursor.execute("SELECT id FROM bound WHERE id = ?")


def test_the_types_parameters_want_are_told_before_any_is_sent(cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE asked (id INT, s STRING, d DECIMAL(8, 2), day DATE)")
    told = cursor.adbc_prepare("SELECT id FROM asked WHERE ? < id AND d BETWEEN ? AND 9 AND day IN (?, ?) AND s = ? LIMIT ?")
    assert told is not None
    assert told.types == [pa.int32(), pa.decimal128(8, 2), pa.date32(), pa.date32(), pa.string(), pa.int32()]
    insert = cursor.adbc_prepare("INSERT INTO asked (day, id) VALUES (?, ?)")
    assert insert is not None
    assert insert.types == [pa.date32(), pa.int32()]


def test_many_rows_of_parameters_are_one_commit(cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE many (id BIGINT, s STRING)")
    cursor.executemany("INSERT INTO many (s, id) VALUES (?, ?)", [(f"row {i}", i) for i in range(1000)])
    assert cursor.rowcount == 1000
    assert rows(cursor, "SELECT id, s FROM many WHERE id = 999") == [(999, "row 999")]
    assert rows(cursor, "SELECT count(*) FROM many$snapshots") == [(1,)]


CASTS: dict[str, tuple[pa.Array, bool]] = {
    "STRING": (pa.array([7, -12]), True),
    "DECIMAL(10, 2)": (pa.array([Decimal("1.005"), Decimal("-1.005")]), True),
    "FLOAT": (pa.array([1e300, 1.5]), True),
    "TINYINT": (pa.array([1, 300]), False),
    "VARCHAR(2)": (pa.array(["ab", "abc"]), False),
    "INT": (pa.array([1, None, 3]), True),
}
"""Parameters, and whether an INSERT stores each."""


@pytest.mark.parametrize("type_", CASTS)
@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
def test_rows_that_need_the_casts_of_sql_are_stored_as_each_alone(
    cursor: Cursor, monkeypatch: pytest.MonkeyPatch, type_: str, few: bool
) -> None:
    """Bodies are held to their columns where an INSERT rounds and spells; what is too much for one statement stays refused."""
    monkeypatch.setattr(received, "_FEW_ROWS", 10 if few else 1)
    values, fits = CASTS[type_]
    name = f"alike_{list(CASTS).index(type_)}_{few}"
    cursor.execute(f"CREATE TABLE {name} (id INT, c {type_})")
    insert = f"INSERT INTO {name} (c, id) VALUES (?, ?)"
    alone: list[str] = []
    for at in range(len(values)):
        try:
            cursor.executemany(insert, pa.table({"c": values[at : at + 1], "id": [at]}))
        except dbapi.Error as problem:
            alone.append(str(problem))
    assert not alone if fits else alone
    before = rows(cursor, f"SELECT id, c FROM {name}")
    many = pa.table({"c": values, "id": [100 + at for at in range(len(values))]})
    if fits and (few or values.null_count):
        cursor.executemany(insert, many)
        assert rows(cursor, f"SELECT id, c FROM {name} WHERE id >= 100") == [(100 + at, c) for at, c in before]
        assert rows(cursor, f"SELECT count(*) FROM {name}$snapshots") == [(len(values) + 1,)]
    else:
        with pytest.raises(
            dbapi.Error, match="is out of range|at most 2 characters|VARCHAR" if few else "does not fit|not converted|VARCHAR"
        ):
            cursor.executemany(insert, many)
        assert rows(cursor, f"SELECT id, c FROM {name}") == before


def test_a_row_of_parameters_that_fails_says_how_many_took_effect(cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE some (id INT)")
    with pytest.raises(ProgrammingError, match=r"Took effect before it: the first 2 of 4 rows of parameters"):
        cursor.executemany("INSERT INTO some VALUES (?), (7)", [(1,), (2,), (2**40,), (4,)])
    assert rows(cursor, "SELECT count(*) FROM some") == [(4,)]


def test_rows_in_bulk_make_append_to_and_replace_tables_each_in_one_commit(cursor: Cursor) -> None:
    first, second = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]}), pa.table({"b": ["y"], "a": [5]})
    assert cursor.adbc_ingest("bulk", first, mode="create") == 3
    with pytest.raises(ProgrammingError, match=r"TableAlreadyExist: Table default.bulk already exists"):
        cursor.adbc_ingest("bulk", first, mode="create")
    assert cursor.adbc_ingest("bulk", second, mode="append") == 1
    assert cursor.adbc_ingest("bulk", first, mode="create_append") == 3
    with pytest.raises(ProgrammingError, match="absent"):
        cursor.adbc_ingest("absent", first, mode="append")
    assert rows(cursor, "SELECT commit_kind, total_record_count FROM bulk$snapshots ORDER BY snapshot_id") == [
        ("APPEND", 3), ("APPEND", 4), ("APPEND", 7),
    ]  # fmt: skip
    assert cursor.adbc_ingest("bulk", second, mode="replace") == 1
    assert rows(cursor, "SELECT a, b FROM bulk") == [(5, "y")]
    assert cursor.adbc_ingest("bulk", pa.table({"z": [1.5]}), mode="replace") == 1
    assert rows(cursor, "SELECT * FROM bulk") == [(1.5,)]
    with pytest.raises(ProgrammingError, match=r"Column z, row 2"):
        cursor.adbc_ingest("bulk", pa.table({"z": pa.array([1, 2**62 + 1])}), mode="append")
    with pytest.raises(ProgrammingError, match=r"no column type here"):
        cursor.adbc_ingest("odd", pa.table({"z": pa.array([1], pa.duration("s"))}), mode="create")
    assert rows(cursor, "SHOW TABLES LIKE 'odd'") == []


def test_a_table_stays_where_the_rows_that_were_to_replace_it_do_not_fit(cursor: Cursor) -> None:
    cursor.adbc_ingest("stays", pa.table({"a": [1, 2]}), mode="create")
    with pytest.raises(ProgrammingError, match=r"Column t, row 1.*does not fit TIMESTAMP\(6\)"):
        cursor.adbc_ingest("stays", pa.table({"t": pa.array([1], pa.timestamp("ns"))}), mode="replace")
    assert rows(cursor, "SELECT a FROM stays") == [(1,), (2,)]
    cursor.adbc_ingest("stays", pa.table({"t": pa.array([1000], pa.timestamp("ns"))}), mode="replace")
    assert rows(cursor, "SELECT commit_kind, delta_record_count FROM stays$snapshots ORDER BY snapshot_id") == [
        ("APPEND", 2), ("OVERWRITE", -1),
    ]  # fmt: skip


def test_no_map_with_one_key_twice_comes_in_bulk(cursor: Cursor) -> None:
    type_ = pa.map_(pa.string(), pa.int32())
    cursor.adbc_ingest("maps", pa.table({"id": [1], "m": pa.array([[("a", 1)]], type_)}), mode="create")
    with pytest.raises(ProgrammingError, match=r"Column m, row 2: the MAP has the key 'a' twice"):
        cursor.adbc_ingest("maps", pa.table({"id": [2, 3], "m": pa.array([[("b", 1)], [("a", 1), ("a", 2)]], type_)}), mode="append")
    assert rows(cursor, "SELECT count(*) FROM maps") == [(1,)]


def test_a_table_made_for_rows_that_do_not_fit_is_gone_again(endpoint: Endpoint, cursor: Cursor) -> None:
    finer = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(ProgrammingError, match=r"Column t, row 1.*does not fit TIMESTAMP\(6\)"):
        cursor.adbc_ingest("finer", finer, mode="create")
    assert rows(cursor, "SHOW TABLES LIKE 'finer'") == []


def test_pandas_and_polars_read_and_write(connection: Any) -> None:
    frame = pd.DataFrame({"a": [1, 2], "t": pd.to_datetime(["2020-01-01", "2021-06-01"]), "n": [None, None], "s": ["x", None]})
    assert frame.to_sql("frames", connection, index=False, if_exists="replace") == 2
    assert frame.to_sql("frames", connection, index=False, if_exists="append") == 2
    back = pd.read_sql("SELECT a, t, s FROM frames WHERE a = 2", connection)
    assert [list(row) for row in back.itertuples(index=False)] == [[2, pd.Timestamp("2021-06-01"), None]] * 2
    assert pl.DataFrame({"k": [1, 2], "v": ["é", None]}).write_database("polar", connection, engine="adbc", if_table_exists="replace") == 2
    assert pl.read_database("SELECT * FROM polar", connection).rows() == [(1, "é"), (2, None)]


def test_the_tree_of_catalog_databases_tables_and_columns(connection: Connection, cursor: Cursor) -> None:
    cursor.execute("CREATE DATABASE shop")
    cursor.execute("CREATE TABLE shop.`or%ders` (id BIGINT NOT NULL COMMENT 'the key', price DECIMAL(10, 2))")
    cursor.execute("CREATE TABLE shop.orXders (id BIGINT NOT NULL COMMENT 'the key')")
    (tree,) = connection.adbc_get_objects(depth="all", db_schema_filter="sh_p", table_name_filter=r"or\%ders").read_all().to_pylist()
    assert tree["catalog_name"] == "sluice"
    (schema,) = tree["catalog_db_schemas"]
    (table,) = schema["db_schema_tables"]
    assert (schema["db_schema_name"], table["table_name"], table["table_type"]) == ("shop", "or%ders", "TABLE")
    assert [(c["column_name"], c["xdbc_type_name"]) for c in table["table_columns"]] == [
        ("id", "BIGINT"), ("price", "DECIMAL(10, 2)"),
    ]  # fmt: skip
    described = connection.adbc_get_table_schema("orXders", db_schema_filter="shop").field("id")
    assert (described.nullable, described.metadata[b"ARROW:FLIGHT:SQL:REMARKS"]) == (False, b"the key")
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    assert connection.adbc_get_info()["vendor_name"] == "Sluice"


LITERALLY = {
    "CommandGetCatalogs": "catalog_name",
    "CommandGetDbSchemas": "catalog_name db_schema_name",
    "CommandGetTables": "catalog_name db_schema_name table_name table_type",
    "CommandGetTableTypes": "table_type",
    "CommandGetPrimaryKeys": "catalog_name db_schema_name table_name column_name key_name key_sequence",
    "CommandGetExportedKeys": (
        "pk_catalog_name pk_db_schema_name pk_table_name pk_column_name fk_catalog_name fk_db_schema_name fk_table_name fk_column_name "
        "key_sequence fk_key_name pk_key_name update_rule delete_rule"
    ),
    "CommandGetSqlInfo": "info_name value",
    "CommandGetXdbcTypeInfo": (
        "type_name data_type column_size literal_prefix literal_suffix create_params nullable case_sensitive searchable unsigned_attribute "
        "fixed_prec_scale auto_increment local_type_name minimum_scale maximum_scale sql_data_type datetime_subcode num_prec_radix "
        "interval_precision"
    ),
}
LITERALLY |= dict.fromkeys(("CommandGetImportedKeys", "CommandGetCrossReference"), LITERALLY["CommandGetExportedKeys"])


@pytest.mark.parametrize("command", LITERALLY)
def test_metadata_has_the_columns_drivers_compare(endpoint: Endpoint, cursor: Cursor, command: str) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS listed (a INT)")
    with fl.connect(endpoint.url) as client:
        descriptor = fl.FlightDescriptor.for_command(packed(command))
        info = client.get_flight_info(descriptor)
        found = client.do_get(info.endpoints[0].ticket).read_all()
        assert client.get_schema(descriptor).schema == info.schema == found.schema
        assert found.schema.names == LITERALLY[command].split()
        found.validate(full=True)
        assert (found.num_rows == 0) == ("Key" in command or "Cross" in command)
        name, _ = unpacked(info.endpoints[0].ticket.ticket)
        assert name == command


def test_the_server_knows_itself_in_all_a_driver_may_ask(endpoint: Endpoint) -> None:
    with fl.connect(endpoint.url) as client:

        def ask(*numbers: int) -> dict[int, Any]:
            info = client.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandGetSqlInfo", info=numbers)))
            return {row["info_name"]: row["value"] for row in client.do_get(info.endpoints[0].ticket).read_all().to_pylist()}

        assert ask(0, 504, 8, 100_000) == {0: "Sluice", 504: "`", 8: 0}
        assert set(range(500, 577)) <= set(ask())


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("SELECT * FROM xyzzy", ProgrammingError, r"NOT_FOUND.*TableNotExist: Table default.xyzzy does not exist\. \(line 1, column 15\)"),
        ("SELEC 1", ProgrammingError, r"INVALID_ARGUMENT.*SqlSyntaxError"),
        (" ", ProgrammingError, r"INVALID_ARGUMENT.*no statement"),
        (f"SELECT {'(' * 3000}", ProgrammingError, r"nested too deeply\. \(line 1\)"),
        ("SELECT 1 + 1", OperationalError, r"Unavailable: There is no Spark"),
    ],
)
def test_failures_are_told_in_our_words_and_without_our_stack(cursor: Cursor, text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as told:
        cursor.execute(text)
    assert "Traceback" not in str(told.value)
    assert ".py" not in str(told.value)


def test_what_is_not_of_the_protocol_is_refused(endpoint: Endpoint) -> None:
    with fl.connect(endpoint.url) as client:
        for descriptor in (
            fl.FlightDescriptor.for_path("a"),
            fl.FlightDescriptor.for_command(b"\xff\xff"),
            fl.FlightDescriptor.for_command(b""),
        ):
            with pytest.raises(pa.ArrowInvalid, match="BadRequest"):
                client.get_flight_info(descriptor)
        with pytest.raises(pa.ArrowNotImplementedError, match="BeginTransaction"):
            list(client.do_action(fl.Action("BeginTransaction", b"")))
        in_one = packed("CommandStatementQuery", query="SHOW TABLES", transaction_id=b"t")
        with pytest.raises(pa.ArrowNotImplementedError, match="no transactions"):
            client.get_flight_info(fl.FlightDescriptor.for_command(in_one))
        with pytest.raises(pa.ArrowKeyError, match="no prepared statement"):
            client.get_flight_info(fl.FlightDescriptor.for_command(packed("CommandPreparedStatementQuery", prepared_statement_handle=b"x")))
        assert {action.type for action in client.list_actions()} >= {"CreatePreparedStatement", "CancelFlightInfo"}
        assert list(client.list_flights()) == []


def test_a_result_is_read_once_canceled_or_freed(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.adbc_ingest("once", pa.table({"a": range(100)}), mode="create")
    command = fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query="SELECT * FROM once"))
    with fl.connect(endpoint.url) as client:
        info = client.get_flight_info(command)
        assert endpoint.endpoint.held() == 1
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 100
        with pytest.raises(pa.ArrowKeyError, match="fetched before"):
            client.do_get(info.endpoints[0].ticket).read_all()
        info = client.get_flight_info(command)
        cancel = fl.Action("CancelFlightInfo", message("CancelFlightInfoRequest", info=info.serialize()).SerializeToString())
        statuses = [next(client.do_action(cancel)).body.to_pybytes() for _ in range(2)]
        assert statuses == [message("CancelFlightInfoResult", status=one).SerializeToString() for one in (1, 3)]
        with pytest.raises(pa.ArrowKeyError, match="canceled"):
            client.do_get(info.endpoints[0].ticket).read_all()
    assert endpoint.endpoint.held() == 0


def test_batches_are_cut_to_what_a_message_holds() -> None:
    batch = pa.record_batch([pa.array(["x" * 1000] * 40_000)], names=["s"])
    parts = list(pieces(batch))
    assert all(part.nbytes <= MESSAGE_BYTES for part in parts)
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    uneven = pa.record_batch([pa.array(["x"] * 10 + ["y" * (6 << 20)] * 3)], names=["s"])
    assert [part.num_rows for part in pieces(uneven)][-3:] == [1, 1, 1]


def test_large_batches_arrive_whole(cursor: Cursor) -> None:
    sent = pa.table({"s": ["x" * 1000] * 40_000, "n": range(40_000)})
    assert cursor.adbc_ingest("wide", pa.RecordBatchReader.from_batches(sent.schema, sent.to_batches(5_000)), mode="create") == 40_000
    cursor.execute("SELECT * FROM wide")
    assert cursor.fetch_arrow_table().sort_by("n").equals(sent)


def test_statements_and_ingests_are_counted_and_noted(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.adbc_ingest("noted", pa.table({"a": [1]}), mode="create")
    cursor.close()
    with dbapi.connect(endpoint.url, autocommit=True) as fresh, fresh.cursor() as asking:
        rows(asking, "SELECT a FROM noted")
        asked = "SELECT action, protocol, outcome, address FROM sys.audit_log WHERE action LIKE '%noted%' ORDER BY time"
        assert eventually(lambda: len(rows(asking, asked)) >= 2)
        assert rows(asking, asked)[:2] == [
            ("INGEST default.noted (fail)", "flight", "FINISHED", "127.0.0.1"), ("SELECT a FROM noted", "flight", "FINISHED", "127.0.0.1"),
        ]  # fmt: skip
    text = endpoint.app.test_client().get("/metrics").text
    assert 'sluice_request_seconds_count{method="DoPut",protocol="flight",status="200"}' in text
