"""CALL sys.erase: afterwards no file of the warehouse and no row of Postgres holds the value, raw or decoded."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from gateway.gateway import Gateway
from gateway.operation import Operation, OperationState
from lake import Lake, Owner
from lake.access.audit import _renamed
from model.errors import SqlSyntaxError, Unavailable, UnsupportedStatement
from model.identifier import Identifier
from model.snapshot import CommitKind
from server.access.audit import row_of
from sql.execution.results import ResultSet
from tests.erased import SEEN, VALUE
from tests.erased import holders as holding
from tests.fix_gateway import Ask
from tests.lake.access.test_access import user

T = Identifier("default", "t")


def holders(warehouse: Path, dsn: str) -> list[str]:
    """The names of files, directories and tables of Postgres in which the value is found."""
    found = [Path(path).name for path in holding(warehouse)]
    with psycopg.connect(dsn) as conn:
        tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            with conn.cursor().copy(f'COPY "{table}" TO STDOUT') as rows:
                if SEEN.encode() in b"".join(bytes(row) for row in rows):
                    found.append(table)
    return found


@pytest.fixture
def people(ask: Ask) -> None:
    options = "'bucket' = '1', 'rows.erasable' = 'true', 'file-index.bloom-filter.columns' = 'name', 'write-only' = 'true'"
    ask(f"CREATE TABLE t (id INT, name STRING) WITH ({options})")
    ask(f"INSERT INTO t VALUES (1, 'Ada'), (2, '{VALUE}'), (3, 'Dan')")
    ask("INSERT INTO t VALUES (4, 'Bob')")
    ask("CALL sys.create_tag('t', 'with')")


CALL = f"CALL sys.erase(`table` => 't', `where` => 'name = ''{VALUE}''')"


@pytest.mark.usefixtures("people")
def test_nothing_holds_the_value_afterwards(ask: Ask, lake: Lake, warehouse: Path, dsn: str) -> None:
    ask("CALL sys.create_branch('t', 'b', 'with')")
    ask(f"INSERT INTO t$branch_b VALUES (6, '{VALUE}'), (7, 'Eve')")
    ask("DELETE FROM t WHERE id = 2")
    assert len(holders(warehouse, dsn)) > 2, "the search finds what is there"
    told = ask(CALL[:-1] + ", dry_run => true)")
    held = [("table", "default.t", 0), ("branch", "b", 2), ("tag", "with", 1), ("tag", "with of branch b", 1)]
    assert [row[:3] for row in told if row[0] != "snapshots"][:4] == held
    assert [row[1:3] for row in told if row[0] == "snapshots"] == [("1 to 3", 3), ("2 to 2 of branch b", 1)]
    done = ask(CALL)
    assert [row[:3] for row in done][:4] == held
    assert [row[1:3] for row in done if row[0] == "expired snapshots"] == [("1 to 3", 3), ("2 to 5 of branch b", 4)]
    assert [row for row in done if row[3]] == []
    assert holders(warehouse, dsn) == []
    assert ask("SELECT id, name FROM t") == [(1, "Ada"), (3, "Dan"), (4, "Bob")]
    assert sorted(ask("SELECT id, name FROM t$branch_b")) == [(1, "Ada"), (3, "Dan"), (4, "Bob"), (7, "Eve")]
    assert ask("CALL sys.check_table('t', deep => true)") == ask("CALL sys.check_table('default.`t$branch_b`', deep => true)") == []


@pytest.mark.usefixtures("people")
def test_branches_keep_each_others_rows_until_all_have_let_go_of_them(ask: Ask, warehouse: Path, dsn: str) -> None:
    """Each branch's past lies in the table's own directories: what another one still shows must stay."""
    ask("CALL sys.create_branch('t', 'b', 'with'); CALL sys.create_branch('t', 'c', 'with')")
    ask(f"INSERT INTO t$branch_b VALUES (5, '{VALUE}'); INSERT INTO t$branch_c VALUES (6, 'Eve')")
    ask("TRUNCATE TABLE t; INSERT INTO t VALUES (8, 'Zoe')")
    assert [row for row in ask(CALL) if row[3]] == []
    assert holders(warehouse, dsn) == []
    assert ask("SELECT id FROM t") == [(8,)]
    for branch, ids in (("b", [1, 3, 4]), ("c", [1, 3, 4, 6])):
        assert sorted(ask(f"SELECT id FROM t$branch_{branch}")) == [(number,) for number in ids]
        assert ask(f"CALL sys.check_table('default.`t$branch_{branch}`', deep => true)") == []


@pytest.mark.usefixtures("people")
def test_what_a_branchs_consumer_has_not_read_is_told(ask: Ask, warehouse: Path, dsn: str) -> None:
    ask("CALL sys.create_branch('t', 'b', 'with'); CALL sys.reset_consumer('default.`t$branch_b`', 'me', 2)")
    (left,) = (row for row in ask(CALL) if row[3])
    assert left[:3] == ("snapshots", "2 to 4 of branch b", 3)
    ask(left[3].partition(": ")[2])
    assert [row for row in ask(CALL) if row[3]] == []
    assert holders(warehouse, dsn) == []


@pytest.mark.usefixtures("people")
def test_what_hinders_the_search_for_orphans_is_told_and_the_rest_is_erased(ask: Ask, lake: Lake) -> None:
    torn = Path(lake.open(T).files.layout.changelog_dir()) / "changelog-1"
    torn.parent.mkdir()
    torn.write_text("{")
    done = {what: left for what, _, _, left, _ in ask(CALL)}
    assert "changelog-1" in str(done["files nothing refers to"])
    assert ask("SELECT id FROM t") == [(1,), (3,), (4,)]
    torn.unlink()
    assert all("changelog-1" not in str(left) for _, _, _, left, _ in ask(CALL))


@pytest.mark.usefixtures("people")
def test_changelogs_that_other_clients_keep_are_named(ask: Ask, lake: Lake) -> None:
    layout = lake.open(T).files.layout
    place = Path(layout.changelog_dir())
    place.mkdir()
    for number in (1, 2):
        (place / f"changelog-{number}").write_bytes(Path(layout.snapshot_file(number)).read_bytes())
    (told,) = (row for row in ask(CALL) if row[0] == "changelogs")
    assert (told[1:3], "sys.expire_changelogs" in str(told[3])) == (("1 to 2", 2), True)


def test_a_branch_that_refuses_does_so_before_a_row_is_gone(ask: Ask) -> None:
    """A branch has options of its own, those of the table when it was made."""
    ask("CREATE TABLE r (id INT, name STRING)")
    ask("INSERT INTO r VALUES (1, 'a'), (2, 'b')")
    ask("CALL sys.create_tag('r', 'with', 1)")
    ask("CALL sys.create_branch('r', 'b', 'with')")
    ask("ALTER TABLE r SET ('rows.erasable' = 'true')")
    with pytest.raises(UnsupportedStatement, match="branch_b"):
        ask("CALL sys.erase(`table` => 'r', `where` => 'id = 1')")
    assert ask("SELECT id FROM r") == [(1,), (2,)]


@pytest.mark.usefixtures("people")
def test_without_branches_one_call_is_enough(gateway: Gateway, warehouse: Path, dsn: str) -> None:
    with gateway.run(CALL) as result:
        assert result.erased_rows == 1
        done = result.collect()
    assert [row[:4] for row in done if row[0] in ("table", "tag")] == [("table", "default.t", 1, None), ("tag", "with", 1, None)]
    assert [row for row in done if row[3]] == []
    assert holders(warehouse, dsn) == []


@pytest.mark.usefixtures("people")
def test_statistics_of_earlier_rows_go_though_no_row_is_there(ask: Ask, lake: Lake, warehouse: Path, dsn: str) -> None:
    """What ANALYZE wrote is carried over a TRUNCATE; no manifest tells of a deleted file once they were merged."""
    table = lake.open(T)
    with table.write() as write:
        name = "stat-0"
        path = table.files.layout.statistics_file(name)
        write.add_paths([path])
        table.files.io.write(path, json.dumps({"snapshotId": 2, "schemaId": 0, "colStats": {"name": {"max": VALUE}}}).encode())
        lake.commit(table, write.request(CommitKind.ANALYZE, paths=[path], statistics=name, operation="ANALYZE"))
    ask("TRUNCATE TABLE t; INSERT INTO t VALUES (1, 'Ada'), (9, 'Zoe')")
    ask("CALL sys.compact_manifest('t')")
    assert [row[:3] for row in ask(CALL[:-1] + ", dry_run => true)") if row[0] == "statistics"] == [("statistics", "default.t", None)]
    assert [row[:3] for row in ask(CALL) if row[0] in ("table", "statistics")] == [
        ("statistics", "default.t", None), ("table", "default.t", 0),
    ]  # fmt: skip
    assert [row for row in ask(CALL) if row[0] == "statistics"] == []
    assert holders(warehouse, dsn) == []


@pytest.mark.parametrize("where", ["name = ''{0}''", "id = 2"])
def test_names_of_partitions_go_with_their_last_row(ask: Ask, lake: Lake, warehouse: Path, dsn: str, where: str) -> None:
    """The directories of a partition, a marker that it is done, and its row where it was made by name."""
    ask("CREATE TABLE t (id INT, name STRING) PARTITIONED BY (name) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    lake.create_partitions(lake.open(T), [{"name": VALUE}])
    ask(f"INSERT INTO t VALUES (1, 'Ada'), (2, '{VALUE}')")
    lake.mark_partitions_done(lake.open(T), [{"name": VALUE}])
    ask(f"CALL sys.mark_partition_done('t', 'name={VALUE}')")
    (marker,) = warehouse.rglob(f"name={VALUE}/_SUCCESS")
    call = f"CALL sys.erase(`table` => 't', `where` => '{where.format(VALUE)}')"
    ask(call[:-1] + ", dry_run => true)")
    assert marker.exists()
    told = ask(call)
    assert [row[:4] for row in told if row[0] == "names of partitions"] == [("names of partitions", "default.t", 1, None)]
    assert holders(warehouse, dsn) == []
    assert [row for row in ask(call) if row[0] == "names of partitions"] == []
    assert [path.name for path in warehouse.rglob("name=*")] == ["name=Ada"]
    ask(f"INSERT INTO t VALUES (3, '{VALUE}')")
    assert ask("SELECT id FROM t") == [(1,), (3,)]


_ACTIONS = "'partition.mark-done-action' = 'success-file,done-partition,mark-event'"


@pytest.fixture
def done(ask: Ask, lake: Lake) -> None:
    """Of two partitions one is done, and was made by name."""
    ask(f"CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) WITH ('rows.erasable' = 'true', 'write-only' = 'true', {_ACTIONS})")
    lake.create_partitions(lake.open(T), [{"p": "a"}])
    ask("INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    ask("CALL sys.mark_partition_done('t', 'p=a')")


def marks(lake: Lake, warehouse: Path) -> tuple[list[str], list[str], int]:
    """The names of partitions, of those that are marked, and how many markers there are."""
    rows = lake.partition_page(lake.open(T))
    return [row.name for row in rows], [row.name for row in rows if row.done], len(list(warehouse.rglob("_SUCCESS")))


@pytest.mark.usefixtures("done")
def test_a_partition_that_keeps_rows_stays_done(ask: Ask, lake: Lake, warehouse: Path) -> None:
    before = marks(lake, warehouse)
    assert before == (["p=a", "p=a.done", "p=b"], ["p=a"], 1)
    told = ask("CALL sys.erase(`table` => 't', `where` => 'id = 2')")
    assert [row[:3] for row in told if row[0] in ("table", "names of partitions")] == [("table", "default.t", 1)]
    assert marks(lake, warehouse) == before
    ask("DELETE FROM t WHERE id = 1")
    assert [row.name for row in lake.partition_page(lake.open(T))] == ["p=a", "p=a.done", "p=b"], "it was made by name"


@pytest.mark.usefixtures("done")
def test_a_partition_stays_done_where_its_rows_could_not_be_deleted(
    ask: Ask, lake: Lake, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(step: str) -> None:
        if step == "synced":
            raise Unavailable("The store is away.")

    before = marks(lake, warehouse)
    with monkeypatch.context() as away:
        away.setattr(lake._core, "_hook", refused)
        with pytest.raises(Unavailable):
            ask("CALL sys.erase(`table` => 't', `where` => 'id < 3')")
    assert marks(lake, warehouse) == before
    ask("CALL sys.erase(`table` => 't', `where` => 'id < 3')")
    assert marks(lake, warehouse) == (["p=b"], [], 0)


@pytest.mark.usefixtures("done")
def test_a_partition_stays_done_in_a_branch_that_keeps_its_rows(ask: Ask, lake: Lake, warehouse: Path) -> None:
    """Another branch has other rows; the marker's file is of both."""
    ask("CALL sys.create_tag('t', 'now'); CALL sys.create_branch('t', 'b', 'now'); INSERT INTO t$branch_b VALUES (4, 'a')")
    branch = lake.open(Identifier("default", "t", "b"))
    lake.create_partitions(branch, [{"p": "a.done"}])
    ask("CALL sys.erase(`table` => 't', `where` => 'id < 3')")
    assert marks(lake, warehouse) == (["p=b"], [], 1)
    assert [row.name for row in lake.partition_page(branch)] == ["p=a", "p=a.done", "p=b"]


