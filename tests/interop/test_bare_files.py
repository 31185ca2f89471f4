"""Parquet files of ours read bare, by name and by id, with pyarrow, DuckDB and polars: the values, types and times that the table has.

Polars reads by name alone. TIME is annotated as Paimon annotates it, in UTC: DuckDB shows it with a zone, +00.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop import canonical
from tests.interop.conftest import READERS, Reader
from tests.interop.test_tables import NULL_ROW, ONE_ROW, SCALARS, same_rows
from tests.running import RunningServer
from tests.short import short
from tests.table.format.test_parquet_footer import all_ids

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NESTED = """a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<x INT, y STRING>, aa ARRAY<ARRAY<STRING>>, ta ARRAY<TIMESTAMP(3)>,
    mz MAP<STRING, TIMESTAMP_LTZ(6)>, rt ROW<ti TIME, z TIMESTAMP_LTZ(3)>, mr MAP<INT, ROW<n DECIMAL(9,2), t TIMESTAMP(6)>>"""
ONE_NESTED = """ARRAY(1, NULL, 3), MAP('k', 2L), NAMED_STRUCT('x', 1, 'y', 'z'), ARRAY(ARRAY('a'), NULL),
    ARRAY(TIMESTAMP '1965-01-01 00:00:00.123', NULL), MAP('k', TIMESTAMP '1969-12-31 23:59:59.999999'),
    NAMED_STRUCT('ti', TIME '12:34:56', 'z', TIMESTAMP '2024-02-29 12:34:56.123'),
    MAP(1, NAMED_STRUCT('n', 1.25, 't', TIMESTAMP '2024-02-29 12:34:56.123456'))"""
BY_NAME: dict[str, Callable[[str], pa.Table]] = {
    "pyarrow": pq.read_table,
    "DuckDB": lambda path: _duckdb("SELECT * FROM read_parquet(?)", path),
    "polars": lambda path: pl.read_parquet(path).to_arrow(),
}


def _duckdb(query: str, *given: Any) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(query, params=list(given)).to_arrow_table()


def times(field: pa.Field, path: str = "") -> Iterator[tuple[str, bool]]:
    """Each timestamp of a column and of what is in it, by its way, and whether it is an instant."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        yield path, kind.tz is not None
    parts = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else [kind.field(at) for at in range(kind.num_fields)]
    for at, part in enumerate(parts):
        yield from times(part, f"{path}.{at}")


def files_of(server: RunningServer, table: str) -> list[str]:
    return [path for (path,) in server.sql(f"SELECT file_path FROM {table}$files")]


def by_id(numbers: Sequence[int], schema: pa.Schema, files: Sequence[str]) -> pa.Table:
    """The columns of a table by their ids, from files of any age: what has another name there is found, what has none is NULL."""
    found = []
    for path in files:
        names = {number: name for name, number in all_ids(Path(path)).items() if "." not in name}
        there = pq.read_table(path)
        columns = [
            there.column(names[number]).cast(field.type) if number in names else pa.nulls(there.num_rows, field.type)
            for number, field in zip(numbers, schema, strict=True)
        ]
        found.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(found)


@pytest.fixture
def typed(server: RunningServer, database: str) -> str:
    """A table of 31 types with files of each writer: the gateway's, Spark's, and one that a compaction made of them."""
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} ({SCALARS}, {NESTED}) WITH ('bucket' = '-1', 'write-only' = 'true')")
    one, none = f"{ONE_ROW[:-1]}, {ONE_NESTED})", f"{NULL_ROW[:-1]}{', NULL' * 8})"
    server.sql(f"INSERT INTO {table} VALUES {none}; INSERT INTO {table} SELECT * FROM (VALUES {one}, {none})")
    return table


def test_every_type_is_read_by_name(server: RunningServer, typed: str) -> None:
    ours = server.arrow(f"SELECT * FROM {typed}")
    assert len(ours.schema) == 31
    wanted, instants = canonical.rows(ours), [list(times(field)) for field in ours.schema]
    written = files_of(server, typed)
    server.sql(f"CALL sys.compact('{typed}', compact_strategy => 'full')")
    (compacted,) = files_of(server, typed)
    assert len(written) > 1
    for name, read in BY_NAME.items():
        for files in (written, [compacted]):
            found = [read(path) for path in files]
            rows = [row for one in found for row in canonical.rows(one)]
            assert sorted(map(repr, rows)) == sorted(map(repr, wanted)), name
            for one in found:
                assert one.schema.names == ours.schema.names
                assert [list(times(field)) for field in one.schema] == instants, name


