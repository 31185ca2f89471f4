"""Partitions of values that no directory can be called: by every writer, in the directories Java makes, and read back by everybody."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop.conftest import HERE, ROOT, Reader
from tests.interop.test_tables import same_rows
from tests.running import RunningServer
from tests.short import diagonal

pytestmark = [pytest.mark.interop, pytest.mark.spark]

VALUES = (
    "..", ".", "", None, " ", "\x1c", "a/b=c", "../../other", "/", "%", "%2F", "100%", "%2e%2e", ":", "a:b", "=", "\x01", "\t\n", "\x7f",
    "é😀",
    "{a,b}*?[x]\\^'\"#", "_x", "bucket-0", "x" * 240, "__DEFAULT_PARTITION__",
)  # fmt: skip
NO_BREAK = ("\xa0", "\x85", "\u2007")
"""Blank for Python, a name of its own for Java."""
DIRECTORIES = {
    "p=..", "p=.", "p=a%2Fb%3Dc", "p=..%2F..%2Fother", "p=%2F", "p=%25", "p=%252F", "p=100%25", "p=%252e%252e", "p=%3A", "p=a%3Ab", "p=%3D",
    "p=%01", "p=%7F", "p=é😀", "p=%7Ba,b%7D%2A%3F%5Bx%5D%5C%5E%27%22%23", "p=_x", "p=bucket-0", f"p={'x' * 240}",
    "p=__DEFAULT_PARTITION__",
}  # fmt: skip
"""NULL, the empty value and blank ones share the last."""


def _ids(server: RunningServer, table: str, value: str | None) -> list[int]:
    """Where the value is asked for, as a parameter, so that partitions are left out by it."""
    asked = {"statement": f"SELECT id FROM {table} WHERE p = ?", "parameters": [value]}
    answer = httpx.post(f"{server.url}/sql", json=asked, timeout=120)
    assert answer.status_code == 200, answer.text
    return sorted(row[0] for row in answer.json()["rows"])


def _parquet(values: tuple[str | None, ...], first: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(range(first, first + len(values)), pa.int64()), "p": pa.array(values, pa.string())}), sink)
    return bytes(sink.getvalue())


def _written(server: RunningServer, table: str, values: tuple[str | None, ...]) -> None:
    """By a body of text, of Parquet, by Spark, each with ids of its own."""
    server.sql(f"CREATE TABLE {table} (id BIGINT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    lines = "".join(json.dumps({"id": n, "p": value}) + "\n" for n, value in enumerate(values))
    server.append(table, lines.encode(), "application/x-ndjson")
    server.append(table, _parquet(values, 100), "application/vnd.apache.parquet")
    server.sql(f"INSERT INTO {table} SELECT id + 200, p FROM {table} WHERE id < 100")


def _directories(table: Path) -> set[str]:
    return {directory.name for directory in table.iterdir() if "=" in directory.name}


@pytest.fixture(scope="module")
def odd(server: RunningServer) -> str:
    """A table with a partition of each value."""
    server.sql("CREATE DATABASE IF NOT EXISTS odd_partitions")
    _written(server, "odd_partitions.t", VALUES)
    return "odd_partitions.t"


def test_their_directories_are_javas(server: RunningServer, odd: str) -> None:
    assert _directories(server.table_path(odd)) == DIRECTORIES
    assert {file.parent.name for file in server.table_path(odd).rglob("*.parquet")} == {"bucket-0"}


def test_everybody_reads_them(server: RunningServer, odd: str, reader: Reader) -> None:
    assert same_rows(server, odd, reader)["count"] == 3 * len(VALUES)
    assert reader.read(server.table_path(odd), where=[("p", "=", "..")])["count"] == 3
    assert server.sql(f"SELECT count(*), count(DISTINCT p) FROM {odd} WHERE id * 1 >= 0") == [[3 * len(VALUES), len(VALUES) - 1]]


@pytest.mark.parametrize("value", [value for value in VALUES if value])
def test_each_is_found_by_its_value(server: RunningServer, odd: str, value: str) -> None:
    position = VALUES.index(value)
    assert _ids(server, odd, value) == [position, 100 + position, 200 + position]


def test_values_that_are_blank_here_and_not_in_java(server: RunningServer, database: str, java_paimon: Reader) -> None:
    table = f"{database}.t"
    _written(server, table, NO_BREAK)
    assert _directories(server.table_path(table)) == {f"p={value}" for value in NO_BREAK}
    assert same_rows(server, table, java_paimon)["count"] == 3 * len(NO_BREAK)
    # Earlier releases wrote them where NULL lies; what they wrote is read from there.
    location = server.table_path(table)
    former = location / "p=__DEFAULT_PARTITION__" / "bucket-0"
    former.mkdir(parents=True)
    for file in list((location / "p=\xa0" / "bucket-0").iterdir()):
        file.rename(former / file.name)
    assert _ids(server, table, NO_BREAK[0]) == [0, 100, 200]
    assert len(server.sql(f"SELECT id FROM {table} WHERE id * 1 >= 0")) == 3 * len(NO_BREAK)
    server.sql(f"CALL sys.remove_orphan_files('{table}', '{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S}')")
    server.sql(f"CALL sys.compact(`table` => '{table}', compact_strategy => 'full')")
    assert len(server.sql(f"SELECT id FROM {table}")) == 3 * len(NO_BREAK)


def _by_pypaimon(program: str, *arguments: str) -> None:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    done = subprocess.run([str(python), "-c", program, *arguments], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_pypaimon_commits_is_read_back(server: RunningServer, database: str) -> None:
    table, values = f"{database}.t", [value for value in VALUES if value not in ("\x1c",)]
    server.sql(f"CREATE TABLE {table} (id BIGINT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    program = (
        "import sys, json, pyarrow as pa; from pypaimon_rest import connect, write; values = json.loads(sys.argv[3]);"
        "write(connect(sys.argv[1]).get_table(sys.argv[2]), pa.table({'id': pa.array(range(len(values)), pa.int64()),"
        " 'p': pa.array(values, pa.string())}))"
    )
    _by_pypaimon(program, server.url, table, json.dumps(values))
    # pypaimon takes a partition that is nothing but spaces for NULL's directory too, and keeps the value in the row.
    assert sorted(server.sql(f"SELECT id FROM {table} WHERE id * 1 >= 0")) == [[n] for n in range(len(values))]
    by_value = {row[0]: row[1] for row in server.sql(f"SELECT id, p FROM {table}")}
    assert [by_value[n] for n in range(len(values))] == values


def test_partitions_of_nanoseconds_are_committed(server: RunningServer, database: str) -> None:
    """Commits of files in them were refused: they were looked for under texts of six digits."""
    program = (
        "import sys, pyarrow as pa; from pypaimon import Schema; from pypaimon_rest import connect, write; catalog = connect(sys.argv[1])\n"
        "times = pa.array([1704164645123456000, 1704164640000000000, None], pa.timestamp('ns'))\n"
        "rows = pa.table({'id': pa.array(range(3), pa.int64()), 'p': times})\n"
        "for legacy in ('true', 'false'):\n"
        "    name, options = sys.argv[2] + '.' + legacy, {'bucket': '-1', 'partition.legacy-name': legacy}\n"
        "    schema = Schema.from_pyarrow_schema(rows.schema, partition_keys=['p'], options=options)\n"
        "    catalog.create_table(name, schema, False)\n"
        "    write(catalog.get_table(name), rows)\n"
    )
    _by_pypaimon(program, server.url, database)
    for legacy in ("true", "false"):
        assert sorted(n for (n,) in server.sql(f"SELECT id FROM {database}.`{legacy}`")) == [0, 1, 2]
        assert server.sql(f"SHOW PARTITIONS {database}.`{legacy}`") == [
            ["p=2024-01-02 03%3A04%3A00.000000000"], ["p=2024-01-02 03%3A04%3A05.123456000"], ["p=__DEFAULT_PARTITION__"],
        ]  # fmt: skip


FAR = {
    "DATE": ("+12000-01-01", "-0005-01-01", "2024-01-01"),
    "TIMESTAMP(3)": ("+12000-01-01 00:00:01.5", "-0005-01-01 00:00:00", "2024-01-01 00:00:00"),
    "TIMESTAMP_LTZ(6)": ("+12000-01-01 00:00:01.5", "-0005-01-01 00:00:00", "2024-01-01 00:00:00"),
}
"""Beside a near one those outside the years 1 to 9999, which Paimon knows and Python does not."""


@pytest.mark.parametrize(("type_", "legacy"), diagonal(FAR, ["true", "false"]))
def test_days_that_python_has_not(server: RunningServer, database: str, java_paimon: Reader, type_: str, legacy: str) -> None:
    table, values = f"{database}.t", FAR[type_]
    options = f"WITH ('bucket' = '-1', 'partition.legacy-name' = '{legacy}', 'rows.erasable' = 'true')"
    server.sql(f"CREATE TABLE {table} (id BIGINT, p {type_}) PARTITIONED BY (p) {options}")
    rows = " UNION ALL ".join(f"SELECT {n}, CAST('{value}' AS {type_})" for n, value in enumerate((*values, *values)))
    server.sql(f"INSERT INTO {table} {rows}")
    assert same_rows(server, table, java_paimon)["count"] == 6
    assert server.sql(f"SELECT sum(id) FROM (SELECT * FROM {table}) WHERE hash(id) IS NOT NULL") == [[15]]
    near = f"{type_.partition('(')[0]} '{values[2]}'"
    for op, found in (("<", [1, 4]), ("=", [2, 5]), (">", [0, 3])):
        assert sorted(n for (n,) in server.sql(f"SELECT id FROM {table} WHERE p {op} {near}")) == found
    assert len(server.sql(f"SELECT * FROM `{database}`.`t$partitions`")) == len(server.sql(f"SHOW PARTITIONS {table}")) == 3
    copied = server.table_path(table).with_name("copied")
    shutil.copytree(server.table_path(table), copied)
    server.sql(f"CALL sys.register_table('{database}.taken', '{copied}')")
    assert java_paimon.read(copied)["count"] == len(server.sql(f"SELECT * FROM {database}.taken")) == 6
    condition = f"p > {near}".replace("'", "''") if "LTZ" not in type_ else "p IS NOT NULL"
    server.sql(f"CALL sys.compact(`table` => '{table}', compact_strategy => 'full', `where` => '{condition}')")
    server.sql(f"DELETE FROM {table} WHERE p < {near}")
    assert sorted(n for (n,) in server.sql(f"SELECT id FROM {table}")) == [0, 2, 3, 5]
    assert same_rows(server, table, java_paimon)["count"] == 4


BYTES = ("61", "ff", "fe", "eda080", "eda0", "edbfbf41", "f09f98", "c080", "", "20", "c2a0", "2e2e", "612f623d63", None)
"""In hexadecimal, most of them no texts. Those that Java takes for the same text share a directory."""


def test_directories_of_bytes_are_found_by_java(server: RunningServer, database: str, java_paimon: Reader) -> None:
    """By old names Java calls a directory after where the bytes lie in its memory, another one each time."""
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id BIGINT, p BYTES) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    rows = ", ".join(f"({n}, NULL)" if value is None else f"({n}, x'{value}')" for n, value in enumerate(BYTES))
    server.sql(f"INSERT INTO {table} VALUES {rows}")
    server.sql(f"INSERT INTO {table} SELECT id + 100, p FROM {table} WHERE hash(id) IS NOT NULL")
    assert same_rows(server, table, java_paimon)["count"] == 2 * len(BYTES)
    assert sorted(n for (n,) in server.sql(f"SELECT id FROM {table} WHERE p = x'eda080'")) == [3, 103]
    # Earlier releases replaced each byte of half a character, also by new names; what they wrote is read from there.
    location = server.table_path(table)
    (location / "p=\ufffd\ufffd\ufffd" / "bucket-0").mkdir(parents=True)
    (moved,) = server.sql(f"SELECT file_path FROM `{database}`.`t$files` WHERE min_value_stats LIKE '%\"id\":3,%'")[0]
    Path(moved.removeprefix("file:")).rename(location / "p=\ufffd\ufffd\ufffd" / "bucket-0" / Path(moved).name)
    assert sorted(n for (n,) in server.sql(f"SELECT id FROM {table} WHERE p = x'eda080'")) == [3, 103]
    server.sql(f"CALL sys.compact(`table` => '{table}', compact_strategy => 'full')")
    assert same_rows(server, table, java_paimon)["count"] == 2 * len(BYTES)
    server.sql(f"INSERT INTO {table} PARTITION (p = x'ff') VALUES (500)")  # which was refused: a literal was wanted
    assert sorted(n for (n,) in server.sql(f"SELECT id FROM {table} WHERE p = x'ff'")) == [1, 101, 500]
    server.sql(f"ALTER TABLE {table} DROP PARTITION (p = x'ff')")
    assert same_rows(server, table, java_paimon)["count"] == 2 * len(BYTES) - 2
