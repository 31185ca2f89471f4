"""The driver and the dialect against a real server with Spark: values there and back, errors, streams, frames, browsing."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sluice
from tests.lake.register.damage import leave_behind
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.spark

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["\\", "'", "\\'", "%_\\%", "\0", "a\nb", '"', "`;--", "\\u0041", "$x", "{y}"]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals(-(10**15), 10**15, places=4, allow_nan=False),
    st.binary(max_size=20),
    st.dates(dt.date(1900, 1, 1)),
    st.datetimes(dt.datetime(1900, 1, 1)),
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(9999, 1, 1), timezones=st.just(dt.UTC)),
)


def shown(value: Any) -> str:
    """A value with its type and all its digits; an instant whatever object stands for its zone, and not which of two equal hours it is."""
    if isinstance(value, dt.datetime):
        value = (value.astimezone(dt.UTC) if value.tzinfo else value).replace(fold=0)
    return repr(value)


def test_values_come_back_from_spark_as_they_were_sent(conn: sluice.Connection) -> None:
    """Nothing in a value is read as SQL, nothing is rounded, every type is kept."""

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(values=st.lists(SCALARS, min_size=20, max_size=40))
    def check(values: list[Any]) -> None:
        row = conn.execute(f"SELECT {', '.join('?' * len(values))}", values).fetchone()
        assert row is not None
        assert [shown(value) for value in row] == [shown(value) for value in values]

    check()
    nested = [sluice.Typed("ARRAY<DATE>", ["2024-02-29", None]), sluice.Typed("ROW<a INT, b STRING>", {"a": 1, "b": "x"})]
    assert conn.execute("SELECT ?, ?", nested).fetchone() == ([dt.date(2024, 2, 29), None], {"a": 1, "b": "x"})
    assert conn.execute("SELECT :a + :a, :b", {"a": 2, "b": float("inf")}).fetchall() == [(4, float("inf"))]


def test_a_cursor_s_life(conn: sluice.Connection) -> None:
    cursor = conn.cursor()
    cursor.execute("CREATE TABLE t (id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3), day DATE)")
    assert (cursor.description, cursor.rowcount) == (None, -1)
    with pytest.raises(sluice.ProgrammingError, match="no result to fetch"):
        cursor.fetchone()
    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 5000)
    rows = [(n, f"it's {n}", Decimal("1.20"), moment, None) for n in range(2500)]
    cursor.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    assert cursor.rowcount == 2500
    assert conn.execute("SELECT COUNT(*) FROM t$snapshots").fetchone() == (1,), "one commit"
    cursor.executemany("INSERT INTO t (id, name) VALUES (?, ?)", [(9000, "a"), (9001, None)])
    cursor.executemany("INSERT INTO t (id, day) VALUES (?, ?)", [(9002, sluice.Typed("DATE", "2024-02-29"))])
    assert cursor.rowcount == 1
    cursor.execute("INSERT INTO t (id) VALUES (?)", [9003])
    assert cursor.rowcount == 1
    cursor.execute("SELECT id, name, price, at, day FROM t WHERE id < 2500 ORDER BY id")
    assert cursor.description is not None
    assert [(one[0], one[1]) for one in cursor.description] == [
        ("id", "BIGINT"), ("name", "STRING"), ("price", "DECIMAL(10,2)"), ("at", "TIMESTAMP(3)"), ("day", "DATE")
    ]  # fmt: skip
    assert cursor.description[0][1] == sluice.NUMBER
    assert cursor.description[2][1] == sluice.NUMBER
    assert cursor.description[3][1] == sluice.DATETIME != sluice.STRING
    assert (cursor.description[2][4], cursor.description[2][5]) == (10, 2)
    assert cursor.fetchone() == rows[0]
    assert cursor.fetchmany(2) == rows[1:3]
    assert len(cursor.fetchmany()) == cursor.arraysize
    assert len(cursor.fetchall()) + cursor.arraysize + 3 == 2500
    assert cursor.fetchone() is None
    cursor.close()
    with pytest.raises(sluice.InterfaceError):
        cursor.execute("SHOW TABLES")
    with pytest.raises(sluice.NotSupportedError):
        conn.rollback()
    conn.commit()


@pytest.mark.parametrize(
    ("text", "values", "kind", "error_class", "place"),
    [
        ("SELEC 1", None, sluice.ProgrammingError, "SqlSyntaxError", (1, 1)),
        ("SELECT * FROM\n nothing", None, sluice.ProgrammingError, "TableNotExist", (2, 2)),
        ("SELECT 1 / ?", [0], sluice.DataError, "ExecutionError", None),
        ("SELECT ?", [], sluice.ProgrammingError, "InvalidParameter", (1, 8)),
        ("DELETE FROM t", None, sluice.NotSupportedError, "UnsupportedStatement", (1, 13)),
    ],
)
def test_what_goes_wrong_has_its_kind_and_place(
    conn: sluice.Connection, text: str, values: list[Any] | None, kind: type[sluice.Error], error_class: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(kind) as caught:
        conn.execute(text, values).fetchall()
    assert caught.value.error_class == error_class
    assert place is None or caught.value.place == place


def test_nobody_there_and_values_without_a_type() -> None:
    with sluice.connect("http://127.0.0.1:9") as nowhere, pytest.raises(sluice.OperationalError, match="cannot be reached"):
        nowhere.execute("SHOW TABLES")
    with pytest.raises(sluice.ProgrammingError, match=r'sluice\.Typed\("ARRAY<INT>"'), sluice.connect("http://127.0.0.1:9") as nowhere:
        nowhere.execute("SELECT ?", [[1, 2]])


def test_a_running_statement_is_canceled_from_another_thread(conn: sluice.Connection) -> None:
    cursor, failures = conn.cursor(), []

    def run() -> None:
        try:
            cursor.execute("SELECT COUNT(*) FROM range(0, 20000000000, 1, 10000) WHERE sin(id) > 2")
        except sluice.OperationalError as error:
            failures.append(error.error_class)

    def ask_to_end() -> bool:
        with contextlib.suppress(sluice.ProgrammingError):  # it does not run yet, or no more
            cursor.cancel()
        return bool(failures)

    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(ask_to_end, pause=0.3)
    thread.join(30)
    assert failures == ["StatementCanceled"]


def test_a_cancel_waits_for_its_statement_while_another_server_is_silent(conn: sluice.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the name may be the one that does not answer, or the statement is on its way."""
    cursor, answers = conn.cursor(), [503, 404, 503]
    real = conn.request

    def request(method: str, path: str, **more: object) -> object:
        if method != "DELETE":
            return real(method, path, **more)
        status = answers.pop(0)
        raise (sluice.ProgrammingError if status == 404 else sluice.OperationalError)("unsure", status=status)

    monkeypatch.setattr(conn, "request", request)
    cursor._request_id, cursor._asking = "sent", True
    with pytest.raises(IndexError):  # it was asked each time
        cursor.cancel()
    answers[:], cursor._asking = [503], False
    with pytest.raises(sluice.OperationalError, match="unsure"):
        cursor.cancel()


