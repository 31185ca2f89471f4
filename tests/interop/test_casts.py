"""Rows written before their column got another type: read here as Java's readers read them."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.interop import canonical
from tests.interop.answering import shown
from tests.interop.conftest import HERE, ROOT, Reader
from tests.running import Refused, RunningServer
from tests.short import short

pytestmark = [pytest.mark.interop, pytest.mark.spark]

CASTS: dict[str, tuple[str, str]] = {
    "TINYINT": ("0, -7, 127", "BOOLEAN, DECIMAL(3, 1), VARCHAR(2), FLOAT"),
    "INT": ("0, -129, 70000", "TINYINT, SMALLINT, DECIMAL(4, 1), STRING, CHAR(8), FLOAT, DOUBLE, BOOLEAN, TIMESTAMP(3), TIMESTAMP_LTZ(6)"),
    "BIGINT": ("1, -1700000001, 9007199254740993", "TINYINT, INT, DOUBLE, DECIMAL(17, 0), STRING"),
    "FLOAT": ("0.1, -300.9, 1e20", "TINYINT, INT, BIGINT, DECIMAL(20, 9), STRING"),
    "DOUBLE": ("2.675, -1e-4, 1e20", "SMALLINT, INT, BIGINT, FLOAT, DECIMAL(9, 2), STRING"),
    "DECIMAL(20, 3)": ("1.005, -299.999, 12345678901234567.5", "TINYINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(9, 2), STRING"),
    "BOOLEAN": ("TRUE, FALSE, TRUE", "TINYINT, INT, BIGINT, DOUBLE, DECIMAL(3, 1), STRING, VARCHAR(2)"),
    "STRING": ("'1', '0', '1'", "BOOLEAN, TINYINT, BIGINT, FLOAT, DOUBLE, DECIMAL(9, 2), CHAR(3), VARCHAR(1), BYTES, BINARY(3), DATE"),
    "VARCHAR(40)": ("'1.005', '-2.5', '+3'", "INT, BIGINT, DOUBLE, DECIMAL(9, 2)"),
    "VARCHAR(30)": (
        "'2024-2-9', '2024-02-29 01:02:03.456789', '1969-12-31 23:59:59.9'",
        "DATE, TIMESTAMP(0), TIMESTAMP(3), TIMESTAMP(6), TIMESTAMP_LTZ(3)",
    ),
    "VARCHAR(20)": ("'1:2', '01:02:03.4567', '10:11:12'", "TIME(3)"),
    "BYTES": ("x'6162', x'', x'c3a9c3a9'", "STRING, BINARY(3), VARBINARY(1)"),
    "DATE": ("DATE '2024-02-29', DATE '1969-12-31', DATE '0001-01-01'", "STRING, TIMESTAMP(3), TIMESTAMP_LTZ(6)"),
    # Java 1.4 takes times before 1970 to the day after theirs; 2.x does not, and we do not.
    "TIMESTAMP(3)": ("TIMESTAMP '2024-02-29 01:02:03.456', TIMESTAMP '1970-01-01 23:59:58.5', NULL", "DATE, TIME(3)"),
    "TIMESTAMP(6)": (
        "TIMESTAMP '2024-02-29 01:02:03.456789', TIMESTAMP '1969-12-31 23:59:58.5', TIMESTAMP '2000-01-01 00:00:00'",
        "STRING, INT, BIGINT, TIMESTAMP(0), TIMESTAMP(2), TIMESTAMP(3), TIMESTAMP(5), TIMESTAMP_LTZ(3)",
    ),
    "TIMESTAMP_LTZ(3)": ("TIMESTAMP '2024-02-29 01:02:03.4', TIMESTAMP '1969-12-31 23:59:58.5', NULL", "STRING, BIGINT, TIMESTAMP(0)"),
}
"""A type, values of it, and what the column becomes."""


OTHERWISE: dict[str, set[str]] = {
    "TINYINT": {"DECIMAL(3, 1) not at all", "VARCHAR(2)"},
    "INT": {"DECIMAL(4, 1) not at all", "CHAR(8)", "TIMESTAMP(3) not at all", "TIMESTAMP_LTZ(6) not at all"},
    "BIGINT": {"DECIMAL(17, 0) not at all"},
    "FLOAT": {"TINYINT", "INT", "BIGINT", "DECIMAL(20, 9)", "STRING"},
    "DOUBLE": {"SMALLINT", "INT", "BIGINT", "DECIMAL(9, 2)", "STRING"},
    "DECIMAL(20, 3)": {"FLOAT", "DOUBLE"},
    "BOOLEAN": {"DECIMAL(3, 1) not at all", "VARCHAR(2)"},
    "STRING": {"CHAR(3)", "BINARY(3)", "DATE not at all"},
    "VARCHAR(40)": {"INT not at all", "BIGINT not at all", "DECIMAL(9, 2)"},
    "VARCHAR(30)": {
        "DATE not at all", "TIMESTAMP(0) not at all", "TIMESTAMP(3) not at all", "TIMESTAMP(6) not at all", "TIMESTAMP_LTZ(3) not at all",
    },
    "VARCHAR(20)": {"TIME(3) not at all"},
    "BYTES": {"BINARY(3)", "VARBINARY(1)"},
    "TIMESTAMP(6)": {"INT not at all", "BIGINT", "TIMESTAMP(2)", "TIMESTAMP(5)"},
    "TIMESTAMP_LTZ(3)": {"STRING", "BIGINT"},
}  # fmt: skip
"""Of these what pypaimon 2.1 reads as other values, or not at all."""


@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["orc"]))
def test_values_are_cast_as_java_casts_them(server: RunningServer, database: str, java_paimon: Reader, format_: str) -> None:
    table = f"{database}.t"
    columns = _cast(server, table, format_)
    theirs = {row[0]: row[1:] for row in java_paimon.read(server.table_path(table))["rows"]}
    for found in (server.arrow(f"SELECT * FROM {table}"), server.arrow(f"SELECT * FROM {table} ORDER BY id + 0")):  # without and with Spark
        ours = {row[0]: row[1:] for row in json.loads(json.dumps(canonical.rows(found)))}
        differ = {
            (column, id_): (mine, java)
            for id_, row in theirs.items()
            for column, mine, java in zip(columns, ours[id_], row, strict=True)
            if mine != java
        }
        assert differ == {}
        assert len(ours) == len(theirs) == 4


def _cast(server: RunningServer, table: str, format_: str) -> list[tuple[str, str, str, str]]:
    """A table whose columns have been cast in all these ways: their names, what they were, their values, what they are."""
    columns = [(f"c{at}", old, values, new) for at, (old, values, new) in enumerate(every_cast())]
    types = ", ".join(f"{name} {old}" for name, old, _, _ in columns)
    server.sql(f"CREATE TABLE {table} (id INT, {types}) WITH ('bucket'='-1','file.format'='{format_}')")
    # ORC's writer here refuses fractions of a second before 1970.
    columns = [(n, old, values.replace("58.5", "58") if format_ == "orc" else values, new) for n, old, values, new in columns]
    rows = [[values.split(", ")[at] for _, _, values, _ in columns] for at in range(3)]
    server.sql(f"INSERT INTO {table} VALUES " + ", ".join(f"({at}, {', '.join(row)})" for at, row in enumerate(rows)))
    server.sql(f"INSERT INTO {table} (id) VALUES (9)")
    server.sql(f"ALTER TABLE {table} MODIFY ({', '.join(f'{name} {new}' for name, _, _, new in columns)})")
    return columns


def test_what_pypaimon_reads_otherwise_is_what_the_page_says(server: RunningServer, database: str) -> None:
    """docs/catalog.md: pypaimon 2.1 has casts of its own."""
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    columns = _cast(server, f"{database}.t", "parquet")
    command = [str(python), str(HERE / "pypaimon_casts.py"), server.url, f"{database}.t"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs, ours = json.loads(done.stdout.splitlines()[-1]), server.arrow(f"SELECT * FROM {database}.t").to_pylist()
    otherwise: dict[str, set[str]] = {}
    for name, old, _, new in columns:
        if theirs[name] != {str(row["id"]): shown(row[name]) for row in ours}:
            otherwise.setdefault(old, set()).add(new if theirs[name] is not None else f"{new} not at all")
    assert otherwise == OTHERWISE


def every_cast() -> list[tuple[str, str, str]]:
    """Each pair of types with values of the first."""
    return [(old, values, new) for old, (values, targets) in CASTS.items() for new in re.split(r", (?![0-9])", targets)]


@pytest.mark.spark
@pytest.mark.parametrize("text", ["SELECT v FROM {t}", "SELECT v FROM {t} ORDER BY v + 0"])
def test_what_is_no_value_of_the_new_type_is_told_without_it(server: RunningServer, database: str, text: str) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id INT, v STRING); INSERT INTO {table} VALUES (1, '7'), (2, 'seven')")
    server.sql(f"ALTER TABLE {table} MODIFY (v BIGINT)")
    with pytest.raises(Refused) as refused:
        server.sql(text.format(t=table))
    assert (refused.value.status, refused.value.document["detail"]) == (
        400,
        "Column v was STRING when some rows were written, and one of their values is no BIGINT. "
        "Give the column its old type again (ALTER TABLE … MODIFY) to read them.",
    )
    server.sql(f"ALTER TABLE {table} MODIFY (v STRING)")
    assert server.sql(f"SELECT v FROM {table}") == [["7"], ["seven"]]
