"""A table's past that changes under statements on Spark: no answer is a bug, none is untrue, and all that is kept can be read."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from tests.sql.statements.test_history_at_once import LAYOUTS, Historians, whole

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261127"))


class SparkHistorians(Historians):
    """Callers of whose statements one half is for Spark."""

    @staticmethod
    def _statement(rng: random.Random, row: int) -> str:
        if rng.random() < 0.5:
            return Historians._statement(rng, row)
        tag, branch = rng.choice(("g1", "g2", "g3")), rng.choice(("b1", "b2"))
        name = rng.choice(("t", "t", "t", f"`t$branch_{branch}`"))
        part = f"id % 7 = {row % 7}"
        kinds = {
            f"INSERT INTO {name} (id, p) SELECT {row} + id % 100, p FROM t WHERE {part}": 4,
            f"INSERT INTO {name} (id, p) SELECT id, CAST(id % 3 AS STRING) FROM range({row}, {row} + 20)": 3,
            f"INSERT OVERWRITE {name} (id, p) SELECT id, p FROM t WHERE {part}": 1,
            f"UPDATE {name} SET id = id + 1 WHERE {part}": 3,
            f"DELETE FROM {name} WHERE {part} AND id % 2 = 1": 3,
            f"MERGE INTO {name} AS o USING (SELECT {row} + id AS n FROM range(0, 5)) s ON o.id = s.n WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.n, '1')": 2,
            f"SELECT p, COUNT(*), SUM(id) FROM {name} GROUP BY p": 3,
            f"SELECT COUNT(DISTINCT id) FROM t /*+ OPTIONS('scan.tag-name' = '{tag}') */": 1,
            f"SELECT COUNT(DISTINCT id) FROM t /*+ OPTIONS('scan.snapshot-id' = '{rng.randrange(1, 40)}') */": 1,
            f"SELECT MAX(a.id) FROM t AS a JOIN {name} AS b ON a.id = b.id": 1,
            "SELECT COUNT(DISTINCT file_path) FROM t$files": 1,
            "CALL sys.compact('t', compact_strategy => 'full', order_strategy => 'order', order_by => 'id')": 1,
            f"CREATE TABLE made_{row} AS SELECT * FROM {name}": 1,
        }
        (text,) = rng.choices(list(kinds), list(kinds.values()))
        return text


def crowd(gateway: Gateway, lake: Lake, warehouse: Path, layout: str, seed: int, *, callers: int, statements: int) -> None:
    gateway.run(f"CREATE TABLE t (id INT, p STRING) {LAYOUTS[layout]}").close()
    gateway.run("INSERT INTO t (id, p) VALUES " + ", ".join(f"({n}, '{n % 3}')" for n in range(50))).close()
    many = SparkHistorians(gateway, lake, seed)
    many.run(callers, statements)
    whole(many, warehouse, layout)
    print(sorted(many.statuses.items()), *many.refusals.items(), sep="\n")


@pytest.mark.parametrize("layout", ["partitions"])
def test_the_past_is_whole_under_spark(on_spark: Gateway, lake: Lake, warehouse: Path, layout: str) -> None:
    crowd(on_spark, lake, warehouse, layout, SEED, callers=2, statements=8)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_past_is_whole_under_spark_each_time(on_spark: Gateway, lake: Lake, warehouse: Path, layout: str, seed: int) -> None:
    crowd(on_spark, lake, warehouse, layout, SEED + 1 + seed, callers=4, statements=50)
