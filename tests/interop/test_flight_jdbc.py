"""What a person does first in DBeaver, through the Arrow Flight SQL JDBC driver: connect, browse, open, run, cancel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import java
from tests.running import RunningServer

DRIVER = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"


class Jdbc:
    """A Java process with the driver, one command a line (`FlightSqlUser.java`)."""

    def __init__(self, class_path: str, log: Path) -> None:
        options = ["-XX:TieredStopAtLevel=1", "-Xmx512m", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
        command = ["java", *options, "-cp", class_path, "FlightSqlUser"]
        self._log = log.open("wb")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, encoding="utf-8")

    def __call__(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:  # the driver's own log comes between
            if line.startswith("> "):
                return line[2:].rstrip("\n")
        raise AssertionError(f"the driver's process died: {Path(self._log.name).read_text()[-3000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


@pytest.fixture
def jdbc(tmp_path: Path) -> Iterator[Jdbc]:
    process = Jdbc(java.compiled("FlightSqlUser", java.jar(DRIVER)), tmp_path / "log")
    yield process
    process.close()


@pytest.mark.interop
@pytest.mark.spark
def test_the_first_clicks_of_a_dbeaver_user(server: RunningServer, database: str, jdbc: Jdbc) -> None:
    server.sql(f"CREATE TABLE {database}.orders (id BIGINT NOT NULL COMMENT 'the key', price DECIMAL(10, 2), at TIMESTAMP(3), note STRING)")
    server.sql(f"CREATE VIEW {database}.dear AS SELECT id FROM {database}.orders WHERE price > 10")
    server.sql(f"INSERT INTO {database}.orders VALUES (1, 9.5, TIMESTAMP '2024-01-02 03:04:05', 'é日'), (2, 10.5, NULL, NULL)")
    server.wait_for_spark()
    url = server.flight_url.replace("grpc://", "jdbc:arrow-flight-sql://") + "?useEncryption=false"
    assert jdbc("connect", url, "user", "me", "password", "any on an open server") == "connected"
    # The tree.
    assert jdbc("product").startswith("Sluice,`,catalog,database,false,true,0,true,true,true")
    assert jdbc("catalogs") == "sluice"
    assert f"{database},sluice" in jdbc("schemas").split("|")
    assert jdbc("types") == "TABLE|VIEW"
    assert jdbc("tables", "sluice", database, "%") == "dear,VIEW|orders,TABLE"
    assert jdbc("columns", "sluice", database, "orders").split("|") == [
        "id,BIGINT,-5,19,0,0,the key,1",
        "price,DECIMAL(10, 2),3,10,2,1,null,2",
        "at,TIMESTAMP(3),93,23,3,1,null,3",
        "note,STRING,12,2147483647,null,1,null,4",
    ]
    assert jdbc("keys", "sluice", database, "orders") == ";;"
    # Open a table, run what is typed, be told what is wrong.
    assert jdbc("sql", f"SELECT * FROM sluice.{database}.orders") == "1,9.50,2024-01-02 03:04:05.0,é日|2,10.50,null,null"
    assert jdbc("sql", f"USE {database}") == "updated 0"
    assert jdbc("sql", "SELECT sum(price) AS total, count(*) AS n FROM orders") == "20.00,2"
    assert jdbc("sql", "SELECT id FROM dear") == "2"
    assert jdbc("sql", "INSERT INTO orders VALUES (3, 1.00, NULL, 'three')") == "updated 1"
    assert jdbc("sql", "SHOW TABLES") == "dear|orders"
    assert "TableNotExist" in jdbc("sql", "SELECT * FROM nope")
    assert "SqlSyntaxError" in jdbc("sql", "SELEKT 1")
    # Parameters, as a tool's filters and edits send them.
    assert jdbc("prepare", "SELECT note FROM orders WHERE id = ? AND price < ?") == "2 parameters"
    assert jdbc("ask", "SELECT id FROM orders WHERE id > ? AND note = ?", "l2", "sthree") == "3"
    assert jdbc("change", "INSERT INTO orders (id, note) VALUES (?, ?)", "l4", "s'; DROP TABLE orders; --") == "updated 1"
    assert jdbc("ask", "SELECT id FROM orders WHERE note = ?", "s'; DROP TABLE orders; --") == "4"
    # Cancel what goes on forever.
    assert jdbc("sql", "SET 'execution.runtime-mode' = 'streaming'") == "updated 0"
    assert jdbc("cancel", "SELECT id FROM orders") == "stopped"
    assert jdbc("close") == "closed"
