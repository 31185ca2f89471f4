"""Names that change under each other: no statement meets a bug or a deadlock, and every row that was taken is there once at the end."""

from __future__ import annotations

import os
import random
import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError
from tests.interop.strict import check_warehouse
from tests.sql.statements.test_name_histories import quoted

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261126"))
_DATABASES = ("default", "d", "e")
_TABLES = ("t", "u")
TOLD = ("no Spark in this test", "nothing was committed, repeat it", "may have expired while it was read", "dropped or renamed meanwhile")
"""What may be answered with 503: the table is another than when the statement began to look at it."""


class Crowd:
    """Several callers, each with random statements about the same few names."""

    told: Sequence[str] = TOLD

    def __init__(self, gateway: Gateway, lake: Lake, seed: int, *others: Gateway) -> None:
        self.gateway, self.seed = gateway, seed
        self.servers = (gateway, *others)
        lake.drop_retention = timedelta(days=7)
        self.taken: list[int] = []
        self.statuses: Counter[str] = Counter()
        self.bugs: list[str] = []
        self.refusals: dict[str, str] = {}
        """Of each kind of refusal one, to be read by people."""

    def run(self, callers: int, statements: int) -> None:
        threads = [threading.Thread(target=self._caller, args=(number, statements)) for number in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _caller(self, number: int, statements: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        gateway = self.servers[number % len(self.servers)]
        for at in range(statements):
            self._run(gateway, rng, number * 1_000_000 + at)

    def _run(self, gateway: Gateway, rng: random.Random, row: int) -> None:
        """Run a random statement."""
        text = self._statement(rng, row)
        try:
            gateway.run(text).close()
            if text.startswith("INSERT"):
                self.taken.append(row)
            self.statuses[f"{text.split(' ')[0]} 200"] += 1
        except LakeError as problem:
            self._met(text, problem.status, problem.message, problem.error_class)
        except Exception:
            self.bugs.append(f"{text}: {traceback.format_exc()}")

    def _met(self, what: str, status: int, message: str, kind: str) -> None:
        """Note a refusal."""
        self.statuses[f"{what.split(' ')[0]} {status}"] += 1
        self.refusals[f"{what.split(' ')[0]} {status} {kind}"] = f"{what}: {message}"
        if status >= 500 and not any(words in message for words in self.told):
            self.bugs.append(f"{what}: {status} {kind} {message}")

    @staticmethod
    def _statement(rng: random.Random, row: int) -> str:
        table = quoted(rng.choice(_DATABASES), rng.choice(_TABLES))
        other = quoted(rng.choice(_DATABASES), rng.choice(_TABLES))
        database = quoted(rng.choice(_DATABASES[1:]))
        kinds = {
            f"CREATE TABLE IF NOT EXISTS {table} (id INT)": 8,
            f"INSERT INTO {table} VALUES ({row})": 12,
            f"DROP TABLE {table}": 4,
            f"UNDROP TABLE {table}": 3,
            f"UNDROP TABLE {table} AS {other}": 3,
            f"ALTER TABLE {table} RENAME TO {other}": 5,
            f"CREATE DATABASE IF NOT EXISTS {database}": 4,
            f"DROP DATABASE {database} CASCADE": 2,
            f"UNDROP DATABASE {database}": 2,
            f"ALTER TABLE {table} SET ('snapshot.num-retained.max' = '{rng.randrange(20, 90)}')": 2,
            f"CALL sys.compact('{table}')": 2,
            f"CALL sys.create_branch('{table}', 'b{row}')": 1,
            f"GRANT SELECT ON {table} TO ada": 1,
            f"CREATE POLICY p{row} ON {table} TO ada USING (id > 1)": 1,
            f"SELECT COUNT(*) FROM {table}": 2,
            "SHOW DROPPED TABLES": 1,
        }
        (text,) = rng.choices(list(kinds), list(kinds.values()))
        return text

    def found(self) -> list[int]:
        """The rows of all tables, those that are dropped brought back."""
        rows: list[int] = []
        for drop_id, name in self._all("SHOW DROPPED DATABASES", 2):
            self.gateway.run(f"UNDROP DATABASE {quoted(str(name))} WITH ID {drop_id} AS back_{drop_id}").close()
        for drop_id, database, name in self._all("SHOW DROPPED TABLES", 3):
            self.gateway.run(f"UNDROP TABLE {quoted(str(database), str(name))} WITH ID {drop_id} AS `default`.back_{drop_id}").close()
        for (database,) in self._all("SHOW DATABASES", 1):
            for (name,) in self._all(f"SHOW TABLES IN {quoted(str(database))}", 1):
                rows += [int(str(row)) for (row,) in self._all(f"SELECT id FROM {quoted(str(database), str(name))}", 1)]
        return sorted(rows)

    def _all(self, text: str, columns: int) -> list[tuple[object, ...]]:
        return [row[:columns] for row in self.ask(text)]

    def ask(self, text: str) -> list[tuple[object, ...]]:
        """The rows of a query."""
        with self.gateway.run(text) as result:
            return result.collect()


def crowd(gateways: Sequence[Gateway], lake: Lake, warehouse: Path, seed: int, *, callers: int, statements: int) -> None:
    many = Crowd(gateways[0], lake, seed, *gateways[1:])
    many.run(callers, statements)
    assert not many.bugs, "\n".join(many.bugs)
    assert many.found() == sorted(many.taken), many.statuses
    assert len(many.taken) > callers, many.statuses
    check_warehouse(warehouse)


def test_every_row_is_there_once(gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path) -> None:
    crowd([gateway, other_server], lake, warehouse, SEED, callers=4, statements=40)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(30))
def test_every_row_is_there_once_each_time(gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, seed: int) -> None:
    crowd([gateway, other_server][: 1 + seed % 2], lake, warehouse, SEED + 1 + seed, callers=8, statements=100)
