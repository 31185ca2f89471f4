"""Whatever is created, dropped, renamed and brought back in whatever order: names, rows, tags, grants and policies are those of a model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from gateway.gateway import Gateway
from lake import Caller, Lake
from model.errors import Forbidden, LakeError
from model.identifier import Identifier
from model.schema.schema import column
from model.view import View
from tests.lake.access.test_access import as_user, user

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261126"))
_DATABASES = ("default", "d", "e", "dropped/x")
_TABLES = ("t", "u", "v")


@dataclass(eq=False)
class Database:
    """One database, there or dropped, under whatever name."""

    name: str
    views: set[str] = field(default_factory=set)
    granted: bool = False


@dataclass(eq=False)
class Table:
    """One table, there or dropped, under whatever name."""

    database: Database
    name: str
    rows: list[int] = field(default_factory=list)
    tags: dict[str, list[int]] = field(default_factory=dict)
    granted: bool = False
    policies: set[str] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Dropped:
    """A drop that can be taken back."""

    what: Table | Database
    parent: Database | None = None
    over: bool = False
    """Whether its time is over, so that it goes at the next sweep, a database once no table that was in it is kept."""


class Refused(Exception):
    """What the model says of a statement that the product is to refuse, with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Model:
    """All databases and tables by their names, and what was dropped, the oldest drop first."""

    def __init__(self) -> None:
        self.databases = {"default": Database("default")}
        self.tables: dict[tuple[str, str], Table] = {}
        self.drops: list[Dropped] = []
        self.next_row = 0

    def database(self, name: str) -> Database:
        if name not in self.databases:
            raise Refused(404)
        return self.databases[name]

    def table(self, database: str, name: str) -> Table:
        if (database, name) not in self.tables:
            raise Refused(404)
        return self.tables[database, name]

    def free(self, database: str, name: str) -> Database:
        """The database, in which nothing has the name."""
        place = self.database(database)
        if (database, name) in self.tables or name in place.views:
            raise Refused(409)
        return place

    def of(self, database: Database) -> list[Table]:
        return [table for table in self.tables.values() if table.database is database]

    def dropped_tables(self, database: str | None = None, name: str | None = None) -> list[Dropped]:
        """The newest first; a table goes by the name its database has, or had when it was dropped."""
        return [
            drop
            for drop in reversed(self.drops)
            if isinstance(drop.what, Table) and database in (None, drop.what.database.name) and name in (None, drop.what.name)
        ]

    def dropped_databases(self, name: str | None = None) -> list[Dropped]:
        return [drop for drop in reversed(self.drops) if isinstance(drop.what, Database) and name in (None, drop.what.name)]

    def sweep(self) -> None:
        """Remove for good what is over."""
        self.drops = [drop for drop in self.drops if not (drop.over and isinstance(drop.what, Table))]
        housing = {drop.what.database for drop in self.drops if isinstance(drop.what, Table)}
        self.drops = [drop for drop in self.drops if not drop.over or drop.what in housing]

    def place(self, table: Table, database: str, name: str) -> None:
        table.database, table.name = self.databases[database], name
        self.tables[database, name] = table


def quoted(*parts: str) -> str:
    return ".".join(f"`{part}`" for part in parts)


