"""Flink's SQL client and JDBC driver, unmodified, on a running server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fix_server import StartServer
from tests.interop.conftest import ROOT
from tests.interop.flink_clients import PROMPT, JdbcFailure, JdbcUser, SqlClient
from tests.interop.flink_clients import jdbc as jdbc
from tests.interop.flink_clients import jdbc_class_path as jdbc_class_path
from tests.interop.flink_clients import jdbc_command as jdbc_command
from tests.interop.flink_clients import sql_client as sql_client
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.interop
PAGE = (ROOT / "docs" / "clients.md").read_text()
PAGE_URL = "http://127.0.0.1:8083"

COLUMNS = {
    "a_boolean": ("BOOLEAN", "TRUE"),
    "a_tinyint": ("TINYINT", "-1"),
    "a_smallint": ("SMALLINT", "300"),
    "an_int": ("INT", "70000"),
    "a_bigint": ("BIGINT", "9007199254740993"),
    "a_float": ("FLOAT", "1.5"),
    "a_double": ("DOUBLE", "1e300"),
    "a_decimal": ("DECIMAL(20, 2)", "1.10"),
    "a_string": ("STRING", "'täxt 🎈 \"x\"'"),
    "a_char": ("CHAR(3)", "'ab '"),
    "a_varchar": ("VARCHAR(5)", "'abc'"),
    "some_bytes": ("BYTES", "x'00ff'"),
    "a_date": ("DATE", "DATE '2024-02-29'"),
    "a_second": ("TIMESTAMP(0)", "TIMESTAMP '2024-02-29 12:34:56'"),
    "a_milli": ("TIMESTAMP(3)", "TIMESTAMP '2024-02-29 12:34:56.5'"),
    "a_micro": ("TIMESTAMP(6)", "TIMESTAMP '2024-02-29 12:34:56.123456'"),
    "an_instant": ("TIMESTAMP_LTZ(3)", "TIMESTAMP '2024-02-29 12:34:56.5'"),
    "an_array": ("ARRAY<INT>", "ARRAY(1, NULL)"),
    "a_map": ("MAP<STRING, INT>", "MAP('a', 1)"),
    "a_map_of_days": ("MAP<DATE, INT>", "MAP(DATE '2024-02-29', 1)"),
    "a_row": ("ROW<x INT, y STRING>", "NAMED_STRUCT('x', 1, 'y', 'z')"),
}
IN_JDBC = [
    "Boolean true", "Byte -1", "Short 300", "Integer 70000", "Long 9007199254740993", "Float 1.5", "Double 1.0E300", "BigDecimal 1.10",
    'String täxt 🎈 "x"', "String ab ", "String abc", "byte[] [0, -1]", "Date 2024-02-29", "Timestamp 2024-02-29 12:34:56.0",
    "Timestamp 2024-02-29 12:34:56.5", "Timestamp 2024-02-29 12:34:56.123456", "Timestamp 2024-02-29 12:34:56.5",
    "refused: java.sql.SQLDataException: Not supported value type ARRAY<INT>", "TreeMap {a=1}", "TreeMap {2024-02-29=1}",
    "refused: java.sql.SQLDataException: Not supported value type ROW<`x` INT, `y` STRING>",
]  # fmt: skip
IN_SHELL = [
    "TRUE", "-1", "300", "70000", "9007199254740993", "1.5", "1.0E300", "1.10", 'täxt 🎈 "x"', "ab", "abc", "x'00ff'", "2024-02-29",
    "2024-02-29 12:34:56", "2024-02-29 12:34:56.500", "2024-02-29 12:34:56.123456", "2024-02-29 12:34:56.500", "[1, NULL]", "{a=1}",
    "{2024-02-29=1}", "(1, z)",
]  # fmt: skip


@pytest.fixture
def every_type(server: RunningServer, database: str) -> str:
    """A table with a column of each type, a row of values and a row of NULLs."""
    server.sql(f"CREATE TABLE {database}.e (id INT, {', '.join(f'{name} {type_}' for name, (type_, _) in COLUMNS.items())})")
    server.sql(f"INSERT INTO {database}.e SELECT 1, {', '.join(value for _, value in COLUMNS.values())}")
    server.sql(f"INSERT INTO {database}.e (id) VALUES (2)")
    return f"{database}.e"


def connect(jdbc: JdbcUser, server: RunningServer, path: str = "") -> Any:
    return jdbc("connect", server.url.replace("http", "jdbc:flink", 1) + path)


def streams(server: RunningServer) -> int:
    """How many streaming queries the server serves."""
    (value,) = re.findall(r"^sluice_streams (\S+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    return int(float(value))


def blocks(language: str) -> list[str]:
    """The page's code of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


# The JDBC driver