def test_a_stream_hands_over_rows_as_they_are_committed(conn: sluice.Connection) -> None:
    conn.execute("CREATE TABLE t (n INT)")
    rows = conn.stream("SELECT n FROM t")
    for n in range(2):
        conn.execute("INSERT INTO t VALUES (?)", [n])
        assert next(rows).to_pydict() == {"n": [n]}
    rows.close()


IDLE = "CREATE TABLE %s (id INT) WITH ('page-size' = '32 kb')"
"""An option without effect, of which the server tells."""


def test_a_cursor_has_what_is_told_beside_the_rows(server: RunningServer, database: str, conn: sluice.Connection) -> None:
    cursor = conn.cursor()
    cursor.execute(IDLE % "a")
    ((kind, warning),) = cursor.messages
    assert (kind, "'page-size'" in str(warning)) == (sluice.Warning, True)
    cursor.execute("INSERT INTO a VALUES (1)")
    assert cursor.messages == []
    leave_behind(server.table_path(f"{database}.a"))
    assert eventually(lambda: bool(cursor.execute("SELECT id FROM a").messages))
    assert cursor.fetchall() == [(1,)]
    ((_, behind),) = cursor.messages
    assert f"{database}.a is shown as the catalog knows it" in str(behind)
    cursor.executemany("SELECT id FROM a WHERE id = ?", [(1,), (2,)])
    assert [str(one) for _, one in cursor.messages] == [str(behind)]
    with conn.stream("SELECT id FROM a") as rows:
        assert [str(one) for _, one in rows.messages] == [str(behind)]
    conn.execute("CALL sys.repair_table('a')")


