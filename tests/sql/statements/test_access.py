"""Who may do what, through SQL: every statement takes its grant, and GRANT gives it."""

from __future__ import annotations

import io
import threading
import time
from uuid import UUID

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.access.grants import PolicyRepository
from gateway.gateway import Gateway
from lake import Caller, Lake
from model.access import Access, Grant, Policy, ReadRules, Resource, ResourceType
from model.catalog_errors import FunctionNotExist, ViewNotExist
from model.errors import (
    AccessAlreadyExist,
    AccessNotExist,
    Forbidden,
    InvalidGrant,
    LakeError,
    SqlError,
    TableNotExist,
    UnsupportedStatement,
)
from model.identifier import Identifier
from model.view import View
from tests.lake.access.test_access import user
from tests.sql.tables import make_table

_WAITS = """
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'access_role'
"""


def make_all(lake: Lake) -> str:
    """The token of a user; the table ``default.t`` and the database ``d`` are somebody else's."""
    make_table(lake, id="INT", name="STRING")
    make_table(lake, "parted", partition="day", id="INT", day="STRING")
    lake.create_database("d")
    return user(lake, "ada")


@pytest.fixture
def ada(lake: Lake) -> str:
    return make_all(lake)


@pytest.fixture(scope="module")
def shared(module_gateway: Gateway) -> Gateway:
    """For statements that are refused; its table t has a column more."""
    make_all(module_gateway.lake)
    module_gateway.run("ALTER TABLE t ADD (price DOUBLE)")
    return module_gateway


STATEMENTS = [
    ("CREATE DATABASE e", "GRANT CREATE DATABASE ON CATALOG TO ada"),
    ("ALTER DATABASE d SET ('a' = 'b')", "GRANT ALTER ON DATABASE d TO ada"),
    ("DROP DATABASE d", "GRANT DROP ON DATABASE d TO ada"),
    ("DESCRIBE DATABASE d", "GRANT DESCRIBE ON DATABASE d TO ada"),
    ("USE d", "GRANT LIST ON DATABASE d TO ada"),
    ("SHOW TABLES FROM d", "GRANT LIST ON DATABASE d TO ada"),
    ("CREATE TABLE d.x (id INT)", "GRANT CREATETABLE ON DATABASE d TO ada"),
    ("CREATE TABLE d.x (id INT)", "GRANT CREATE TABLE ON ALL IN CATALOG TO ada"),
    ("INSERT INTO t VALUES (1, 'a')", "GRANT UPDATE ON t TO ada"),
    ("INSERT INTO t VALUES (1, 'a')", "GRANT INSERT ON TABLE default.t TO ada"),
    ("INSERT INTO t VALUES (1, 'a')", "GRANT ALL PRIVILEGES ON ALL TABLES IN DATABASE `default` TO ada"),
    ("SELECT * FROM t", "GRANT SELECT ON t TO ada"),
    ("SELECT COUNT(*) FROM t", "GRANT SELECT ON t TO ROLE public"),
    ("TRUNCATE TABLE t", "GRANT DELETE ON t TO USER ada"),
    ("ALTER TABLE t ADD (x INT)", "GRANT ALTER ON t TO ada"),
    ("ALTER TABLE t RENAME TO u", "GRANT ALTER ON t TO ada; GRANT CREATETABLE ON DATABASE `default` TO ada"),
    ("DROP TABLE t", "GRANT DROP ON t TO ada"),
    ("DESCRIBE t", "GRANT SELECT ON t TO ada"),
    ("SHOW CREATE TABLE t", "GRANT DROP ON t TO ada"),
    ("SHOW COLUMNS FROM t", "GRANT UPDATE ON t TO ada"),
    ("SHOW PARTITIONS parted", "GRANT SELECT ON parted TO ada"),
    ("CALL sys.create_tag('t', 'x', 1)", "GRANT UPDATE ON t TO ada"),
    ("CALL sys.repair_table('t')", "GRANT ALTER ON t TO ada"),
    ("CALL sys.check_table('t')", "GRANT SELECT ON t TO ada"),
    ("CALL sys.remove_unexisting_files('t')", "GRANT UPDATE ON t TO ada"),
    ("CALL sys.remove_unexisting_files('t', dry_run => false)", "GRANT UPDATE ON t TO ada; GRANT DELETE ON t TO ada"),
    ("GRANT SELECT ON t TO bob", "GRANT GRANT ON t TO ada"),
    ("CREATE POLICY p ON t USING (id > 1)", "GRANT ALL ON t TO ada"),
    ("SHOW POLICIES ON t", "GRANT SELECT ON t TO ada"),
    ("CREATE ROLE r", "GRANT ROLE admin TO ada"),
]