def test_a_url_names_catalog_database_and_settings(server: RunningServer, jdbc: JdbcUser, database: str) -> None:
    assert connect(jdbc, server) == connect(jdbc, server, "/sluice") == ["sluice", "default"]
    assert connect(jdbc, server, f"/sluice/{database}?table.local-time-zone=Asia/Tokyo") == ["sluice", database]
    (row,) = jdbc("query", "SELECT CAST(TIMESTAMP_SECONDS(0) AS TIMESTAMP_LTZ(3)) AS t")["rows"]
    assert row == ["Timestamp 1970-01-01 09:00:00.0"]
    assert jdbc("set", "true", key="sql-client.verbose") == "true"
    for wrong, told in (
        ("/nope", "There is no catalog nope; the catalog is called sluice."),
        ("/sluice/nope", "Database nope does not exist."),
    ):
        with pytest.raises(JdbcFailure, match=re.escape(told)):
            connect(jdbc, server, wrong)


def test_metadata_is_what_the_driver_has(server: RunningServer, jdbc: JdbcUser, database: str) -> None:
    assert connect(jdbc, server, f"/sluice/{database}") == ["sluice", database]
    assert jdbc("catalogs")["rows"] == [["String sluice"]]
    assert [f"String {database}", "String sluice"] in jdbc("schemas")["rows"]
    assert jdbc("use", "default") == "default"
    assert jdbc("metadata", "getIdentifierQuoteString") == "`"
    for call in ("getTables", "getColumns", "getPrimaryKeys", "getTableTypes"):  # docs/clients.md says so; no server can help
        with pytest.raises(JdbcFailure, match="UnsupportedOperationException"):
            jdbc("metadata", call)


def test_the_driver_writes_and_shows(server: RunningServer, jdbc: JdbcUser, database: str) -> None:
    connect(jdbc, server, f"/sluice/{database}")
    assert jdbc("execute", "CREATE TABLE t (a INT, b STRING)") == {}
    assert jdbc("execute", "INSERT INTO t VALUES (1, 'x'), (2, NULL)")["rows"] == [["Long 2", "Long 1"]]
    assert jdbc("execute", "SHOW TABLES")["rows"] == [["String t"]]
    assert [row[:2] for row in jdbc("execute", "DESCRIBE t")["rows"]] == [["String a", "String INT"], ["String b", "String STRING"]]
    assert jdbc("execute", "ALTER TABLE t ADD (c DOUBLE)") == {}
    assert jdbc("query", "SELECT * FROM t ORDER BY a") == {
        "columns": ["a INT", "b STRING", "c DOUBLE"],
        "rows": [["Integer 1", "String x", None], ["Integer 2", None, None]],
    }
    with pytest.raises(JdbcFailure, match=r"Caused by: TableNotExist: Table \w+\.xyzzy does not exist\. \(line 1, column 15\)\n"):
        jdbc("query", "SELECT * FROM xyzzy")


def test_the_driver_reads_every_type(server: RunningServer, jdbc: JdbcUser, every_type: str) -> None:
    connect(jdbc, server)
    found = jdbc("query", f"SELECT {', '.join(COLUMNS)} FROM {every_type} ORDER BY id")
    assert found["rows"] == [IN_JDBC, [None] * len(COLUMNS)]
    said = [type_.replace("ROW<x INT, y STRING>", "ROW<`x` INT, `y` STRING>") for type_, _ in COLUMNS.values()]
    told = [column.split(" ", 1)[1].replace(" NOT NULL", "") for column in found["columns"]]
    assert told == [type_.replace("MAP<DATE, INT>", "MAP<STRING, INT>") for type_ in said]
    assert jdbc("query", "SELECT NULL AS n, to_json(ARRAY(1, 2)) AS j")["rows"] == [[None, "String [1,2]"]]
    with pytest.raises(JdbcFailure, match=r"Not supported type\[INTERVAL DAY\(6\)"):
        jdbc("query", "SELECT INTERVAL '1' DAY AS d")


def test_the_driver_reads_many_pages_and_stops_a_stream(server: RunningServer, jdbc: JdbcUser, database: str) -> None:
    connect(jdbc, server, f"/sluice/{database}")
    jdbc("execute", "CREATE TABLE many (a BIGINT)")
    jdbc("execute", "INSERT INTO many SELECT id FROM range(12000)")
    assert jdbc("count", "SELECT a FROM many") == 12000
    jdbc("set", "streaming", key="execution.runtime-mode")
    assert len(jdbc("query", "SELECT a FROM many", rows=7000)["rows"]) == 7000
    assert eventually(lambda: streams(server) == 0)
    jdbc("cancel", "SELECT a FROM many")
    assert eventually(lambda: streams(server) == 0)


# The SQL client