TOLD = (
    f"INSERT INTO default.T VALUES (1, 'it''s {VALUE}')",
    f"SELECT * FROM `t` WHERE name = '{VALUE}' -- {VALUE}",
    "GRANT SELECT ON t TO ROLE 'a role'",
    f"SELECT 't', '{VALUE}' FROM tt",
    "DELETE FROM t WHERE id = ******",
    f"ALTER TABLE t DROP PARTITION (name = '{VALUE}')",
    f"CALL sys.drop_partition('default.t', 'name={VALUE}')",
    f"CALL sys.rewrite_files(`table` => 't', `where` => 'name = ''{VALUE}''')",
    f"CALL sys.drop_partition('default.tt', 'name={VALUE}')",
    "ALTER TABLE t SET ('rows.erasable' = 'true');",
    f"DELETE FROM t WHERE name = '{VALUE}'",
    f"SELECT * FROM before WHERE name = '{VALUE}'",
    "ALTER TABLE default.before RENAME TO `between`",
    f"CALL sys.drop_partition('between', 'name={VALUE}')",
    "POST /paimon/v1/lake/tables/rename /* default.between RENAME TO default.t */",
)
KEPT = (
    "INSERT INTO default.T VALUES (******, ******)", "SELECT * FROM `t` WHERE name = ****** ******", *TOLD[2:5],
    "ALTER TABLE t DROP PARTITION (name = ******)", "CALL sys.drop_partition(******, ******)",
    "CALL sys.rewrite_files(`table` => ******, `where` => ******)", *TOLD[8:10], "DELETE FROM t WHERE name = ******",
    "SELECT * FROM before WHERE name = ******", TOLD[12], "CALL sys.drop_partition(******, ******)", TOLD[14],
)  # fmt: skip


