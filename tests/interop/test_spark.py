"""Spark 4.1 with Paimon 2.1 uses the server as its catalog, beside our own compaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.interop.alike import OURS, SHORT, STATEMENTS
from tests.interop.spark_paimon import SparkClient
from tests.interop.test_tables import ONE_ROW, SCALARS
from tests.running import Refused, RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def test_spark_goes_on_after_our_compaction(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    """The sixth INSERT of a Spark client failed after the first compaction, with SELECT, streams, `$snapshots` and tags."""
    name = f"sluice.{database}.q"
    spark_client.sql(f"CREATE TABLE {name} (id INT, v STRING) TBLPROPERTIES ('bucket' = '1', 'bucket-key' = 'id', 'write-only' = 'true')")
    for n in range(5):
        spark_client.sql(f"INSERT INTO {name} VALUES ({n}, 'a')")
    server.sql(f"CALL sys.compact(`table` => '{database}.q', compact_strategy => 'full')")
    server.sql(f"CALL sys.create_tag('{database}.q', 'merged')")
    spark_client.sql(f"REFRESH TABLE {name}")
    spark_client.sql(f"INSERT INTO {name} VALUES (5, 'a')")
    assert sorted(spark_client.sql(f"SELECT id FROM {name}")) == [(n,) for n in range(6)]
    seen = spark_client.sql(f"SELECT commit_kind, operation FROM sluice.{database}.`q$snapshots` ORDER BY snapshot_id")
    assert seen == [("APPEND", "WRITE")] * 5 + [("COMPACT", None), ("APPEND", "WRITE")]
    assert len(spark_client.sql(f"SELECT * FROM {name} VERSION AS OF 'merged'")) == 5
    assert spark_client.sql(f"SELECT tag_name, snapshot_id FROM sluice.{database}.`q$tags`") == [("merged", 6)]
    assert sorted(spark_client.sql(f"stream {name}")) == [(n, "a") for n in range(6)]
    spark_client.sql(f"DELETE FROM {name} WHERE id = 2")
    assert [row[0] for row in server.sql(f"SELECT id FROM {database}.q ORDER BY id")] == [0, 1, 3, 4, 5]
    told = server.sql(f"SELECT operation FROM {database}.q$snapshots ORDER BY snapshot_id")
    assert [word for [word] in told] == ["WRITE"] * 5 + ["COMPACT", "WRITE", "DELETE"]


def test_what_spark_keeps_in_mind_is_as_the_page_says(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    """docs/catalog.md: commits of others are seen at once, another schema or another table of the name after REFRESH TABLE."""
    name, ours = f"sluice.{database}.c", f"{database}.c"
    server.sql(f"CREATE TABLE {ours} (id INT); INSERT INTO {ours} VALUES (1)")
    assert spark_client.sql(f"SELECT * FROM {name}") == [(1,)]
    server.sql(f"INSERT INTO {ours} VALUES (2)")
    assert sorted(spark_client.sql(f"SELECT * FROM {name}")) == [(1,), (2,)]
    server.sql(f"ALTER TABLE {ours} ADD (v STRING); INSERT INTO {ours} VALUES (3, 'new')")
    spark_client.sql(f"REFRESH TABLE {name}")
    assert sorted(spark_client.sql(f"SELECT id, v FROM {name}")) == [(1, None), (2, None), (3, "new")]
    server.sql(f"DROP TABLE {ours}; CREATE TABLE {ours} (other STRING); INSERT INTO {ours} VALUES ('x')")
    spark_client.sql(f"REFRESH TABLE {name}")
    assert spark_client.sql(f"SELECT * FROM {name}") == [("x",)]


def test_a_stream_to_a_path_writes_past_the_catalog(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    """docs/catalog.md: it stops the table until it is repaired, and its rows are there then."""
    server.sql(f"CREATE TABLE {database}.source (id INT); INSERT INTO {database}.source VALUES (2)")
    server.sql(f"CREATE TABLE {database}.t (id INT); INSERT INTO {database}.t VALUES (1)")
    spark_client.sql(f"past sluice.{database}.source {server.table_path(f'{database}.t')}")
    with pytest.raises(Refused, match="TableDiverged"):
        server.sql(f"INSERT INTO {database}.t VALUES (3)")
    server.sql(f"CALL sys.repair_table('{database}.t')")
    server.sql(f"INSERT INTO {database}.t VALUES (3)")
    assert server.sql(f"SELECT id FROM {database}.t ORDER BY id") == [[1], [2], [3]]


def test_a_stream_writes_by_batches(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    """docs/catalog.md: the module refuses `.toTable`."""
    server.sql(
        f"CREATE TABLE {database}.source (id INT); INSERT INTO {database}.source VALUES (1), (2); CREATE TABLE {database}.t (id INT)"
    )
    source, target = f"sluice.{database}.source", f"sluice.{database}.t"
    assert "doesn't support streaming write" in spark_client.answer(f"to_table {source} {target}")["error"]
    spark_client.sql(f"follow {source} {target}")
    assert server.sql(f"SELECT id FROM {database}.t ORDER BY id") == [[1], [2]]


_TIMES = ("1582-10-20 00:00:00", "1677-01-01 00:00:00", "2024-01-01 00:00:00", "3000-01-01 00:00:00", "9999-12-31 00:00:00")


def test_times_in_orc_that_arrow_does_not_read_are_no_damage(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    theirs, orc, parquet = f"sluice.{database}.t", f"{database}.t", f"{database}.copy"
    spark_client.sql(f"CREATE TABLE {theirs} (id INT, n TIMESTAMP_NTZ, m MAP<INT, TIMESTAMP_NTZ>) TBLPROPERTIES ('file.format' = 'orc')")
    rows = ", ".join(f"({n}, TIMESTAMP_NTZ '{time}', map(1, TIMESTAMP_NTZ '{time}'))" for n, time in enumerate(_TIMES))
    spark_client.sql(f"INSERT INTO {theirs} VALUES {rows}")
    assert sorted(n for (n,) in server.sql(f"SELECT id FROM {orc}")) == [0, 1, 2, 3, 4]
    for column in ("n", "m"):
        with pytest.raises(Refused, match=rf"UnsupportedType.*in column {column}, which are not read from ORC here") as refused:
            server.sql(f"SELECT {column} FROM {orc}")
        assert refused.value.status == 400
    assert server.sql(f"CALL sys.check_table('{orc}', deep => true)") == []
    server.sql(f"CREATE TABLE {parquet} WITH ('file.format' = 'parquet') LIKE {orc}")
    server.sql(f"ALTER TABLE {orc} SET ('rows.erasable' = 'true'); INSERT INTO {orc} (id) VALUES (5)")
    for text in (f"CALL sys.compact(`table` => '{orc}', compact_strategy => 'full')", f"UPDATE {orc} SET id = 7 WHERE id = 1"):
        with pytest.raises(Refused, match=r"UnsupportedType.*not read from ORC here"):
            server.sql(text)
    server.sql(f"DELETE FROM {orc} WHERE id = 5")
    server.sql(f"INSERT INTO {parquet} SELECT * FROM {orc} ORDER BY id")
    for found in (server.sql(f"SELECT id, n, m[1] FROM {orc} ORDER BY id"), sorted(server.sql(f"SELECT id, n, m[1] FROM {parquet}"))):
        assert [[n, str(time).replace("T", " ")[:19], str(inner).replace("T", " ")[:19]] for n, time, inner in found] == [
            [n, time, time] for n, time in enumerate(_TIMES)
        ]


def test_spark_reads_the_files_the_server_s_spark_wrote(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    """Their footers are given ids and annotations after Spark has written them."""
    name = f"{database}.t"
    server.sql(f"CREATE TABLE {name} ({SCALARS}, a ARRAY<TIMESTAMP(3)>, m MAP<STRING, ROW<x TIMESTAMP_LTZ(6)>>) WITH ('bucket'='-1')")
    server.sql(f"INSERT INTO {name} VALUES {ONE_ROW[:-1]}, NULL, NULL)")
    columns = re.findall(r"([a-z0-9]+) [A-Z]", SCALARS)
    server.sql(f"INSERT INTO {name} SELECT {', '.join(columns)}, ARRAY(t3), MAP('k', NAMED_STRUCT('x', z6)) FROM {name}")
    shown = ", ".join(f"CAST({column} AS STRING)" for column in columns if column != "ti")  # Spark 4.1 has no TIME
    by_us, by_spark = spark_client.sql(f"SELECT {shown} FROM sluice.{name}")
    assert by_us == by_spark
    assert spark_client.sql(f"SELECT a[0] = t3, m['k'].x = z6 FROM sluice.{name} WHERE a IS NOT NULL") == [(True, True)]


def test_spark_copies_a_table_under_new_names(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    """Its copies have our footers, which tell the names of the files they were made of."""
    name = f"{database}.t"
    server.sql(f"CREATE TABLE {name} (id INT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    server.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    server.sql(f"INSERT INTO {name} SELECT id + 3, p FROM {name} WHERE abs(id) > 0")
    spark_client.sql(f"CALL sluice.sys.copy(source_table => '{name}', target_table => '{name}_copy')")
    names, copied = (
        {row[0].rpartition("/")[2] for row in server.sql(f"SELECT file_path FROM {table}$files")} for table in (name, f"{name}_copy")
    )
    assert len(copied) == len(names)
    assert not names & copied
    rows = server.sql(f"SELECT id, p FROM {name} ORDER BY id")
    assert len(rows) == 6
    for query in ("SELECT id, p FROM {}_copy", "SELECT abs(id), p FROM {}_copy"):
        assert sorted(server.sql(query.format(name))) == rows
    assert server.sql(f"CALL sys.check_table('{name}_copy', deep => true)") == server.sql(f"CALL sys.check_table('{name}', deep => true)")
    server.sql(f"CALL sys.compact(`table` => '{name}_copy', compact_strategy => 'full')")
    assert sorted(server.sql(f"SELECT id, p FROM {name}_copy")) == rows


def test_a_format_table_of_spark_holds_its_rows_alone(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    for kind in ("csv", "parquet", "json"):
        name = f"sluice.{database}.{kind}"
        spark_client.sql(f"CREATE TABLE {name} (id INT, v STRING) USING {kind}")
        spark_client.sql(f"INSERT INTO {name} VALUES (1, 'x')")
        assert spark_client.sql(f"SELECT * FROM {name}") == [(1, "x")]


def test_a_view_has_a_query_for_each_of_its_dialects(server: RunningServer, database: str, spark_client: SparkClient) -> None:
    def dialect(action: str, engine: str, id_: int) -> None:
        query = f"SELECT id FROM {database}.t WHERE id = {id_}"
        spark_client.sql(
            f"CALL sluice.sys.alter_view_dialect(`view` => '{database}.v', `action` => '{action}', `engine` => '{engine}', "
            f"`query` => '{query}')"
        )

    spark_client.sql(f"CREATE TABLE sluice.{database}.t (id INT)")
    spark_client.sql(f"INSERT INTO sluice.{database}.t VALUES (1), (2), (3)")
    server.sql(f"CREATE VIEW {database}.v AS SELECT id FROM {database}.t WHERE id = 1")
    shown = f"SELECT id FROM sluice.{database}.v"
    spark_client.sql("USE sluice")  # Spark looks for the tables of a view in its current catalog
    assert spark_client.sql(shown) == [(1,)], "a view without Spark's dialect is read by its plain query"
    dialect("add", "spark", 2)
    dialect("add", "flink", 3)
    assert (spark_client.sql(shown), server.sql(f"SELECT id FROM {database}.v")) == ([(2,)], [[1]])
    dialect("update", "spark", 3)
    assert (spark_client.sql(shown), server.sql(f"SELECT id FROM {database}.v")) == ([(3,)], [[1]])
    assert (
        "DialectAlreadyExist"
        in spark_client.answer(
            f"CALL sluice.sys.alter_view_dialect(`view` => '{database}.v', `action` => 'add', `engine` => 'flink', `query` => 'SELECT 1')"
        )["error"]
    )
    server.sql(f"ALTER VIEW {database}.v AS SELECT id FROM {database}.t WHERE id < 3")
    assert sorted(spark_client.sql(shown)) == [(1,), (2,)], "the other dialects held the old query"


def outcome(spark_client: SparkClient, text: str, catalog: str, database: str) -> object:
    """The rows, times left out, or Spark's class of the error: messages are each catalog's own."""
    answer = spark_client.answer(text.replace("$.", f"{catalog}.{database}.").replace("@", catalog).replace("%", database))
    if "error" in answer:
        condition = re.match(r"\[[A-Z_.]+\]", answer["error"])
        return condition[0] if condition else "an error"

    def timeless(value: Any) -> Any:
        return "a time" if isinstance(value, int) and value > 10**12 else value

    return [[timeless(value) for value in row] for row in answer["rows"]]


@pytest.mark.parametrize(
    "statements", [pytest.param(STATEMENTS[:SHORT], id="short"), pytest.param(STATEMENTS, id="whole", marks=pytest.mark.torture)]
)
def test_statements_mean_what_they_mean_in_paimon_s_own_catalog(
    database: str, spark_client: SparkClient, statements: Sequence[str]
) -> None:
    """Every difference that is not meant is a fault of ours."""
    spark_client.sql(f"CREATE DATABASE files.{database}")
    differing = {}
    for text in statements:
        theirs, ours = (outcome(spark_client, text, catalog, database) for catalog in ("files", "sluice"))
        if text in OURS:
            assert (ours, isinstance(theirs, list)) == ("an error", True), f"{text}: the two agree, or another class; see OURS"
        elif theirs != ours:
            differing[text] = (theirs, ours)
    spark_client.sql(f"DROP DATABASE files.{database} CASCADE")
    assert differing == {}