@pytest.mark.parametrize(("statement", "grant"), STATEMENTS, ids=[f"{s} after {g}" for s, g in STATEMENTS])
def test_a_statement_takes_its_grant_and_no_more(gateway: Gateway, lake: Lake, ada: str, statement: str, grant: str) -> None:
    gateway.run("INSERT INTO t VALUES (0, 'first')")
    with pytest.raises(Forbidden, match="ada may not"):
        gateway.run(statement, caller=lake.access.caller(ada))
    gateway.run(grant)
    gateway.run(statement, caller=lake.access.caller(ada)).close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT 1, 'a'",
        "INSERT OVERWRITE t SELECT 1, 'a'",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id",
        "EXPLAIN SELECT 1 + id FROM t",
    ],
)
def test_what_goes_to_spark_is_refused_like_the_rest(gateway: Gateway, lake: Lake, ada: str, statement: str) -> None:
    """Without Spark in this test the refusal of the lake must come first, or for EXPLAIN and queries in its place."""
    from sql.dialect import parse_one
    from sql.statements.insert import target_of

    seen = lake.for_caller(lake.access.caller(ada))
    if statement.startswith("INSERT"):
        from types import SimpleNamespace

        from sql.execution.session import Session

        with pytest.raises(Forbidden):
            target_of(SimpleNamespace(lake=seen, session=Session("s")), parse_one(statement))  # type: ignore[arg-type]
    else:
        with pytest.raises(Forbidden):
            seen.open(Identifier("default", "t"))


def test_an_append_takes_update(gateway: Gateway, lake: Lake, ada: str) -> None:
    body = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}), body)
    kind = "application/vnd.apache.parquet"
    with pytest.raises(Forbidden, match="nothing is granted"):
        gateway.append(Identifier("default", "t"), io.BytesIO(body.getvalue()), kind, caller=lake.access.caller(ada))
    gateway.run("GRANT SELECT ON t TO ada")
    with pytest.raises(Forbidden, match=r"GRANT UPDATE ON TABLE `default`\.`t` TO … gives it"):
        gateway.append(Identifier("default", "t"), io.BytesIO(body.getvalue()), kind, caller=lake.access.caller(ada))
    gateway.run("GRANT UPDATE ON t TO ada")
    assert gateway.append(Identifier("default", "t"), io.BytesIO(body.getvalue()), kind, caller=lake.access.caller(ada)).rows == 1