def test_a_text_made_to_hurt_is_looked_through_once() -> None:
    """An expression that tries each of its places anew takes hours for it, and lets nothing else run."""
    hurts = "SELECT 1 -- rename " + "a" * 300_000
    assert list(_renamed(f"{hurts} ALTER TABLE default.`old` RENAME  TO  `d` . new; {hurts}.{hurts}")) == [("old", "new")]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("erasures", [False, True])
def test_the_audit_log_forgets_what_texts_said_of_the_tables_rows(
    ask: Ask, lake: Lake, monkeypatch: pytest.MonkeyPatch, erasures: bool
) -> None:
    """Unless erasures are kept; who did what stays, and so does what another table's texts say."""
    monkeypatch.setattr(lake.audit, "_erasures", erasures)
    for text in TOLD:
        operation = Operation(text)
        operation.move(OperationState.PENDING)
        operation.begin()
        operation.succeed(ResultSet.ok())
        lake.audit.note(row_of(operation, erasures=True))

    def texts() -> list[str]:
        return [row.action for row in lake.audit.newest(None)][::-1]

    def told(call: str) -> list[int]:
        return [row[2] for row in ask(call) if row[0] == "texts in the audit log"]

    before = texts()
    assert told(CALL[:-1] + ", dry_run => true)") == [8] * (not erasures)
    assert texts() == before
    assert told(CALL) == [8] * (not erasures)
    assert [text.split(" /* rows: unknown")[0] for text in texts()] == list(TOLD if erasures else KEPT)
    assert told(CALL) == []


