"""What a user of pypaimon does with this server as the catalog; runs in pypaimon's own environment, fails loudly."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.table.instant import Instant

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.string())])


def connect(url: str) -> Any:
    """The catalog; this client insists on a token, also where the server asks for none."""
    return CatalogFactory.create({"metastore": "rest", "uri": url, "warehouse": "sluice", "token.provider": "bear", "token": "any"})


def write(table: Any, rows: pa.Table, *, overwrite: dict[str, str] | None = None) -> None:
    """One batch commit."""
    builder = table.new_batch_write_builder()
    if overwrite is not None:
        builder = builder.overwrite(overwrite)
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(table: Any) -> list[dict[str, Any]]:
    """All rows, by id."""
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return list(found.sort_by("id").to_pylist())


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{i}" for i in ids], "day": [f"d{i % 2}" for i in ids]}, schema=COLUMNS)


def databases(catalog: Any) -> None:
    catalog.create_database("shop d+1", False, {"a": "b"})
    assert catalog.get_database("shop d+1").options["a"] == "b"
    catalog.create_database("shop d+1", True)
    assert "shop d+1" in catalog.list_databases()
    catalog.drop_database("shop d+1", False)
    assert "shop d+1" not in catalog.list_databases()
    catalog.create_database("shop", False)


def buckets(catalog: Any, name: str, options: dict[str, str]) -> None:
    """Write, read, travel, overwrite, roll back."""
    catalog.create_table(name, Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options=options), False)
    table = catalog.get_table(name)
    assert table.table_schema.options["what.is.this"] == "kept"
    for first in (0, 4, 8):
        write(table, rows(*range(first, first + 4)))
    assert [row["id"] for row in read(table)] == list(range(12))
    assert [row["id"] for row in read(table.copy({"scan.snapshot-id": "1"}))] == [0, 1, 2, 3]
    listed = catalog.list_partitions_paged(name).elements
    assert [(one.spec["day"], one.record_count) for one in listed] == [("d0", 6), ("d1", 6)], listed
    write(table, rows(100, 102), overwrite={"day": "d0"})
    assert [row["id"] for row in read(table)] == [1, 3, 5, 7, 9, 11, 100, 102]
    catalog.create_tag(name, "four", 3)
    assert catalog.get_tag(name, "four").snapshot.id == 3
    assert catalog.list_tags_paged(name).elements == ["four"]
    assert [row["id"] for row in read(table.copy({"scan.tag-name": "four"}))] == list(range(12))
    table.create_tag("own", 2)
    assert catalog.list_tags_paged(name).elements == ["four", "own"]
    catalog.rollback_to(name, Instant.snapshot(3))
    assert len(read(catalog.get_table(name))) == 12
    catalog.delete_tag(name, "four")


def branches(catalog: Any, name: str) -> None:
    table = catalog.get_table(name)
    catalog.create_tag(name, "v1", 1)
    catalog.create_branch(name, "b1", "v1")
    assert catalog.list_branches(name) == ["b1"]
    branch = catalog.get_table(f"{name}$branch_b1")
    assert [row["id"] for row in read(branch)] == [0, 1, 2, 3]
    write(branch, rows(50, 51))
    assert [row["id"] for row in read(branch)] == [0, 1, 2, 3, 50, 51]
    assert len(read(table)) == 12
    catalog.rename_branch(name, "b1", "b2")
    catalog.fast_forward(name, "b2")
    assert [row["id"] for row in read(catalog.get_table(name))] == [0, 1, 2, 3, 50, 51]
    catalog.drop_branch(name, "b2")


def schemas(catalog: Any, name: str) -> None:
    catalog.alter_table(
        name,
        [
            SchemaChange.add_column("extra", AtomicType("INT")),
            SchemaChange.rename_column("name", "title"),
            SchemaChange.set_option("made.up", "1"),
            SchemaChange.update_comment("said"),
        ],
        False,
    )
    table = catalog.get_table(name)
    assert [field.name for field in table.fields] == ["id", "title", "day", "extra"]
    assert table.table_schema.options["made.up"] == "1"
    assert read(table)[0] == {"id": 0, "title": "n0", "day": "d0", "extra": None}
    catalog.rename_table(name, "shop.renamed")
    assert len(read(catalog.get_table("shop.renamed"))) == 6
    catalog.drop_table("shop.renamed", False)


def main(url: str) -> None:
    catalog = connect(url)
    databases(catalog)
    for name, options in (
        ("shop.fixed", {"bucket": "2", "bucket-key": "id", "what.is.this": "kept"}),
        ("shop.free", {"bucket": "-1", "what.is.this": "kept"}),
    ):
        buckets(catalog, name, options)
        branches(catalog, name)
        schemas(catalog, name)
    assert catalog.list_tables("shop") == []
    print(json.dumps("done"))


def hammer(url: str, name: str, first: int, commits: int) -> None:
    """Commit rows of its own, one commit each; many processes do so at once."""
    table = connect(url).get_table(name).copy({"commit.max-retries": "1000", "commit.max-retry-wait": "200 ms"})
    for at in range(first, first + commits):
        write(table, rows(at))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        hammer(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