def test_revoke_takes_back(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("GRANT SELECT, UPDATE ON t TO ada, bob")
    gateway.run("REVOKE SELECT ON t FROM ada")
    with pytest.raises(Forbidden):
        gateway.run("SELECT * FROM t", caller=lake.access.caller(ada))
    gateway.run("INSERT INTO t VALUES (1, 'a')", caller=lake.access.caller(ada))
    with pytest.raises(AccessNotExist, match=r"SELECT on table default\.t has not been granted to ada"):
        gateway.run("REVOKE SELECT ON t FROM ada")


def test_show_grants_and_roles(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("CREATE ROLE reader; GRANT ROLE reader TO ada; GRANT SELECT ON ALL IN DATABASE d TO reader")
    gateway.run("GRANT SELECT (id) ON t TO ada; GRANT UPDATE ON t TO bob UNTIL '2099-01-01T00:00:00Z'")
    assert gateway.run("SHOW GRANTS").collect() == [
        ("ada", "ROLE", "reader", None),
        ("ada", "SELECT (id)", "TABLE `default`.`t`", None),
        ("bob", "UPDATE", "TABLE `default`.`t`", "2099-01-01T00:00:00+00:00"),
        ("reader", "SELECT", "ALL IN DATABASE `d`", None),
    ]
    own = lake.access.caller(ada)
    assert [row[:2] for row in gateway.run("SHOW GRANTS", caller=own).collect()] == [
        ("ada", "ROLE"), ("ada", "SELECT (id)"), ("reader", "SELECT"),
    ]  # fmt: skip
    assert gateway.run("SHOW GRANTS ON t", caller=own).collect() == [("ada", "SELECT (id)", "TABLE `default`.`t`", None)]
    assert gateway.run("SHOW GRANTS FOR bob").collect() == [("bob", "UPDATE", "TABLE `default`.`t`", "2099-01-01T00:00:00+00:00")]
    with pytest.raises(Forbidden):
        gateway.run("SHOW GRANTS FOR bob", caller=own)
    assert gateway.run("SHOW ROLES").collect() == [("admin",), ("public",), ("reader",)]
    assert gateway.run("SHOW ROLES", caller=own).collect() == [("public",), ("reader",)]
    gateway.run("REVOKE ROLE reader FROM ada; DROP ROLE reader; DROP ROLE IF EXISTS reader; CREATE ROLE IF NOT EXISTS admin")
    with pytest.raises(AccessAlreadyExist):
        gateway.run("CREATE ROLE admin")
    with pytest.raises(InvalidGrant, match="ada is a user"):
        gateway.run("CREATE ROLE ada")


@pytest.mark.parametrize("kind", ["VIEW", "FUNCTION"])
def test_nothing_is_granted_on_a_name_alone(gateway: Gateway, lake: Lake, ada: str, kind: str) -> None:
    """It would wait for whoever makes something of the name, who never granted it."""
    with pytest.raises(ViewNotExist if kind == "VIEW" else FunctionNotExist):
        gateway.run(f"GRANT ALL ON {kind} d.later TO ada")
    with pytest.raises(ViewNotExist if kind == "VIEW" else FunctionNotExist):
        gateway.run(f"GRANT ALL ON {kind} `default`.t TO ada")
    assert gateway.run("SHOW GRANTS FOR ada").collect() == []


@pytest.mark.parametrize("renamed", [False, True])
def test_what_earlier_versions_granted_on_a_name_alone_reaches_no_view_of_the_name(
    gateway: Gateway, lake: Lake, ada: str, renamed: bool
) -> None:
    view = Resource(type=ResourceType.VIEW, database="d", name="later")
    with lake.catalog.transaction() as tx:
        tx.grants.put(Grant(resource=view, access=Access.ALL, principal="ada"), table_id=None)
    later, first = Identifier("d", "later"), Identifier("d", "first")
    lake.views.create(first if renamed else later, View(query="SELECT 1 AS x", fields=()))
    if renamed:
        lake.views.rename(first, later)
    assert gateway.run("SHOW GRANTS FOR ada").collect() == []
    with pytest.raises(Forbidden):
        gateway.run("DROP VIEW d.later", caller=lake.access.caller(ada))
    gateway.run("GRANT SELECT ON VIEW d.later TO ada; ALTER VIEW d.later RENAME TO last")
    assert gateway.run("SHOW GRANTS FOR ada").collect() == [("ada", "SELECT", "VIEW `d`.`last`", None)]


def test_a_role_that_a_policy_binds_stays(gateway: Gateway, lake: Lake, ada: str) -> None:
    """Whoever had it saw the hidden rows once it was gone, also those of a dropped table that was brought back."""
    gateway.run("CREATE ROLE reader; GRANT ROLE reader TO ada; GRANT SELECT ON t TO ada; ALTER TABLE t SET ('drop.retention' = '1 d')")
    gateway.run("CREATE POLICY some ON t TO bob, reader USING (id = 1); CREATE MASKING POLICY name ON t (name) TO reader USING (NULL)")
    with pytest.raises(InvalidGrant, match=r"name on default\.t, some on default\.t\. Drop those first"):
        gateway.run("DROP ROLE IF EXISTS reader")
    gateway.run("DROP POLICY some ON t; DROP TABLE t")
    with pytest.raises(InvalidGrant, match=r"reader or one given to it, and whoever has it would see more without: name on default\.t\."):
        gateway.run("DROP ROLE reader")
    assert gateway.run("SHOW ROLES", caller=lake.access.caller(ada)).collect() == [("public",), ("reader",)]
    gateway.run("UNDROP TABLE t; DROP MASKING POLICY name ON t; DROP ROLE reader")
    assert gateway.run("SHOW ROLES").collect() == [("admin",), ("public",)]


def test_a_role_by_which_others_have_one_that_a_policy_binds_stays(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("CREATE ROLE reader; CREATE ROLE outer; GRANT ROLE reader TO outer; GRANT ROLE outer TO ada; GRANT SELECT ON t TO ada")
    gateway.run("CREATE POLICY some ON t TO reader USING (id = 1)")
    with pytest.raises(InvalidGrant, match=r"outer or one given to it, .* some on default\.t\."):
        gateway.run("DROP ROLE outer")
    assert lake.access.caller(ada).roles >= {"reader", "outer"}
    gateway.run("REVOKE ROLE outer FROM ada; DROP ROLE outer")
    assert gateway.run("SHOW ROLES").collect() == [("admin",), ("public",), ("reader",)]


def test_a_policy_that_binds_a_user_of_the_name_keeps_no_role(gateway: Gateway, ada: str) -> None:
    """Scripts that set things up drop roles that may not be there."""
    gateway.run("CREATE POLICY some ON t TO bob USING (id = 1); DROP ROLE IF EXISTS bob")
    with pytest.raises(AccessNotExist, match="no role bob"):
        gateway.run("DROP ROLE bob")


def test_a_role_that_is_dropped_as_a_policy_is_made_for_it_stays(
    gateway: Gateway, lake: Lake, ada: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.run("CREATE ROLE reader; GRANT ROLE reader TO ada; GRANT SELECT ON t TO ada")
    create, outcomes = PolicyRepository.create, []

    def drop() -> None:
        try:
            lake.permissions.drop_role("reader")
            outcomes.append("dropped")
        except InvalidGrant as refused:
            outcomes.append(refused.message)

    dropping = threading.Thread(target=drop)

    def held(policies: PolicyRepository, table_id: UUID, policy: Policy) -> None:
        """Made and not committed: the drop begins, and goes as far as it can."""
        create(policies, table_id, policy)
        dropping.start()
        with psycopg.connect(dsn, autocommit=True) as conn:
            while dropping.is_alive() and conn.execute(_WAITS).fetchone() is None:
                time.sleep(0.05)

    monkeypatch.setattr(PolicyRepository, "create", held)
    gateway.run("CREATE POLICY some ON t TO reader USING (id = 1)")
    dropping.join()
    assert [said.partition(",")[0] for said in outcomes] == ["Policies bind the role reader or one given to it"]
    assert ("reader",) in gateway.run("SHOW ROLES").collect()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("GRANT SELECTT ON t TO ada", "Did you mean SELECT?"),
        ("GRANT SELECT ON t", "TO is expected"),
        ("GRANT SELECT TO ada", "ON is expected"),
        ("GRANT CREATETABLE ON t TO ada", "cannot be granted on a TABLE"),
        ("GRANT SELECT (id) ON DATABASE d TO ada", "for a table only"),
        ("GRANT SELECT ON t TO ada UNTIL 'soon'", "a time such as"),
        ("GRANT SELECT ON t TO ada WITH GRANT OPTION", "the end of the statement"),
        ("CREATE POLICY p ON t", "USING is expected"),
        ("CREATE MASKING POLICY p ON t USING (NULL)", "( is expected"),
    ],
)
def test_wrong_statements_are_told(shared: Gateway, text: str, says: str) -> None:
    with pytest.raises((SqlError, InvalidGrant)) as told:
        shared.run(text)
    assert says in told.value.message


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("upper(name) = 'A'", "is no column"),
        ("NOT (id > 1)", "cannot say"),
        ("id = name", "literal of type INT"),
        ("id IN (SELECT id FROM parted)", "cannot say"),
        ("price > 1.5", "cannot compare column price"),
        ("name LIKE 'a_c'", "cannot say"),
        ("name NOT LIKE 'a%'", "cannot say"),
        ("id > 1 AND name NOT LIKE '%a'", "cannot say"),
        ("missing = 1", "missing"),
        ("id = 'x'", "literal of type INT"),
    ],
)
def test_a_row_policy_says_only_what_every_client_understands(shared: Gateway, rule: str, says: str) -> None:
    with pytest.raises(LakeError) as told:
        shared.run(f"CREATE POLICY p ON t USING ({rule})")
    assert says in str(told.value)
    assert shared.run("SHOW POLICIES ON t").collect() == []