def test_an_owner_reaches_others_texts_by_the_tables_whole_name_alone(gateway: Gateway, ask: Ask, lake: Lake) -> None:
    """A table named like a word would else let its owner put stars over everybody's texts, or count them."""
    ask("CREATE DATABASE mine; CREATE TABLE mine.word (id INT) WITH ('rows.erasable' = 'true'); INSERT INTO mine.word VALUES (1)")
    ask("CREATE ROLE owner; GRANT ALL ON mine.word TO ada; GRANT SELECT ON mine.word TO ada")
    caller = lake.access.caller(user(lake, "ada"))
    said = {
        "ada": ["INSERT INTO word VALUES (7)", "INSERT INTO t VALUES (7)", "SELECT 'ALTER TABLE default.t RENAME TO mine.word '"],
        "bob": [
            "INSERT INTO default.word VALUES (7)", "SELECT mine.word FROM t AS mine WHERE id = 7",
            "SELECT * FROM mine . `word` WHERE id = 7", "CALL sys.compact('mine.word', where => 'id = 7')", "SELECT 7 FROM mine.word2",
        ],
    }  # fmt: skip
    for principal, texts in said.items():
        for text in texts:
            operation = Operation(text, owner=Owner(principal=principal))
            operation.move(OperationState.PENDING)
            operation.begin()
            operation.succeed(ResultSet.ok())
            lake.audit.note(row_of(operation))
            gateway.recent.note(operation)

    def told(dry_run: str) -> dict[str, tuple[object, ...]]:
        rows = gateway.run(f"CALL sys.erase('mine.word', 'id = 1'{dry_run})", caller=caller).collect()
        return {row[0]: row[2:4] for row in rows}

    call = "CALL sys.erase('mine.word', 'id = 1'"
    assert told(", dry_run => true")["texts in the audit log"] == (2, None)
    after = told("")
    assert after["texts in the audit log"] == (2, None)
    assert "an administrator makes the same call" in str(after["others' texts in the audit log"][1])
    kept = [said["bob"][0], said["bob"][1], said["bob"][4]]
    for who, stay in (("ada", []), ("bob", kept)):
        assert [row.action for row in lake.audit.newest(who) if "7" in row.action][::-1] == stay
        assert [one.text for one in gateway.recent.newest(Owner(principal=who)) if "7" in one.text][::-1] == stay
    ask(f"{call})")
    assert [row.action for row in lake.audit.newest("bob") if "7" in row.action] == [said["bob"][4]]