@pytest.mark.parametrize("reader", READERS, indirect=True)
def test_every_type_is_read_by_paimon(server: RunningServer, typed: str, reader: Reader) -> None:
    assert same_rows(server, typed, reader)["count"] == 3
    server.sql(f"CALL sys.compact('{typed}', compact_strategy => 'full')")
    assert same_rows(server, typed, reader)["count"] == 3


@pytest.mark.parametrize("writer", short(["VALUES (", "SELECT "], ["SELECT "]), ids=["gateway", "Spark"])
def test_columns_that_changed_are_found_by_id_and_after_a_compaction_by_name(server: RunningServer, database: str, writer: str) -> None:
    table = f"{database}.t"
    end = ")" if writer.endswith("(") else ""
    options = "'bucket' = '-1', 'write-only' = 'true'"
    server.sql(f"CREATE TABLE {table} (id BIGINT, small INT, gone STRING, was STRING, r ROW<x INT>) WITH ({options})")
    server.sql(f"INSERT INTO {table} {writer}1, 7, 'old', 'name', NAMED_STRUCT('x', 1){end}")
    for change in ("ADD (added STRING)", "DROP (gone)", "RENAME was TO is_now", "MODIFY small BIGINT", "ADD (gone INT)"):
        server.sql(f"ALTER TABLE {table} {change}")
    columns = "id, small, is_now, added, gone"
    server.sql(f"INSERT INTO {table} ({columns}) {writer}2, 5000000000, 'n', 'a', 9{end}")
    wanted = [[1, 7, "name", None, None], [2, 5000000000, "n", "a", 9]]
    ours = server.arrow(f"SELECT {columns} FROM {table} ORDER BY id")
    assert canonical.rows(ours) == wanted
    files = files_of(server, table)
    ids = [all_ids(Path(path)) for path in files]
    newest = next(found for found in ids if "is_now" in found)
    oldest = next(found for found in ids if "was" in found)
    assert (oldest["was"], oldest["small"], oldest["r.x"]) == (newest["is_now"], newest["small"], newest["r.x"])
    assert oldest["gone"] != newest["gone"]
    numbers = [newest[name] for name in ours.schema.names]
    assert sorted(canonical.rows(by_id(numbers, ours.schema, files))) == wanted
    told = [f"{newest[name]}: {{name: '{name}', type: '{kind}', default_value: NULL}}" for name, kind in zip(
        ours.schema.names, ("BIGINT", "BIGINT", "VARCHAR", "VARCHAR", "INTEGER"), strict=True)]  # fmt: skip
    read = _duckdb(f"SELECT * FROM read_parquet(?, schema = MAP {{{', '.join(told)}}}) ORDER BY id", files)
    assert canonical.rows(read) == wanted
    server.sql(f"CALL sys.compact('{table}', compact_strategy => 'full')")
    (compacted,) = files_of(server, table)
    for name, by_name in BY_NAME.items():
        assert sorted(canonical.rows(by_name(compacted).select(ours.schema.names))) == wanted, name


def test_a_glob_reads_replaced_files_too(server: RunningServer, database: str) -> None:
    """docs/catalog.md: rows come twice until the snapshots that need the old files expire; `$files` names those of the latest."""
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id INT) WITH ('bucket' = '-1', 'write-only' = 'true')")
    for n in range(3):
        server.sql(f"INSERT INTO {table} VALUES ({n})")
    server.sql(f"CALL sys.compact('{table}', compact_strategy => 'full')")

    def counted(files: str | list[str]) -> int:
        return int(_duckdb("SELECT count(*) AS n FROM read_parquet(?)", files).column("n")[0].as_py())

    everything = f"{server.table_path(table)}/**/*.parquet"
    assert (counted(everything), counted(files_of(server, table))) == (6, 3)
    server.sql(f"CALL sys.expire_snapshots(`table` => '{table}', retain_max => 1, retain_min => 1)")
    assert counted(everything) == 3