@pytest.mark.parametrize(
    ("column", "rule", "says"),
    [
        ("id", "'x'", "by NULL only"),
        ("name", "concat(name, id)", "cannot read"),
        ("name", "reverse(name)", "cannot show"),
        ("name", "substring(name, id)", "whole numbers"),
        ("nope", "NULL", "nope"),
    ],
)
def test_a_mask_shows_only_what_every_client_understands(shared: Gateway, column: str, rule: str, says: str) -> None:
    with pytest.raises(LakeError) as told:
        shared.run(f"CREATE MASKING POLICY p ON t ({column}) USING ({rule})")
    assert says in str(told.value)


def test_policies_bind_whom_they_name(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("GRANT SELECT ON t TO ada; CREATE ROLE staff")
    gateway.run("CREATE POLICY low ON t TO ada, bob USING (id < 10 AND name LIKE 'a%')")
    gateway.run("CREATE MASKING POLICY hidden ON t (name) TO staff USING ('***')")
    with pytest.raises(AccessAlreadyExist):
        gateway.run("CREATE POLICY low ON t USING (id IS NOT NULL)")
    assert gateway.run("SHOW POLICIES ON t").collect() == [
        ("hidden", "MASK", "name", "staff", "'***'"),
        ("low", "ROW", None, "ada, bob", "id < 10 AND name LIKE 'a%'"),
    ]
    seen = lake.for_caller(lake.access.caller(ada))
    table = seen.open(Identifier("default", "t"))
    rules = seen.read_rules(table)
    assert [policy.name for policy in rules.filters] == ["low"]
    assert rules.masks == {}
    gateway.run("GRANT ROLE staff TO ada")
    seen = lake.for_caller(lake.access.caller(ada))
    assert list(seen.read_rules(table).masks) == ["name"]
    assert lake.read_rules(table) == ReadRules()
    assert [row[0] for row in gateway.run("SHOW POLICIES ON t", caller=lake.access.caller(ada)).collect()] == ["hidden", "low"]
    gateway.run("DROP POLICY low ON t; DROP MASKING POLICY hidden ON t; DROP POLICY IF EXISTS low ON t")
    with pytest.raises(AccessNotExist):
        gateway.run("DROP POLICY low ON t")


def test_a_policy_of_which_an_earlier_version_kept_the_opposite_lets_nobody_read(gateway: Gateway, lake: Lake, ada: str) -> None:
    """It took NOT LIKE, and gave LIKE to its own readers and to Paimon's clients."""
    gateway.run("INSERT INTO t VALUES (1, 'a'), (50, 'b'); GRANT SELECT ON t TO ada; CREATE POLICY p ON t TO ada USING (name LIKE 'a%')")
    with lake.catalog.transaction() as tx:
        tx.policies._conn.execute("UPDATE table_policy SET sql = %s", ("name not  LIKE 'a%'",))
    seen = lake.for_caller(lake.access.caller(ada))
    with pytest.raises(Forbidden, match=r"Row policy p of table default\.t says NOT LIKE"):
        seen.read_rules(seen.open(Identifier("default", "t")))
    with pytest.raises(Forbidden):
        gateway.run("SELECT * FROM t", caller=lake.access.caller(ada)).collect()
    gateway.run("DROP POLICY p ON t")
    assert gateway.run("SELECT id FROM t", caller=lake.access.caller(ada)).collect() == [(1,), (50,)]


def test_metadata_does_not_answer_for_a_restricted_caller(gateway: Gateway, lake: Lake, ada: str) -> None:
    """Counts, bounds and the fast scan know all rows: such a query must go where policies are applied."""
    gateway.run("INSERT INTO t VALUES (1, 'a'), (50, 'b'); GRANT SELECT ON t TO ada")
    assert gateway.run("SELECT COUNT(*) FROM t", caller=lake.access.caller(ada)).collect() == [(2,)]
    gateway.run("CREATE POLICY low ON t TO ada USING (id < 10)")
    for query in ("SELECT COUNT(*) FROM t", "SELECT MAX(id) FROM t", "SELECT * FROM t", "SELECT id FROM t WHERE id = 50 LIMIT 1"):
        with pytest.raises(Exception, match="There is no Spark in this test"):
            gateway.run(query, caller=lake.access.caller(ada))


def test_what_is_lost_is_told_to_no_restricted_caller_and_taken_away_by_who_may_delete(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("INSERT INTO t VALUES (1, 'a'), (50, 'b'); GRANT SELECT ON t TO ada; GRANT UPDATE ON t TO ada")
    with pytest.raises(Forbidden, match="it takes DELETE"):
        gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)", caller=lake.access.caller(ada))
    assert gateway.run("CALL sys.remove_unexisting_files('t')", caller=lake.access.caller(ada)).collect() == []
    gateway.run("CREATE POLICY low ON t TO ada USING (id < 10)")
    with pytest.raises(Forbidden, match="sees only a part"):
        gateway.run("CALL sys.remove_unexisting_files('t')", caller=lake.access.caller(ada))


def test_a_session_is_its_owners(gateway: Gateway, lake: Lake, ada: str) -> None:
    from model.errors import SessionNotExist

    caller = lake.access.caller(ada)
    mine = gateway.open_session(caller=caller)
    gateway.check_owner(mine, caller)
    with pytest.raises(SessionNotExist):
        gateway.check_owner(mine, Caller(principal="bob", administrator=True))


def test_completion_shows_what_the_caller_may_see(gateway: Gateway, lake: Lake, ada: str) -> None:
    session = gateway.open_session()
    assert "t" in gateway.complete(session, "SELECT * FROM ", 14)
    found = gateway.complete(session, "SELECT * FROM ", 14, caller=lake.access.caller(ada))
    assert "t" not in found
    assert "d" not in found


def test_names_in_a_database_one_sees_are_told_apart_from_those_that_are_not(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("GRANT CREATETABLE ON DATABASE d TO ada")
    with pytest.raises(TableNotExist):
        gateway.run("SELECT * FROM d.nowhere", caller=lake.access.caller(ada))
    gateway.run("CREATE TABLE IF NOT EXISTS d.mine (id INT)", caller=lake.access.caller(ada))
    gateway.run("INSERT INTO d.mine VALUES (1)", caller=lake.access.caller(ada))
    assert gateway.run("SELECT * FROM d.mine", caller=lake.access.caller(ada)).collect() == [(1,)]


def test_other_creations_are_still_refused(gateway: Gateway) -> None:
    with pytest.raises(UnsupportedStatement, match="CREATE FUNCTION is not available"):
        gateway.run("CREATE FUNCTION f AS 'x'")


def test_partitions_of_all_tables_are_those_the_caller_may_read(gateway: Gateway, lake: Lake, ada: str) -> None:
    make_table(lake, "written", partition="day", id="INT", day="STRING")
    gateway.run("INSERT INTO parted VALUES (1, 'x'); INSERT INTO written VALUES (1, 'y')")
    gateway.run("GRANT SELECT ON parted TO ada; GRANT INSERT ON written TO ada")
    for listing in ("partitions", "all_partitions"):
        result = gateway.run(f"SELECT table_name, partition_name FROM sys.{listing}", caller=lake.access.caller(ada))
        assert [row for batch in result.batches() for row in batch.to_pylist()] == [{"table_name": "parted", "partition_name": "day=x"}]
