"""A Flink SQL batch job with this server as its catalog; runs in an environment of its own, fails loudly."""

from __future__ import annotations

import sys

from pyflink.table import EnvironmentSettings, TableEnvironment


def main(create_catalog: str) -> None:
    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    environment.get_config().set("parallelism.default", "1")

    def sql(text: str) -> list[tuple[object, ...]]:
        with environment.execute_sql(text).collect() as rows:
            return [tuple(row) for row in rows]

    environment.execute_sql(create_catalog)
    environment.execute_sql("USE CATALOG sluice")
    environment.execute_sql("CREATE DATABASE flinky")
    environment.execute_sql("USE flinky")
    for name, bucket in (("fixed", "'bucket' = '2', 'bucket-key' = 'id'"), ("loose", "'bucket' = '-1'")):
        environment.execute_sql(f"CREATE TABLE {name} (id BIGINT, name STRING) WITH ({bucket})")
        for first in (0, 2):
            environment.execute_sql(f"INSERT INTO {name} VALUES ({first}, 'a'), ({first + 1}, 'b')").wait()
        assert sorted(sql(f"SELECT id FROM {name}")) == [(0,), (1,), (2,), (3,)]
        assert sql(f"SELECT count(*) FROM {name} WHERE name = 'b'") == [(2,)]
    assert sorted(sql("SHOW TABLES")) == [("fixed",), ("loose",)]
    environment.execute_sql("ALTER TABLE fixed ADD (extra INT)")
    environment.execute_sql("CREATE VIEW big AS SELECT id FROM loose WHERE id > 1")
    assert sorted(sql("SELECT * FROM big")) == [(2,), (3,)]
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
