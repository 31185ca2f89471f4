"""Names that change hands while somebody uses them who may not have everything: no row, number or table of others reaches the caller."""

from __future__ import annotations

import os
import random
import threading
import traceback
from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.access.callers import Caller
from model.errors import LakeError
from model.identifier import Identifier
from tests.lake.access.test_access import user
from tests.sql.statements.test_names_at_once import TOLD

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261127"))
_NAMES = ("d.a", "d.b", "d.c", "e.a")
_HIDDEN = 7000
_FEWEST_HIDDEN = 50
"""From the first number on rows are kept from the caller, and so are counts from the second on: what it may see is smaller."""


class Swapped:
    """Tables that change their names: one the caller owns, one of which a policy shows it a part, one that is none of its business."""

    def __init__(self, gateways: Sequence[Gateway], seed: int) -> None:
        self.servers, self.seed = gateways, seed
        self.lake: Lake = gateways[0].lake
        self.lake.drop_retention = timedelta(days=7)
        self.token = user(self.lake, "ada")
        self.told: list[str] = []
        self.bugs: list[str] = []
        self.answered = 0
        self.ended = threading.Event()
        hidden = ", ".join(f"({_HIDDEN + number}, 'osprey')" for number in range(50))
        self.admin("CREATE DATABASE d; CREATE DATABASE e")
        self.admin("CREATE TABLE d.a (id INT, s STRING); INSERT INTO d.a VALUES (1, 'mine'); GRANT ALL ON d.a TO ada")
        self.admin("CREATE TABLE d.b (id INT, s STRING); INSERT INTO d.b VALUES (2, 'seen')")
        self.admin(f"INSERT INTO d.b VALUES {hidden}; CREATE POLICY few ON d.b TO ada USING (id < {_HIDDEN})")
        self.admin("; ".join(f"GRANT {access} ON d.b TO ada" for access in ("SELECT", "UPDATE", "DELETE", "ALTER", "DROP")))
        self.admin(f"CREATE TABLE d.c (id INT, s STRING); INSERT INTO d.c VALUES {hidden}; CREATE DATABASE f")
        with self.lake.catalog.reading() as tx:
            self.ids = {name: tx.tables.get(Identifier("d", name)).table_id for name in "abc"}

    def admin(self, text: str, server: int = 0) -> None:
        self.servers[server].run(text).close()

    def run(self, callers: int, statements: int) -> None:
        movers = [threading.Thread(target=self._mover, args=(number,)) for number in range(len(self.servers))]
        threads = [threading.Thread(target=self._caller, args=(number, statements)) for number in range(callers)]
        for thread in (*movers, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        self.ended.set()
        for thread in movers:
            thread.join()

    def _mover(self, number: int) -> None:
        """Gives the tables other names and back, by the statements of an administrator."""
        rng = random.Random(f"{self.seed} mover {number}")
        while not self.ended.is_set():
            name, other = rng.sample(_NAMES, 2)
            free = f"f.x{number}"
            swap = (
                f"ALTER TABLE {name} RENAME TO {free}",
                f"ALTER TABLE {other} RENAME TO {name}",
                f"ALTER TABLE {free} RENAME TO {other}",
            )
            dropped = (f"DROP TABLE {name}", f"ALTER TABLE {other} RENAME TO {name}", f"UNDROP TABLE {name} AS {other}")
            for step in (*rng.choice((swap, swap, dropped)), *self._strays(rng)):
                try:
                    self.admin(step, number)
                except LakeError as problem:
                    self._met(step, problem)
            self.ended.wait(rng.random() / 50)

    def _strays(self, rng: random.Random) -> Iterator[str]:
        """What brings tables back that lie where the caller does not ask."""
        for table_id in self.ids.values():
            with self.lake.catalog.reading() as tx:
                row = tx.tables.by_id(table_id)
                dropped = [one for one in tx.drops.tables() if one.table_id == table_id]
            if row is not None and row.database == "f":
                yield f"ALTER TABLE f.{row.name} RENAME TO {rng.choice(_NAMES)}"
            elif dropped and row is None:
                yield f"UNDROP TABLE {dropped[0].database}.{dropped[0].name} WITH ID {dropped[0].drop_id} AS {rng.choice(_NAMES)}"

    def _met(self, text: str, problem: LakeError) -> None:
        if problem.status >= 500 and not any(words in problem.message for words in TOLD):
            self.bugs.append(f"{text}: {problem!r}")

    def _caller(self, number: int, statements: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        gateway = self.servers[number % len(self.servers)]
        for at in range(statements):
            text = self._statement(rng, number * 100 + at % 100)
            try:
                caller: Caller = gateway.lake.access.caller(self.token)
                with gateway.run(text, caller=caller) as result:
                    rows = result.collect()
                self.answered += 1
                if not text.startswith("CALL") and any(  # what one took away is told in bytes
                    value == "osprey" or (isinstance(value, int) and _FEWEST_HIDDEN <= value < _HIDDEN + 50)
                    for row in rows
                    for value in row
                ):
                    self.told.append(f"{text}: {rows[:3]}")
            except LakeError as problem:
                self._met(text, problem)
            except Exception:
                self.bugs.append(f"{text}: {traceback.format_exc()}")

    @staticmethod
    def _statement(rng: random.Random, row: int) -> str:
        name = rng.choice(_NAMES)
        kinds = {
            f"SELECT * FROM {name}": 8,
            f"SELECT COUNT(*) FROM {name}": 4,
            f"SELECT MAX(id) FROM {name}": 2,
            f"INSERT INTO {name} VALUES ({row % 40}, 'x')": 4,
            f"DELETE FROM {name} WHERE id >= 0": 3,
            f"UPDATE {name} SET s = 'y' WHERE id >= 0": 2,
            f"TRUNCATE TABLE {name}": 2,
            f"INSERT OVERWRITE {name} VALUES (3, 'z')": 2,
            f"DROP TABLE {name}": 1,
            f"ALTER TABLE {name} SET ('snapshot.num-retained.max' = '{rng.randrange(20, 40)}')": 2,
            f"SELECT record_count FROM {name}$files": 1,
            "SELECT database_name, table_name, record_count FROM sys.tables": 2,
            f"CALL sys.create_tag('{name}', 't{row}')": 1,
            f"CALL sys.expire_snapshots('{name}', retain_max => 1, retain_min => 1)": 1,
            f"GRANT SELECT ON {name} TO bob": 1,
            f"DROP POLICY IF EXISTS few ON {name}": 1,
            f"SHOW CREATE TABLE {name}": 1,
        }
        (text,) = rng.choices(list(kinds), list(kinds.values()))
        return text


def kept(swapped: Swapped) -> Iterator[str]:
    """What is not as it must be of the tables of others."""
    lake = swapped.lake
    for name in "bc":
        with lake.catalog.reading() as tx:
            row = tx.tables.by_id(swapped.ids[name])
            dropped = [one for one in tx.drops.tables() if one.table_id == swapped.ids[name]]
            grants = tx.grants.of(["bob"])
        if row is None and dropped:
            swapped.admin(f"UNDROP TABLE {dropped[0].database}.{dropped[0].name} WITH ID {dropped[0].drop_id} AS f.back_{name}")
            with lake.catalog.reading() as tx:
                row = tx.tables.by_id(swapped.ids[name])
        if row is None:
            yield f"{name} is gone"
            continue
        table = f"{row.database}.{row.name}"
        with swapped.servers[0].run(f"SELECT id, s FROM {table} WHERE id >= {_HIDDEN}") as result:
            found = sorted(result.collect())
        if found != [(_HIDDEN + number, "osprey") for number in range(50)]:
            yield f"{name}: {len(found)} of its 50 rows"
        if name == "c":
            if any(f"{grant.resource.database}.{grant.resource.name}" == table for grant in grants):
                yield f"{name} was granted to bob"
            with swapped.servers[0].run(f"SELECT COUNT(*) FROM {table}") as result:
                if result.collect() != [(50,)]:
                    yield f"{name} has rows of the caller"
            with swapped.servers[0].run(f"SELECT COUNT(*) FROM {table}$snapshots") as result:
                if result.collect() != [(1,)]:
                    yield f"{name} has snapshots of the caller"


def crowd(gateways: Sequence[Gateway], seed: int, *, callers: int, statements: int) -> None:
    swapped = Swapped(gateways, seed)
    swapped.run(callers, statements)
    assert not swapped.bugs, "\n".join(swapped.bugs)
    assert not swapped.told, "\n".join(swapped.told)
    assert not (wrong := list(kept(swapped))), wrong
    assert swapped.answered > callers


def test_nothing_of_others(gateway: Gateway, other_server: Gateway) -> None:
    crowd([gateway, other_server], SEED, callers=4, statements=60)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
def test_nothing_of_others_each_time(gateway: Gateway, other_server: Gateway, seed: int) -> None:
    crowd([gateway, other_server][: 1 + seed % 2], SEED + 1 + seed, callers=6, statements=200)