class History:
    """Random statements, each told to the model and to the product."""

    def __init__(self, gateway: Gateway, lake: Lake, dsn: str, seed: int) -> None:
        self.gateway, self.lake, self.dsn = gateway, lake, dsn
        lake.drop_retention = timedelta(days=7)
        self.rng = random.Random(seed)
        self.model = Model()
        self.secret = user(lake, "ada")
        self.told: list[str] = []
        self.done = self.refused = 0
        self.view = Identifier("default", "v")
        """The one that is to be created."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            (step,) = self.rng.choices(list(_STEPS), list(_STEPS.values()))
            self.step(step)
            self.check()

    def step(self, act: Callable[[History], tuple[str, Callable[[], None]]]) -> None:
        text, change = act(self)
        self.told.append(text)
        try:
            change()
            expected = 200
        except Refused as refused:
            expected = refused.status
        try:
            if text.startswith("CREATE VIEW"):  # whose query takes Spark
                self.lake.views.create(self.view, View(fields=(column("x", "INT"),), query="SELECT 1 AS x"))
            elif text:
                self.gateway.run(text).close()
            status = 200
        except LakeError as problem:
            status = problem.status
        assert status == expected, "\n".join(self.told)
        if status == 200:
            self.done += 1
        else:
            self.refused += 1

    def ask(self, text: str, caller: Caller | None = None) -> list[tuple[Any, ...]]:
        with self.gateway.run(text) if caller is None else self.gateway.run(text, caller=caller) as result:
            return result.collect()

    def check(self) -> None:
        """All names and rows, what was dropped, what a user with grants sees."""
        model, told = self.model, "\n".join(self.told[-80:])
        assert {name for (name,) in self.ask("SHOW DATABASES")} == set(model.databases), told
        ada = self.lake.access.caller(self.secret)
        hers = as_user(self.lake, self.secret)
        for name, database in model.databases.items():
            tables = {table.name for table in model.of(database)}
            assert {found for (found,) in self.ask(f"SHOW TABLES IN {quoted(name)}")} - database.views == tables, told
            assert {found for (found, *_) in self.ask(f"SHOW VIEWS IN {quoted(name)}")} == database.views, told
        for (where, name), table in model.tables.items():
            whole = quoted(where, name)
            assert sorted(id_ for (id_,) in self.ask(f"SELECT id FROM {whole}")) == sorted(table.rows), told
            tags = dict(self.ask(f"SELECT tag_name, record_count FROM {quoted(where, name + '$tags')}"))
            assert tags == {tag: len(rows) for tag, rows in table.tags.items()}, told
            branches = {branch for (branch,) in self.ask(f"SELECT branch_name FROM {quoted(where, name + '$branches')}")}
            assert branches == table.branches, told
            assert {policy for (policy, *_) in self.ask(f"SHOW POLICIES ON {whole}")} == table.policies, told
            may = table.granted or table.database.granted
            identifier = Identifier(where, name)
            try:
                rules = hers.read_rules(hers.open(identifier))
                assert may, told
                assert rules.restricted == bool(table.policies), told
                if not table.policies:
                    assert len(self.ask(f"SELECT id FROM {whole}", ada)) == len(table.rows), told
            except Forbidden:
                assert not may, told
        found = [(database, table, rows) for _, database, table, _, _, _, rows, _ in self.ask("SHOW DROPPED TABLES")]
        assert found == [(d.what.database.name, d.what.name, len(d.what.rows)) for d in model.dropped_tables()], told  # type: ignore[union-attr]
        dropped = [(name, tables) for _, name, _, _, _, tables in self.ask("SHOW DROPPED DATABASES")]
        assert dropped == [(d.what.name, sum(other.parent is d.what for other in model.drops)) for d in model.dropped_databases()], told

    # Choices

    def database_name(self) -> str:
        """Mostly of one that is there."""
        return self.rng.choice(sorted(self.model.databases) if self.rng.random() < 0.9 else _DATABASES)

    def some(self) -> tuple[str, str]:
        """A table's name, mostly of one that is there."""
        if self.model.tables and self.rng.random() < 0.92:
            return self.rng.choice(sorted(self.model.tables))
        return self.database_name(), self.rng.choice(_TABLES)

    def some_dropped(self) -> tuple[str, str]:
        drops = self.model.dropped_tables()
        if drops and self.rng.random() < 0.92:
            table = self.rng.choice(drops).what
            assert isinstance(table, Table)
            return table.database.name, table.name
        return self.database_name(), self.rng.choice(_TABLES)

    def drop_id(self, text: str, at: int) -> int:
        return int(self.ask(text)[at][0])

    # Statements: their text, and what they do to the model

    def create_database(self) -> tuple[str, Callable[[], None]]:
        name = self.rng.choice([name for name in _DATABASES[1:3] if name not in self.model.databases] or _DATABASES[1:3])

        def change() -> None:
            if name in self.model.databases:
                raise Refused(409)
            self.model.databases[name] = Database(name)

        return f"CREATE DATABASE {quoted(name)}", change

    def drop_database(self) -> tuple[str, Callable[[], None]]:
        name = self.rng.choice([name for name in sorted(self.model.databases) if name != "default"] or _DATABASES[1:])
        cascade, purge = self.rng.random() < 0.8, self.rng.random() < 0.1

        def change() -> None:
            database = self.model.database(name)
            tables = self.model.of(database)
            if not cascade and (tables or database.views):
                raise Refused(409)
            del self.model.databases[name]
            kept = any(drop.what.database is database for drop in self.model.drops if isinstance(drop.what, Table))
            if not purge or kept:
                self.model.drops.append(Dropped(database, over=purge))
            for table in sorted(tables, key=lambda table: table.name):
                del self.model.tables[name, table.name]
                if not purge:
                    self.model.drops.append(Dropped(table, parent=database))

        return f"DROP DATABASE {quoted(name)}{' CASCADE' if cascade else ''}{' PURGE' if purge else ''}", change

    def undrop_database(self) -> tuple[str, Callable[[], None]]:
        drops = self.model.dropped_databases()
        name = drops[0].what.name if drops and self.rng.random() < 0.8 else self.rng.choice(_DATABASES[1:])
        to = self.rng.choice(_DATABASES[1:3]) if self.rng.random() < 0.3 else None
        of_name = self.model.dropped_databases(name)
        at = self.rng.randrange(len(of_name)) if len(of_name) > 1 and self.rng.random() < 0.5 else None

        def change() -> None:
            if not of_name:
                raise Refused(404)
            drop = of_name[at or 0]
            database = drop.what
            assert isinstance(database, Database)
            if (to or name) in self.model.databases:
                raise Refused(409)
            database.name = to or name
            self.model.databases[database.name] = database
            for other in [other for other in self.model.drops if other.parent is database]:
                assert isinstance(other.what, Table)
                self.model.place(other.what, database.name, other.what.name)
                self.model.drops.remove(other)
            self.model.drops.remove(drop)

        with_id = ""
        if at is not None:
            ids = [row[0] for row in self.ask("SHOW DROPPED DATABASES") if row[1] == name]
            with_id = f" WITH ID {ids[at]}"
        return f"UNDROP DATABASE {quoted(name)}{with_id}{f' AS {quoted(to)}' if to else ''}", change

    def create_table(self) -> tuple[str, Callable[[], None]]:
        database, name = self.database_name(), self.rng.choice(_TABLES)

        def change() -> None:
            self.model.place(Table(self.model.free(database, name), name), database, name)

        return f"CREATE TABLE {quoted(database, name)} (id INT)", change

    def insert(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        self.model.next_row += 1
        row = self.model.next_row

        def change() -> None:
            self.model.table(database, name).rows.append(row)

        return f"INSERT INTO {quoted(database, name)} VALUES ({row})", change

    def truncate(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()

        def change() -> None:
            self.model.table(database, name).rows.clear()

        return f"TRUNCATE TABLE {quoted(database, name)}", change

    def drop_table(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        purge = self.rng.random() < 0.1

        def change() -> None:
            table = self.model.table(database, name)
            del self.model.tables[database, name]
            if not purge:
                self.model.drops.append(Dropped(table))

        return f"DROP TABLE {quoted(database, name)}{' PURGE' if purge else ''}", change

    def _chosen(self, database: str, name: str) -> tuple[list[Dropped], int | None, str]:
        """The drops of a name, which of them, and how a statement says that."""
        of_name = self.model.dropped_tables(database, name)
        at = self.rng.randrange(len(of_name)) if len(of_name) > 1 and self.rng.random() < 0.5 else None
        if at is None:
            return of_name, None, ""
        ids = [row[0] for row in self.ask("SHOW DROPPED TABLES") if row[1:3] == (database, name)]
        return of_name, at, f" WITH ID {ids[at]}"

    def undrop_table(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some_dropped()
        to = (self.database_name(), self.rng.choice(_TABLES)) if self.rng.random() < 0.4 else None
        of_name, at, with_id = self._chosen(database, name)

        def change() -> None:
            if not of_name:
                raise Refused(404)
            drop = of_name[at or 0]
            assert isinstance(drop.what, Table)
            target = to or (database, name)
            self.model.free(*target)
            self.model.drops.remove(drop)
            self.model.place(drop.what, *target)

        return f"UNDROP TABLE {quoted(database, name)}{with_id}{f' AS {quoted(*to)}' if to else ''}", change

    def purge(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some_dropped()
        of_name, at, with_id = self._chosen(database, name)

        def change() -> None:
            if not of_name:
                raise Refused(404)
            self.model.drops.remove(of_name[at or 0])

        return f"PURGE TABLE {quoted(database, name)}{with_id}", change

    def rename(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        to = (self.database_name(), self.rng.choice(_TABLES))

        def change() -> None:
            table = self.model.table(database, name)
            if to == (database, name):  # says nothing
                return
            self.model.free(*to)
            del self.model.tables[database, name]
            self.model.place(table, *to)

        return f"ALTER TABLE {quoted(database, name)} RENAME TO {quoted(*to)}", change

    def tag(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        tag = f"g{self.model.next_row}"

        def change() -> None:
            table = self.model.table(database, name)
            if not table.rows:
                raise Refused(0)
            if tag in table.tags:
                raise Refused(409)
            table.tags[tag] = list(table.rows)

        table = self.model.tables.get((database, name))
        if table is None or not table.rows:  # which refusal that is depends on whether there ever was a row
            return self.insert()
        return f"CALL sys.create_tag('{quoted(database, name)}', '{tag}')", change

    def branch(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        branch = self.rng.choice(("b", "c"))

        def change() -> None:
            table = self.model.table(database, name)
            if branch in table.branches:
                raise Refused(409)
            table.branches.add(branch)

        return f"CALL sys.create_branch('{quoted(database, name)}', '{branch}')", change

    def grant(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        give = self.rng.random() < 0.7

        def change() -> None:
            table = self.model.table(database, name)
            if not give and not table.granted:
                raise Refused(404)
            table.granted = give

        return f"{'GRANT' if give else 'REVOKE'} SELECT ON {quoted(database, name)} {'TO' if give else 'FROM'} ada", change

    def grant_database(self) -> tuple[str, Callable[[], None]]:
        name = self.database_name()
        give = self.rng.random() < 0.4

        def change() -> None:
            database = self.model.database(name)
            if not give and not database.granted:
                raise Refused(404)
            database.granted = give

        who = f"{'TO' if give else 'FROM'} ada"
        return f"{'GRANT' if give else 'REVOKE'} SELECT ON ALL IN DATABASE {quoted(name)} {who}", change

    def policy(self) -> tuple[str, Callable[[], None]]:
        database, name = self.some()
        make = self.rng.random() < 0.6

        def change() -> None:
            table = self.model.table(database, name)
            if make:
                if "p" in table.policies:
                    raise Refused(409)
                table.policies.add("p")
            else:
                if "p" not in table.policies:
                    raise Refused(404)
                table.policies.remove("p")

        whole = quoted(database, name)
        return (f"CREATE POLICY p ON {whole} TO ada USING (id > 1)" if make else f"DROP POLICY p ON {whole}"), change

    def create_view(self) -> tuple[str, Callable[[], None]]:
        database, name = self.database_name(), self.rng.choice(_TABLES)
        self.view = Identifier(database, name)

        def change() -> None:
            self.model.free(database, name).views.add(name)

        return f"CREATE VIEW {quoted(database, name)} AS SELECT 1 AS x", change

    def drop_view(self) -> tuple[str, Callable[[], None]]:
        there = [(database.name, view) for database in self.model.databases.values() for view in sorted(database.views)]
        database, name = self.rng.choice(there or [("default", "v")])

        def change() -> None:
            place = self.model.database(database)
            if name not in place.views:
                raise Refused(404)
            place.views.remove(name)

        return f"DROP VIEW {quoted(database, name)}", change

    def expire(self) -> tuple[str, Callable[[], None]]:
        """The time of a drop is over, and the sweep comes by."""
        drops = [*self.model.dropped_tables(), *self.model.dropped_databases()]
        if not drops:
            return self.create_table()
        drop = self.rng.choice(drops)
        if isinstance(drop.what, Table):
            drop_id = self.drop_id("SHOW DROPPED TABLES", self.model.dropped_tables().index(drop))
        else:
            drop_id = self.drop_id("SHOW DROPPED DATABASES", self.model.dropped_databases().index(drop))

        def change() -> None:
            with psycopg.connect(self.dsn, autocommit=True) as postgres:
                postgres.execute("UPDATE drop_record SET expires_at = now() - interval '1 s' WHERE drop_id = %s", (drop_id,))
            self.lake.sweep_drops()
            drop.over = True
            self.model.sweep()

        return "", change


_STEPS: dict[Callable[[History], tuple[str, Callable[[], None]]], int] = {
    History.create_database: 4, History.drop_database: 4, History.undrop_database: 4, History.create_table: 10, History.insert: 14,
    History.truncate: 1, History.drop_table: 9, History.undrop_table: 9, History.purge: 1, History.rename: 5, History.tag: 3,
    History.branch: 2, History.grant: 4, History.grant_database: 3, History.policy: 4, History.create_view: 3, History.drop_view: 2,
    History.expire: 2,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(1))
def test_any_order(gateway: Gateway, lake: Lake, dsn: str, seed: int) -> None:
    history = History(gateway, lake, dsn, SEED + seed)
    history.run(60)
    assert history.done > history.refused


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(int(os.environ.get("SLUICE_TEST_HISTORIES", "100"))))
def test_many_orders(gateway: Gateway, lake: Lake, dsn: str, seed: int) -> None:
    History(gateway, lake, dsn, SEED + 1000 + seed).run(80)
