"""Drops that can be taken back: what comes back, who may, what is in the way, and what is removed when its time is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from catalog import CatalogStore
from catalog.backup.holds import holding
from lake import Lake, LakeTable
from lake.access.callers import Caller
from lake.register.restored.after_restore import differences
from lake.tables import drops as lake_drops
from lake.tables.consumers import consumers, reset_consumer
from model.access import Access, Grant, Policy, database_resource, inside, table_resource
from model.catalog_errors import BackupRunning, DropNotExist
from model.errors import (
    BadRequest,
    DatabaseAlreadyExist,
    DatabaseNotEmpty,
    DatabaseNotExist,
    Forbidden,
    InvalidName,
    TableAlreadyExist,
    TableNotExist,
    Unavailable,
)
from model.identifier import Identifier
from model.schema.change import SetOption
from table.format.io.file_io import LocalFileIO
from tests.lake.access.test_access import as_user, give, user
from tests.lake.tables.test_tables import Crash, a_schema
from tests.lake.test_commit import T, append, names

DAYS = timedelta(days=7)
U = Identifier("default", "u")
IN_D = Identifier("d", "t")


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    """A lake that keeps what is dropped."""
    made = Lake(catalog, str(warehouse), drop_retention=DAYS)
    yield made
    made.close()


def make(lake: Lake, table: Identifier = T, *rows: str) -> LakeTable:
    lake.create_table(table, a_schema())
    for row in rows:
        lake.commit(lake.open(table), append(row))
    return lake.open(table)


def drops(lake: Lake) -> list[str]:
    return [str(one.identifier) for one in lake.dropped_tables()]


def age(dsn: str, days: int) -> None:
    """Let all drops be older by so many days."""
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE drop_record SET expires_at = expires_at - make_interval(days => %s)", (days,))


def test_a_dropped_table_comes_back_as_it_was(lake: Lake, warehouse: Path) -> None:
    table = make(lake, T, "a", "b")
    lake.tags.create(table, "first", snapshot_id=1)
    lake.branches.create(table, "side", from_tag="first")
    lake.permissions.create_policy(T, Policy(name="p", column=None, principals=("ann",), sql="id > 1", rule={}))
    policies = lake.permissions.policies(T)
    lake.drop_table(T)
    with pytest.raises(TableNotExist):
        lake.open(T)
    assert lake.list_tables("default") == []
    assert drops(lake) == ["default.t"]
    assert lake.undrop_table(T) == T
    back = lake.open(T)
    assert (back.table_id, back.location, names(back)) == (table.table_id, table.location, ["a", "b"])
    assert [tag.name for tag in lake.tags.all(back)] == ["first"]
    assert names(lake.open(Identifier("default", "t", "side"))) == ["a"]
    assert lake.permissions.policies(T) == policies
    assert lake.dropped_tables() == []
    lake.commit(back, append("c"))
    assert names(lake.open(T)) == ["a", "b", "c"]


def test_a_dropped_table_is_nowhere_else(lake: Lake, catalog: CatalogStore) -> None:
    table = make(lake, T, "a")
    lake.drop_table(T)
    with catalog.reading() as tx:
        assert tx.tables.by_id(table.table_id) is None
        assert not any((tx.tables.all(), tx.leases.due("main", uuid4()), tx.overview.pointers()))
        assert tx.tables.everywhere(databases=None, tables=None, after=None, limit=9) == []
        assert (tx.overview.sums().tables, tx.overview.sums().unpublished_snapshots) == (0, 0)
        assert [one.tables for one in tx.browse.databases()] == [0]
        assert not any((tx.tables.half_done(), tx.publications.tables_with_unpublished()))
        assert (tx.overview.sums().dropped_tables, tx.overview.sums().dropped_bytes) == (1, 1)
    with pytest.raises(TableNotExist):
        lake.commit(table, append("b"))
    lake.undrop_table(T)
    assert names(lake.open(T)) == ["a"]


def test_the_name_is_free_at_once_and_the_new_table_lies_beside(lake: Lake) -> None:
    old = make(lake, T, "old")
    lake.drop_table(T)
    new = make(lake, T, "new")
    assert new.location != old.location
    with pytest.raises(TableAlreadyExist, match=r"UNDROP TABLE default\.t AS"):
        lake.undrop_table(T)
    assert lake.undrop_table(T, to=U) == U
    assert (names(lake.open(U)), names(lake.open(T))) == (["old"], ["new"])
    assert lake.open(U).location == old.location


def test_several_drops_of_a_name_are_told_apart(lake: Lake) -> None:
    for row in ("first", "second", "third"):
        make(lake, T, row)
        lake.drop_table(T)
    newest, _, oldest = lake.dropped_tables()
    assert newest.drop_id > oldest.drop_id
    lake.undrop_table(T)
    assert names(lake.open(T)) == ["third"]
    lake.undrop_table(T, drop_id=oldest.drop_id, to=U)
    assert names(lake.open(U)) == ["first"]
    for wrong in (newest.drop_id, oldest.drop_id, 10**15):
        with pytest.raises(DropNotExist, match=f"no drop {wrong} of table default.t"):
            lake.undrop_table(T, drop_id=wrong)


def test_undropping_twice_or_the_wrong_name_changes_nothing(lake: Lake) -> None:
    make(lake)
    lake.drop_table(T)
    with pytest.raises(DropNotExist, match="SHOW DROPPED TABLES"):
        lake.undrop_table(U)
    lake.undrop_table(T)
    with pytest.raises(DropNotExist):
        lake.undrop_table(T)
    lake.open(T)


def test_a_dropped_database_comes_back_with_what_went_with_it(lake: Lake, catalog: CatalogStore) -> None:
    lake.create_database("d", options={"a": "b"}, comment="c")
    make(lake, IN_D, "with")
    make(lake, Identifier("d", "gone before"), "before")
    with catalog.transaction() as tx:
        tx.views.create("d", "v", {"query": "SELECT 1", "fields": []}, by=None)
    lake.drop_table(Identifier("d", "gone before"))
    with pytest.raises(DatabaseNotEmpty):
        lake.drop_database("d")
    lake.drop_database("d", cascade=True)
    assert lake.list_databases() == ["default"]
    assert [(one.name, one.tables) for one in lake.dropped_databases()] == [("d", 1)]
    assert sorted(drops(lake)) == ["d.gone before", "d.t"]
    with pytest.raises(DatabaseNotExist):
        lake.list_tables("d")
    assert lake.undrop_database("d") == [IN_D]
    assert (lake.database("d").options, lake.database("d").comment) == ({"a": "b"}, "c")
    assert names(lake.open(IN_D)) == ["with"]
    assert lake.views.names("d") == ["v"]
    assert drops(lake) == ["d.gone before"]
    lake.undrop_table(Identifier("d", "gone before"))
    assert lake.dropped_databases() == []


def test_a_table_of_a_dropped_database_needs_a_place(lake: Lake) -> None:
    lake.create_database("d")
    make(lake, IN_D, "a")
    lake.drop_database("d", cascade=True)
    with pytest.raises(DatabaseNotExist, match="UNDROP DATABASE d brings it back with all that went with it"):
        lake.undrop_table(IN_D)
    with pytest.raises(DatabaseNotExist):
        lake.undrop_table(IN_D, to=Identifier("nowhere", "t"))
    lake.undrop_table(IN_D, to=T)
    assert names(lake.open(T)) == ["a"]
    assert lake.undrop_database("d") == []


def test_a_new_database_of_the_name_is_another_one(lake: Lake) -> None:
    lake.create_database("d", comment="old")
    make(lake, IN_D, "old")
    lake.drop_database("d", cascade=True)
    lake.create_database("d", comment="new")
    make(lake, IN_D, "new")
    with pytest.raises(DatabaseAlreadyExist, match="UNDROP DATABASE d AS"):
        lake.undrop_database("d")
    lake.undrop_database("d", to="e")
    assert names(lake.open(Identifier("e", "t"))) == ["old"]
    assert (lake.database("d").comment, names(lake.open(IN_D))) == ("new", ["new"])
    lake.drop_database("d", cascade=True)
    lake.drop_database("e", cascade=True)
    newest, oldest = lake.dropped_databases()
    assert (newest.name, oldest.name) == ("e", "d")
    lake.undrop_database("d", drop_id=oldest.drop_id)
    assert names(lake.open(IN_D)) == ["new"]


def test_what_is_dropped_goes_when_its_time_is_over(lake: Lake, dsn: str, warehouse: Path) -> None:
    lake.create_database("d")
    for table in (T, IN_D):
        make(lake, table, "a")
    lake.drop_table(T)
    lake.drop_database("d", cascade=True)
    make(lake, T, "new")
    foreign = warehouse / "default.db" / "not ours"
    foreign.mkdir()
    assert lake.sweep_drops() == 0
    assert (warehouse / "default.db/t").exists()
    age(dsn, 7)
    assert lake.sweep_drops() == 3
    assert not any((lake.dropped_tables(), lake.dropped_databases()))
    assert not (warehouse / "default.db/t").exists()
    assert not (warehouse / "d.db/t").exists()
    assert foreign.exists()
    assert names(lake.open(T)) == ["new"]
    with pytest.raises(DropNotExist):
        lake.undrop_database("d")
    with psycopg.connect(dsn) as conn:
        for left in ("dropped_directory", "drop_record"):
            assert conn.execute(f"SELECT count(*) FROM {left}").fetchone() == (0,)
        assert conn.execute("SELECT name FROM database_entry").fetchall() == [("default",)]


def test_a_database_waits_for_a_table_that_is_kept_longer(lake: Lake, dsn: str) -> None:
    lake.create_database("d")
    make(lake, IN_D, "a")
    lake.alter_table(IN_D, [SetOption(key="drop.retention", value="30 d")])
    lake.drop_database("d", cascade=True)
    age(dsn, 7)
    assert lake.sweep_drops() == 0
    assert lake.undrop_database("d") == [IN_D]
    lake.drop_database("d", cascade=True)
    age(dsn, 30)
    assert lake.sweep_drops() == 2


def test_retention_0_removes_at_once(catalog: CatalogStore, warehouse: Path) -> None:
    lake = Lake(catalog, str(warehouse))
    lake.create_database("d")
    for table in (T, IN_D):
        make(lake, table, "a")
    lake.drop_table(T)
    lake.drop_database("d", cascade=True)
    assert not any((lake.dropped_tables(), lake.dropped_databases()))
    assert not (warehouse / "default.db/t").exists()
    assert not (warehouse / "d.db/t").exists()
    make(lake, T)
    lake.alter_table(T, [SetOption(key="drop.retention", value="1 d")])
    lake.drop_table(T)
    lake.undrop_table(T)
    lake.close()


def test_purge_removes_at_once_what_is_there_and_what_is_dropped(lake: Lake, warehouse: Path) -> None:
    make(lake, T, "a")
    lake.drop_table(T, purge=True)
    assert not (warehouse / "default.db/t").exists()
    make(lake, T, "b")
    lake.drop_table(T)
    lake.purge_dropped_table(T)
    assert not (warehouse / "default.db/t").exists()
    with pytest.raises(DropNotExist):
        lake.purge_dropped_table(T)
    lake.create_database("d")
    make(lake, IN_D, "c")
    make(lake, Identifier("d", "before"), "kept")
    lake.drop_table(Identifier("d", "before"))
    lake.drop_database("d", cascade=True, purge=True)
    assert drops(lake) == ["d.before"]
    assert not (warehouse / "d.db/t").exists()
    lake.undrop_table(Identifier("d", "before"), to=T)
    assert names(lake.open(T)) == ["kept"]
    assert lake.sweep_drops() == 1


def test_an_external_tables_files_stay_and_undrop_registers_it_again(lake: Lake, catalog: CatalogStore, warehouse: Path, dsn: str) -> None:
    lake.create_table(T, a_schema(), path=str(warehouse / "outside" / "t"))
    lake.commit(lake.open(T), append("a"))
    lake.drop_table(T)
    with pytest.raises(InvalidName, match="UNDROP TABLE brings that one back"):
        lake.register_table(U, str(warehouse / "outside" / "t"))
    lake.undrop_table(T)
    assert names(lake.open(T)) == ["a"]
    lake.drop_table(T)
    age(dsn, 7)
    assert lake.sweep_drops() == 1
    assert (warehouse / "outside/t/snapshot/snapshot-1").exists()
    lake.register_table(U, str(warehouse / "outside" / "t"))
    assert names(lake.open(U)) == ["a"]


def test_who_may_take_a_drop_back(lake: Lake) -> None:
    secrets = {name: user(lake, name) for name in ("owner", "dropper", "reader", "stranger")}
    give(lake, Access.CREATETABLE, database_resource("default"), "owner")
    make(as_user(lake, secrets["owner"]), T, "a")
    give(lake, Access.DROP, table_resource(T), "dropper")
    give(lake, Access.SELECT, table_resource(T), "reader")
    as_user(lake, secrets["dropper"]).drop_table(T)
    seen = {name: drops(as_user(lake, secret)) for name, secret in secrets.items()}
    assert seen == {"owner": ["default.t"], "dropper": ["default.t"], "reader": ["default.t"], "stranger": []}
    with pytest.raises(DropNotExist):
        as_user(lake, secrets["stranger"]).undrop_table(T)
    with pytest.raises(Forbidden, match=r"takes DROP on the dropped table default\.t"):
        as_user(lake, secrets["reader"]).undrop_table(T)
    with pytest.raises(Forbidden, match="takes CREATETABLE"):
        as_user(lake, secrets["dropper"]).undrop_table(T, to=U)
    with pytest.raises(Forbidden, match="takes PURGE on the dropped table"):
        as_user(lake, secrets["dropper"]).purge_dropped_table(T)
    as_user(lake, secrets["dropper"]).undrop_table(T)
    assert names(as_user(lake, secrets["reader"]).open(T)) == ["a"]
    with pytest.raises(Forbidden, match="takes PURGE"):
        as_user(lake, secrets["dropper"]).drop_table(T, purge=True)
    lake.alter_table(T, [SetOption(key="drop.retention", value="1 s")])
    with pytest.raises(Forbidden, match=r"shorter than this server's, which takes PURGE\. GRANT PURGE ON TABLE"):
        as_user(lake, secrets["dropper"]).drop_table(T)
    as_user(lake, secrets["owner"]).drop_table(T)


def test_grants_on_a_new_table_or_database_of_the_name_reach_nothing_that_was_dropped(lake: Lake) -> None:
    lake.create_database("d")
    make(lake, IN_D, "secret")
    lake.drop_database("d", cascade=True)
    secret = user(lake, "new")
    lake.create_database("d")
    give(lake, Access.ALL, inside("d"), "new")
    give(lake, Access.ALL, database_resource("d"), "new")
    new = as_user(lake, secret)
    make(new, IN_D)
    assert drops(new) == []
    with pytest.raises(DropNotExist):
        new.undrop_table(IN_D, to=Identifier("d", "mine"))
    with pytest.raises(DropNotExist):
        new.undrop_database("d")
    new.drop_table(IN_D)
    assert drops(new) == ["d.t"]
    new.undrop_table(IN_D)
    assert names(new.open(IN_D)) == []


def test_grants_come_back_with_their_database_and_are_nobodys_meanwhile(lake: Lake) -> None:
    secret = user(lake, "ann")
    lake.create_database("d")
    make(lake, IN_D, "a")
    give(lake, Access.SELECT, inside("d"), "ann")
    give(lake, Access.DROP, database_resource("d"), "ann")
    before = lake.permissions.grants_of("ann")
    lake.drop_database("d", cascade=True)
    assert lake.permissions.grants_of("ann") == []
    lake.create_database("d")
    make(lake, IN_D, "new")
    with pytest.raises(Forbidden):
        as_user(lake, secret).open(IN_D)
    lake.drop_database("d", cascade=True, purge=True)
    as_user(lake, secret).undrop_database("d")
    assert lake.permissions.grants_of("ann") == before
    assert names(as_user(lake, secret).open(IN_D)) == ["a"]


@pytest.mark.parametrize("step", ["drop decided", "undrop decided", "sweep decided"])
def test_a_crash_leaves_what_was_decided(catalog: CatalogStore, warehouse: Path, dsn: str, step: str) -> None:
    def hook(name: str) -> None:
        if name == step:
            raise Crash(name)

    lake, dying = (Lake(catalog, str(warehouse), drop_retention=DAYS, hook=one) for one in (lambda name: None, hook))
    make(lake, T, "a")
    if step != "drop decided":
        lake.drop_table(T)
    age(dsn, 8 if step == "sweep decided" else 0)
    with pytest.raises(Crash):
        {"drop decided": lambda: dying.drop_table(T), "undrop decided": lambda: dying.undrop_table(T)}.get(step, dying.sweep_drops)()
    lake.recover()
    assert drops(lake) == (["default.t"] if step == "drop decided" else [])
    assert (warehouse / "default.db/t").exists() is (step != "sweep decided")
    if step == "undrop decided":
        assert names(lake.open(T)) == ["a"]
    dying.close()
    lake.close()


def test_a_snapshot_decided_before_the_drop_and_not_published_is_there_after_undrop(
    catalog: CatalogStore, lake: Lake, warehouse: Path
) -> None:
    make(lake, T, "a")

    def hook(name: str) -> None:
        if name == "decided":
            raise Crash(name)

    dying = Lake(catalog, str(warehouse), drop_retention=DAYS, hook=hook)
    with pytest.raises(Crash):
        dying.commit(dying.open(T), append("b"))
    lake.drop_table(T)
    lake.recover()
    assert not (warehouse / "default.db/t/snapshot/snapshot-2").exists()
    lake.undrop_table(T)
    assert (warehouse / "default.db/t/snapshot/snapshot-2").exists()
    assert names(lake.open(T)) == ["a", "b"]
    dying.close()


def test_commits_beside_drops_and_undrops_are_there_or_refused(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    make(lake, T, "begin")
    other = Lake(catalog, str(warehouse), drop_retention=DAYS)
    acknowledged: list[str] = []
    stop = threading.Event()

    def write(number: int, one: Lake) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            try:
                one.commit(one.open(T), append(f"{number}-{count}"))
            except TableNotExist:
                continue
            acknowledged.append(f"{number}-{count}")

    threads = [threading.Thread(target=write, args=(number, one)) for number, one in enumerate((lake, other))]
    for thread in threads:
        thread.start()
    for round_ in range(2_000):  # where a disk is slow the table is hardly ever there when a commit is decided
        if round_ >= 15 and acknowledged:
            break
        one = (lake, other)[round_ % 2]
        one.drop_table(T)
        (other, lake)[round_ % 2].undrop_table(T)
    stop.set()
    for thread in threads:
        thread.join()
    assert acknowledged
    assert sorted(names(lake.open(T))) == sorted(["begin", *acknowledged])
    other.close()


def test_of_two_undrops_at_once_one_wins(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    other = Lake(catalog, str(warehouse), drop_retention=DAYS)
    for _ in range(5):
        make(lake, T, "a")
        lake.drop_table(T)
        outcomes: list[str] = []
        barrier = threading.Barrier(2)

        def undrop(one: Lake, barrier: threading.Barrier = barrier, outcomes: list[str] = outcomes) -> None:
            barrier.wait()
            try:
                outcomes.append(str(one.undrop_table(T)))
            except (DropNotExist, TableAlreadyExist) as refused:
                outcomes.append(type(refused).__name__)

        threads = [threading.Thread(target=undrop, args=(one,)) for one in (lake, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes)[1] == "default.t"
        assert sorted(outcomes)[0] == "DropNotExist"
        lake.drop_table(T, purge=True)
    other.close()


def test_a_table_that_could_not_be_filled_is_gone_unless_others_put_rows_there(lake: Lake, warehouse: Path) -> None:
    assert lake.discard_table(T, make(lake, T).table_id)
    assert drops(lake) == []
    assert not (warehouse / "default.db/t").exists()
    table = make(lake, T)
    lake.branches.create(table, "b")
    assert lake.discard_table(T, table.table_id)
    table = make(lake, T)
    lake.branches.create(table, "b")
    branch = Identifier(T.database, T.table, "b")
    lake.commit(lake.open(branch), append("somebody else's"))
    assert not lake.discard_table(T, table.table_id)
    assert lake.open(branch).latest() is not None
    lake.drop_table(T)
    table = make(lake, T, "somebody else's")
    assert not lake.discard_table(T, table.table_id)
    assert lake.open(T).latest() is not None


def test_a_table_of_the_name_of_one_that_could_not_be_filled_is_let_be(lake: Lake) -> None:
    gone = make(lake, T).table_id
    lake.drop_table(T)
    theirs = make(lake, T)
    assert lake.discard_table(T, gone)
    grants = (Grant(resource=table_resource(T), access=Access.SELECT, principal="ada"),)
    problem = BadRequest("no rows")
    lake.take_back(T, gone, problem)
    assert problem.message == "no rows"
    lake.for_caller(Caller(principal="ada", grants=grants)).take_back(T, gone, problem)
    assert "no rows The table default.t was made, and was not taken back: ada may not do this: it takes DROP" in problem.message
    assert lake.open(T).table_id == theirs.table_id


def test_a_dropped_table_is_not_taken_for_one_the_catalog_does_not_know(lake: Lake, catalog: CatalogStore, warehouse: Path) -> None:
    make(lake, T, "a")
    lake.drop_table(T)
    assert list(differences(catalog, str(warehouse))) == []
    with catalog.reading() as tx:
        assert tx.state.identity().has_tables


class ReadOnlyIO(LocalFileIO):
    """A local disk that, once it is read-only, takes no change."""

    read_only = False

    def _refuse(self) -> None:
        if self.read_only:
            raise Unavailable("The disk is read-only.")

    def create(self, path: str, data: bytes) -> bool:
        self._refuse()
        return super().create(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._refuse()
        super().write(path, data)

    def add(self, path: str, data: bytes) -> None:
        self._refuse()
        super().add(path, data)

    def delete_tree(self, path: str) -> None:
        self._refuse()
        super().delete_tree(path)


def test_drop_and_undrop_need_no_disk_and_a_sweep_goes_on_later(
    catalog: CatalogStore, warehouse: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = ReadOnlyIO()
    lake = Lake(catalog, str(warehouse), drop_retention=DAYS, file_io=disk)
    make(lake, T, "a")
    disk.read_only = True
    lake.drop_table(T)
    lake.undrop_table(T)
    assert names(lake.open(T)) == ["a"]
    lake.drop_table(T)
    age(dsn, 7)
    assert lake.sweep_drops() == 1
    assert (warehouse / "default.db/t").exists()
    disk.read_only = False
    assert lake.sweep_drops() == 0  # what could not be removed is not tried again at once
    monkeypatch.setattr(lake_drops, "_TRIED_AGAIN_AFTER", timedelta(0))
    lake.sweep_drops()
    assert not (warehouse / "default.db/t").exists()
    lake.close()


def test_a_stream_of_a_dropped_table_is_told_that_it_is_gone(lake: Lake) -> None:
    make(lake, T, "a")
    stream = lake.follow(
        lake.open(T), {"continuous.discovery-interval": "50 ms", "scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}
    )
    steps = stream.steps()
    assert next(step for step in steps if step is not None).snapshot.id == 1
    lake.drop_table(T)
    with pytest.raises(TableNotExist):
        list(steps)


def test_a_consumer_goes_on_where_it_was(lake: Lake, catalog: CatalogStore, dsn: str) -> None:
    table = make(lake, T, "a", "b")
    reset_consumer(catalog, table, "c", 2)
    lake.drop_table(T)
    lake.undrop_table(T)
    assert consumers(catalog, lake.open(T)) == {"c": 2}
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT name, next_snapshot FROM stream_consumer").fetchall() == [("c", 2)]


@pytest.mark.damages
def test_what_a_failed_write_left_goes_with_a_dropped_table_only(lake: Lake, catalog: CatalogStore, warehouse: Path, dsn: str) -> None:
    place, late = warehouse / "default.db/t", "manifest/late"

    def left() -> bool:
        """Let a writer of the first table leave a file, and fail; whether the file is still there."""
        (place / "manifest").mkdir(parents=True, exist_ok=True)
        (place / late).touch()
        first.left_behind()
        return (place / late).exists()

    first = make(lake, T, "a")
    assert left(), "the table is there"
    lake.drop_retention = DAYS
    lake.drop_table(T)
    assert left(), "it can be brought back"
    lake.undrop_table(T)
    assert names(lake.open(T)) == ["a"]
    lake.drop_table(T, purge=True)
    assert not left()
    assert not place.exists()
    make(lake, T, "b")
    assert left(), "another table lies there"
    assert names(lake.open(T)) == ["b"]
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE sluice_table SET external = true")
    first = lake.open(T)
    lake.drop_table(T, purge=True)
    assert left(), "its files are not ours"


@pytest.mark.parametrize("line", ["main", "b"])
def test_no_table_with_rows_goes_for_good_while_a_backup_runs(lake: Lake, dsn: str, line: str) -> None:
    """Also one whose rows only a branch holds: the backup names its snapshots, too."""
    lake.create_database("d")
    lake.branches.create(make(lake, IN_D), "b")
    written = lake.commit(lake.open(Identifier("d", "t", line)), append("kept"))
    with holding(dsn):
        with pytest.raises(BackupRunning, match=r"Dropping d\.t for good"):
            lake.drop_table(IN_D, purge=True)
        with pytest.raises(BackupRunning, match=r"Dropping d\.t for good"):
            lake.drop_database("d", cascade=True, purge=True)
    assert lake.open(Identifier("d", "t", line)).latest() == written
    lake.drop_table(IN_D, purge=True)
