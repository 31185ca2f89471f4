"""A warehouse that can only be read: what changes the catalog happens and is answered, or is refused and has not happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from lake.tables import drops
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.schema import new_schema
from model.schema.types import Field, parse_type
from tests.disks import mounted, read_only
from tests.faults.world import Answer, World, world


@dataclass(frozen=True, slots=True)
class Change:
    """One change, with a query that tells by its first column whether it happened."""

    ask: str | Callable[[World], object]
    """A statement, or what a client of the REST catalog asks for."""
    asked: str
    done: list[object]
    """What the query answers once it has happened, sorted."""
    takes: bool = False
    """Whether it needs nothing but Postgres, and is done even there."""

    def run(self, server: World) -> Answer:
        """Ask for it."""
        if isinstance(self.ask, str):
            return server.ask(self.ask)
        try:
            return Answer(status=200, body=self.ask(server))
        except LakeError as refused:
            return Answer(status=refused.status, body=refused.message)


SCHEMA = new_schema([Field(id=0, name="other", type=parse_type("INT"))], options={"bucket": "-1"})


def _replaces(server: World) -> None:
    server.lake.replace_table(Identifier("default", "t"), SCHEMA)


def _creates_outside(server: World) -> None:
    server.lake.create_table(Identifier("default", "n"), SCHEMA, path=f"{server.directory}/warehouse/outside/n")


def _rolls_schema_back(server: World) -> None:
    server.lake.history.rollback_schema(server.lake.open(Identifier("default", "t")), 0)


TABLES, TAGS, BRANCHES = "SHOW TABLES", "SELECT tag_name FROM t$tags", "SELECT branch_name FROM t$branches"
SNAPSHOTS, ROWS = "SELECT snapshot_id FROM t$snapshots", "SELECT id FROM t"
CHANGES = [
    Change("CREATE TABLE n (id INT)", TABLES, ["n", "t"]),
    Change("CREATE TABLE IF NOT EXISTS t (id INT)", TABLES, ["t"], takes=True),
    Change(_creates_outside, TABLES, ["n", "t"]),
    Change(_replaces, "DESCRIBE t", ["other"]),
    Change("ALTER TABLE t ADD n INT", "DESCRIBE t", ["id", "n", "s"]),
    Change("ALTER TABLE t SET ('snapshot.num-retained.max' = '50')", "SELECT key FROM t$options", ["snapshot.num-retained.max"]),
    Change(_rolls_schema_back, "SELECT key FROM t$options", []),
    Change("ALTER TABLE t RENAME TO u", TABLES, ["u"], takes=True),
    Change("DROP TABLE t", TABLES, [], takes=True),
    Change("TRUNCATE TABLE t", ROWS, []),
    Change("INSERT INTO t VALUES (4, 'd')", ROWS, [1, 2, 3, 4]),
    Change("CREATE DATABASE d", "SHOW DATABASES", ["d", "default", "full"], takes=True),
    Change("DROP DATABASE full CASCADE", "SHOW DATABASES", ["default"], takes=True),
    Change("CALL sys.create_tag('t', 'new')", TAGS, ["new", "old"]),
    Change("CALL sys.delete_tag('t', 'old')", TAGS, []),
    Change("CALL sys.rename_tag('t', 'old', 'new')", TAGS, ["new"]),
    Change("CALL sys.replace_tag('t', 'old', 3)", "SELECT snapshot_id FROM t$tags", [3]),
    Change("CALL sys.create_branch('t', 'n', 'old')", BRANCHES, ["b", "n"], takes=True),
    Change("CALL sys.delete_branch('t', 'b')", BRANCHES, [], takes=True),
    Change("CALL sys.rename_branch('t', 'b', 'c')", BRANCHES, ["c"], takes=True),
    Change("CALL sys.fast_forward('t', 'b')", ROWS, [1, 2]),
    Change("CALL sys.rollback_to('t', 1)", ROWS, [1]),
    Change("CALL sys.rollback_to('t', 'old')", ROWS, [1, 2]),
    Change("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)", SNAPSHOTS, [3]),
    Change("CALL sys.compact('t')", SNAPSHOTS, [1, 2, 3, 4]),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory whose warehouse lies on a disk of its own."""
    with mounted(tmp_path / "warehouse", megabytes=16):
        yield tmp_path


def _made(server: World, change: Change) -> None:
    for name in server.rows(TABLES):
        server.must(f"DROP TABLE {name[0]}")
    server.must("DROP DATABASE IF EXISTS d CASCADE", "CREATE DATABASE IF NOT EXISTS full", "CREATE TABLE IF NOT EXISTS full.t (id INT)")
    server.must("CREATE TABLE t (id INT, s STRING) WITH ('bucket' = '-1')")
    for number in (1, 2, 3):
        server.must(f"INSERT INTO t VALUES ({number}, 'a')")
        if number == 2:
            server.must("CALL sys.create_tag('t', 'old')", "CALL sys.create_branch('t', 'b', 'old')")
    if change.ask is _rolls_schema_back:
        server.must("ALTER TABLE t SET ('snapshot.num-retained.max' = '50')")
    if change.ask == "CALL sys.compact('t')":
        server.must("ALTER TABLE t SET ('compaction.min.file-num' = '2')")


def _told(server: World, change: Change) -> list[object]:
    values = [row[0] for row in server.rows(change.asked)]
    return sorted(set(values) & {"snapshot.num-retained.max"} if "$options" in change.asked else values)


@pytest.mark.parametrize("changes", [pytest.param(CHANGES[::3], id="short"), pytest.param(CHANGES, id="whole", marks=pytest.mark.torture)])
def test_every_change_is_done_or_refused(dsn: str, disk: Path, changes: Sequence[Change]) -> None:
    wrong = []
    with world(dsn, disk) as server:
        for change in changes:
            _made(server, change)
            before = _told(server, change)
            server.settle()  # a disk on which somebody writes is busy
            with read_only(disk / "warehouse"):
                answer = change.run(server)
            after = _told(server, change)
            if after != (change.done if answer.ok else before) or answer.status not in (200, 503) or (change.takes and not answer.ok):
                wrong.append(f"{change.ask}: {answer}: {before} was, {after} is")
            with world(dsn, disk) as fresh:
                assert _told(fresh, change) == after
                for (name,) in fresh.rows(TABLES):
                    fresh.must(f"SELECT * FROM {name}")
            again = change.run(server) if not answer.ok else answer
            if not again.ok or _told(server, change) != change.done:
                wrong.append(f"{change.ask}: with the disk back: {again}: {_told(server, change)}")
    assert not wrong, "\n".join(wrong)


def test_the_directory_of_a_dropped_table_goes_once_the_disk_is_back(dsn: str, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = [disk / "warehouse" / "default.db" / name for name in ("t", "u")]
    with world(dsn, disk) as server:
        for directory in directories:
            server.must(f"CREATE TABLE {directory.name} (id INT)", f"INSERT INTO {directory.name} VALUES (1)")
        with read_only(disk / "warehouse"):
            server.must("DROP TABLE t PURGE", "DROP TABLE u PURGE")
            monkeypatch.setattr(drops, "_TRIED_AGAIN_AFTER", timedelta(0))
            server.lake.sweep_drops()
            assert all(directory.exists() for directory in directories)
        server.lake.sweep_drops()
        assert not any(directory.exists() for directory in directories)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT location FROM dropped_directory").fetchall() == []
