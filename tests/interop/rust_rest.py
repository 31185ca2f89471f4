"""What a user of pypaimon-rust does with this server as the catalog; runs in an environment of its own, fails loudly."""

from __future__ import annotations

import sys
from typing import Any

from pypaimon_rust.datafusion import PaimonCatalog, SQLContext


def options(url: str) -> dict[str, str]:
    """As for pypaimon."""
    return {"metastore": "rest", "uri": url, "warehouse": "sluice", "token.provider": "bear", "token": "any"}


def main(url: str) -> None:
    context = SQLContext()
    context.register_catalog("sluice", options(url))

    def sql(text: str) -> list[Any]:
        return [row for batch in context.sql(text) for row in batch.to_pylist()]

    sql("CREATE SCHEMA sluice.rusty")
    context.set_current_catalog("sluice")
    context.set_current_database("rusty")
    for name, bucket in (("fixed", "'bucket' = '2', 'bucket-key' = 'id'"), ("free", "'bucket' = '-1'")):
        sql(f"CREATE TABLE {name} (id BIGINT, name STRING) WITH ({bucket})")
        for first in (0, 2, 4):
            sql(f"INSERT INTO {name} VALUES ({first}, 'a'), ({first + 1}, 'b')")
        assert [row["id"] for row in sql(f"SELECT id FROM {name} ORDER BY id")] == list(range(6))
        assert sql(f"SELECT count(*) AS n FROM {name}") == [{"n": 6}]
        assert sql(f"SELECT count(*) AS n FROM {name} VERSION AS OF 1") == [{"n": 2}]
    catalog = PaimonCatalog(options(url))
    assert "rusty" in catalog.list_databases()
    assert sorted(catalog.list_tables("rusty")) == ["fixed", "free"]
    table = catalog.get_table("rusty.fixed")
    assert table.latest_snapshot().id() == 3
    assert sorted(one.id() for one in table.list_snapshots()) == [1, 2, 3]
    sql("CREATE VIEW v AS SELECT id FROM fixed WHERE id > 3")
    assert sql("SELECT count(*) AS n FROM v") == [{"n": 2}]
    sql("DROP VIEW v")
    sql("DROP TABLE fixed")
    sql("DROP SCHEMA sluice.rusty CASCADE")
    print("done")


def hammer(url: str, table: str, first: int, commits: int) -> None:
    """One row a commit, whatever the server answers."""
    context = SQLContext()
    context.register_catalog("sluice", options(url))
    database, name = table.split(".")
    for at in range(first, first + commits):
        context.sql(f"INSERT INTO sluice.`{database}`.{name} VALUES ({at}, 'n', 'd')")
    print("done")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        hammer(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