@pytest.mark.torture
def test_the_client_runs_a_file(server: RunningServer, sql_client: SqlClient, every_type: str) -> None:
    database, table = every_type.split(".")
    init = sql_client.script("init.sql", f"SET 'sql-client.execution.result-mode' = 'tableau'; USE {database};")
    statements = f"""
        CREATE TABLE t (a INT, b STRING) COMMENT 'it;s ''one''';
        EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (1, 'x'); INSERT INTO t VALUES (2, NULL); END;
        -- not the ; end
        SELECT * FROM t ORDER BY a;
        SHOW TABLES;
        SHOW CURRENT DATABASE;
        SELECT INTERVAL '1' DAY AS d, INTERVAL '14' MONTH AS m;
        SET 'pipeline.name' = 'mine';
        SET;
        RESET;
        SET;
        SET 'sql-client.execution.result-mode' = 'tableau';
        SELECT {", ".join(COLUMNS)} FROM {table} ORDER BY id;
        SELECT b,
          nope FROM t;
        SHOW TABLES;
    """
    shown = sql_client.run(server.url, "-i", init, "-f", sql_client.script("file.sql", statements))
    assert "Successfully initialized from sql script" in shown
    assert "[INFO] Complete execution of the SQL update statement." in shown
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in shown.splitlines() if line.startswith("|")]
    assert [row[:2] for row in rows[:3]] == [["a", "b"], ["1", "x"], ["2", "<NULL>"]], shown
    assert [database] in rows
    assert ["+1 00:00:00.000", "+1-02"] in rows
    assert [row for row in rows if row[0] == "pipeline.name"] == [["pipeline.name", "mine"]]
    assert [row for row in rows if row[0] == "parallelism.default"] == [["parallelism.default", "1"]] * 2, "RESET keeps the client's own"
    assert rows[-2:] == [IN_SHELL, ["<NULL>"] * len(COLUMNS)]
    assert re.search(r"Reason:\nAnalysisError: \[UNRESOLVED_COLUMN\S* .*`nope`.*\(line 2, column 11\)\n", shown), shown[-1500:]
    assert shown.count("table name") == 1, "a file ends with its first error"


def test_a_person_at_the_shell(server: RunningServer, sql_client: SqlClient, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.measurements (reading INT); INSERT INTO {database}.measurements VALUES (1), (2)")
    shell = sql_client.open(server.url)
    try:
        shell.until(PROMPT)
        assert "succeeded" in shell.send(f"USE {database};\n")
        shell.send("SELECT * FROM meas\t", "measurements")
        shell.send(";\n", r"Q Quit")  # the view of a table, until Q
        assert "Result retrieval cancelled." in shell.send("q")
        shell.send("SET 'sql-client.execution.result-mode' = 'tableau';\n")
        assert "SqlSyntaxError: Syntax error at 'SELEC'" in shell.send("SELEC 1;\n")
        shell.send("SELECT count(*) FROM range(9000000000) a JOIN range(1000) b ON hash(a.id, b.id) = 1;\n", "hash")
        assert eventually(lambda: 'sluice_statements{state="running"} 1' in httpx.get(f"{server.url}/metrics").text, 60)
        shell.send("\x03")
        assert eventually(lambda: 'sluice_statements{state="running"} 0' in httpx.get(f"{server.url}/metrics").text, 60)
        shell.send("SET 'execution.runtime-mode' = 'streaming';\n")
        shell.send("SELECT * FROM measurements;\n", r"\+I \| +2 \|")
        server.sql(f"INSERT INTO {database}.measurements VALUES (3)")
        shell.until(r"\+I \| +3 \|")
        assert eventually(lambda: streams(server) == 1)  # those of other tests may be ending still
        assert "received a total of 3 rows" in shell.send("\x03")
        assert eventually(lambda: streams(server) == 0)
        shell.send("QUIT;\n", "done")
    finally:
        shell.close()


def test_the_page(server: RunningServer, sql_client: SqlClient, jdbc_command: list[str], jdbc_class_path: str, tmp_path: Path) -> None:
    """The files, commands, output and program of docs/clients.md."""
    scripts = {found[1]: text for text in blocks("sql") if (found := re.match(r"-- (\S+\.sql)\n", text))}
    (options,) = re.findall(rf"^bin/sql-client.sh gateway --endpoint {PAGE_URL} (-.*)$", PAGE, re.MULTILINE)
    given = [sql_client.script(word, scripts[word]) if word in scripts else word for word in options.split()]
    server.sql("DROP DATABASE IF EXISTS shop CASCADE")
    shown = sql_client.run(server.url, *given)
    (output,) = (text for text in re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if text.startswith("+-"))
    assert output in shown
    (program,) = (text for text in blocks("java") if "class Orders" in text)
    (tmp_path / "Orders.java").write_text(program.replace(PAGE_URL.removeprefix("http:"), server.url.removeprefix("http:")))
    started = subprocess.run(["java", "-cp", jdbc_class_path, str(tmp_path / "Orders.java")], capture_output=True, text=True, timeout=120)
    assert started.stdout == "pad 4.00\n", started.stderr[-3000:]
    server.sql("DROP DATABASE shop CASCADE")


def test_a_token_comes_with_the_header_variable(
    start_server: StartServer, jdbc_command: list[str], sql_client: SqlClient, tmp_path: Path
) -> None:
    server = start_server(SLUICE_TOKEN="a-secret-of-some-length")
    ((name, header),) = re.findall(r'^export (\w+)="(.*)"$', PAGE, re.MULTILINE)
    held = {name: header.replace("$SLUICE_TOKEN", "a-secret-of-some-length")}
    file = sql_client.script("file.sql", "SHOW DATABASES;")
    assert "token" in sql_client.run(server.url, "-f", file)
    user = JdbcUser(jdbc_command, tmp_path / "log", held)
    assert connect(user, server) == ["sluice", "default"]
    user.close()