def test_what_is_told_beside_the_rows_is_a_warning_of_sqlalchemy(server: RunningServer, database: str) -> None:
    engine = engine_of(server, database)
    with engine.connect() as sql:
        with pytest.warns(sa.exc.SAWarning, match="'page-size'"):
            sql.execute(sa.text(IDLE % "b"))
        with pytest.warns(sa.exc.SAWarning, match="'page-size'"):
            sql.exec_driver_sql(IDLE % "c", execution_options={"no_parameters": True})
    engine.dispose()


def engine_of(server: RunningServer, database: str) -> sa.Engine:
    return sa.create_engine(f"{server.url.replace('http', 'sluice', 1)}/{database}")


def test_pandas_reads_and_appends_through_sqlalchemy(server: RunningServer, database: str, conn: sluice.Connection) -> None:
    engine = engine_of(server, database)
    frame = pd.DataFrame({"Id": [1, 2, 3], "name": ["a", None, "it's"], "x": [1.5, 2.5, None], "at": pd.to_datetime(["2024-02-29"] * 3)})
    frame.to_sql("new one", engine, index=False, if_exists="append")
    frame.to_sql("new one", engine, index=False, if_exists="append")
    back = pd.read_sql(sa.text("SELECT * FROM `new one` WHERE `Id` > :low ORDER BY `Id`"), engine, params={"low": 1})
    assert back["Id"].tolist() == [2, 2, 3, 3]
    assert pd.read_sql_table("new one", engine)["name"].isna().sum() == 2
    assert conn.execute("SELECT COUNT(*) FROM `new one$snapshots`").fetchone() == (2,)
    assert conn.execute("SELECT * FROM `new one`").fetch_df().shape == (6, 4)
    assert isinstance(conn.execute("SELECT `Id` FROM `new one`").fetch_arrow(), pa.Table)
    engine.dispose()


def test_a_tool_browses_and_queries(server: RunningServer, database: str, conn: sluice.Connection) -> None:
    conn.execute("CREATE TABLE a (id INT NOT NULL, d DECIMAL(10, 2), z TIMESTAMP_LTZ(3), l ARRAY<INT>)")
    conn.execute("CREATE VIEW v AS SELECT id FROM a")
    engine = engine_of(server, database)
    found = sa.inspect(engine)
    assert database in found.get_schema_names()
    assert found.default_schema_name == database
    assert (found.get_table_names(), found.get_view_names(schema=database)) == (["a"], ["v"])
    columns = found.get_columns("a")
    assert [(c["name"], str(c["type"]), c["nullable"]) for c in columns] == [
        ("id", "INTEGER", False), ("d", "DECIMAL(10, 2)", True), ("z", "TIMESTAMP", True), ("l", "NULL", True)
    ]  # fmt: skip
    assert (found.get_pk_constraint("a")["constrained_columns"], found.get_foreign_keys("a"), found.get_indexes("a")) == ([], [], [])
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("nothing")
    assert found.has_table("a")
    assert not found.has_table("a", schema="nothing")
    table = sa.Table("a", sa.MetaData(), sa.Column("id", sa.Integer), sa.Column("d", sa.Numeric(10, 2)))
    with engine.begin() as sql:
        sql.execute(sa.insert(table), [{"id": n, "d": Decimal(n)} for n in range(5)])
        picked = sa.select(table).where(table.c.id.in_([1, 2, 3])).order_by(table.c.id).limit(1).offset(1)
        assert sql.execute(picked).all() == [(2, Decimal("2.00"))]
        assert sql.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 5
    engine.dispose()