@pytest.mark.usefixtures("people")
def test_dropped_tables_of_the_name_are_told(ask: Ask, lake: Lake) -> None:
    with pytest.raises(SqlSyntaxError):
        ask("CALL sys.erase('t', 'id = 1; DROP TABLE t')")
    assert len(ask("SELECT id FROM t")) == 4
    lake.drop_retention = timedelta(days=1)
    ask("CREATE TABLE u (id INT) WITH ('rows.erasable' = 'true'); INSERT INTO u VALUES (1); DROP TABLE u")
    ask("CREATE TABLE u (id INT) WITH ('rows.erasable' = 'true'); INSERT INTO u VALUES (1), (2)")
    (dropped,) = (row for row in ask("CALL sys.erase('u', 'id = 1')") if row[0] == "dropped table")
    assert dropped[3] == f"PURGE TABLE `default`.`u` WITH ID {dropped[1]}"
    ask(f"{dropped[3]}; CREATE TABLE `values` (id INT) WITH ('rows.erasable' = 'true'); INSERT INTO `values` VALUES (1)")
    assert ("table", "default.values", 1, None) in [row[:4] for row in ask("CALL sys.erase('values', 'id = 1')")]
    ask("ALTER TABLE t SET ('rows.erasable' = 'false')")
    with pytest.raises(UnsupportedStatement, match=r"rows\.erasable"):
        ask(CALL)
