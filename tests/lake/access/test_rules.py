"""Policies and column grants mean columns, not names: no ALTER takes one from under them, and no other schema shows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lake.tables.tables as lake_tables
from gateway.gateway import Gateway
from lake import Lake
from lake.access.rules import ids_of
from model.access import Policy, ReadRules
from model.errors import ColumnAlreadyExist, ColumnNotExist, Forbidden, InvalidGrant, InvalidName, InvalidSchemaChange
from model.identifier import Identifier
from model.schema.schema import Schema, column, new_schema
from tests.lake.access.test_access import as_user, user
from tests.lake.register.test_repair import write_past
from tests.short import one_in
from tests.sql.tables import make_table

T = Identifier("default", "t")
BRANCH = Identifier("default", "t", "b")
RULES = {
    "row policy p": ("CREATE POLICY p ON t TO ada USING (card = 'x' OR id = 1)", "DROP POLICY p ON t"),
    "masking policy p": ("CREATE MASKING POLICY p ON t (card) USING (NULL)", "DROP MASKING POLICY p ON t"),
    "masking policy q": ("CREATE MASKING POLICY q ON t (name) USING (upper(card))", "DROP MASKING POLICY q ON t"),
    r"the grant of SELECT \(card\) to ada": ("GRANT SELECT (card) ON t TO ada", "REVOKE SELECT (card) ON t FROM ada"),
    r"the grant of SELECT EXCEPT \(card\) to ada": ("GRANT SELECT EXCEPT (card) ON t TO ada", "REVOKE SELECT (card) ON t FROM ada"),
}
CHANGES = ("ALTER TABLE {t} RENAME card TO c2", "ALTER TABLE {t} DROP card")


@pytest.fixture
def ada(gateway: Gateway, lake: Lake) -> str:
    """The token of a user; ``default.t`` has the columns id, name and card and a row, and its branch b the same."""
    make_table(lake, id="INT", name="STRING", card="STRING")
    gateway.run("INSERT INTO t VALUES (1, 'anna', '4711'); CALL sys.create_tag('t', 'one', 1); CALL sys.create_branch('t', 'b', 'one')")
    return user(lake, "ada")


def rules(lake: Lake, secret: str, table: Identifier = BRANCH) -> ReadRules:
    seen = as_user(lake, secret)
    return seen.read_rules(seen.open(table))


@pytest.mark.parametrize("rule", RULES)
def test_a_column_that_a_rule_names_keeps_its_name(gateway: Gateway, lake: Lake, ada: str, rule: str) -> None:
    make, drop = RULES[rule]
    gateway.run(make)
    main, branch = lake.open(T), lake.open(BRANCH)
    refused = rf"Column \w+ of table .* is named by {rule}, .* {drop[:6]}.* first"
    for table, name in ((T, "t"), (BRANCH, "`t$branch_b`")):
        for change in CHANGES:
            if change is CHANGES[1] and rule == "masking policy p" and table is T:
                continue  # which goes with its column: see below
            with pytest.raises(InvalidSchemaChange, match=refused):
                gateway.run(change.format(t=name))
        for columns in ({"id": "INT", "name": "STRING"}, {"card": "BIGINT", "id": "BIGINT", "name": "STRING"}):
            with pytest.raises(InvalidSchemaChange, match=refused):
                lake.replace_table(table, new_schema([column(each, type_) for each, type_ in columns.items()]))
    assert (lake.open(T).schema, lake.open(BRANCH).schema) == (main.schema, branch.schema)
    assert (lake.open(T).latest(), lake.open(BRANCH).latest()) == (main.latest(), branch.latest())
    gateway.run("ALTER TABLE t ADD (more INT)")
    lake.replace_table(T, new_schema([column("card", "STRING"), column("name", "STRING"), column("id", "INT")]))  # wherever they stand
    gateway.run(drop)
    gateway.run("ALTER TABLE t RENAME card TO c2; ALTER TABLE `t$branch_b` DROP card")


def test_main_goes_forward_to_no_branch_that_calls_a_hidden_column_otherwise(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("ALTER TABLE `t$branch_b` RENAME card TO c2; CREATE MASKING POLICY m ON t (card) USING (NULL)")
    for dry in ("true", "false"):
        with pytest.raises(InvalidSchemaChange, match=r"Column card of table .* is named by masking policy m"):
            gateway.run(f"CALL sys.fast_forward('t', 'b', dry_run => {dry})")
    assert "card" in lake.open(T).schema.field_names
    gateway.run("DROP MASKING POLICY m ON t; CALL sys.fast_forward('t', 'b')")
    assert "c2" in lake.open(T).schema.field_names


def test_a_schema_goes_back_to_no_other_name_of_a_hidden_column(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("ALTER TABLE t RENAME card TO c2; CREATE MASKING POLICY m ON t (c2) USING (NULL)")
    with pytest.raises(InvalidSchemaChange, match="Column c2"):
        lake.history.rollback_schema(lake.open(T), 0)
    assert lake.open(T).schema.id == 1


def test_a_repair_adopts_no_schema_that_calls_a_hidden_column_otherwise(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("CREATE MASKING POLICY m ON t (card) USING (NULL)")
    opened = lake.open(T)
    fields = tuple(replace(field, name="c2") if field.name == "card" else field for field in opened.schema.fields)
    theirs = replace(opened, schema=replace(opened.schema, id=1, fields=fields))
    opened.files.io.create(opened.files.layout.schema_file(1), json.dumps(theirs.schema.to_json()).encode())
    write_past(theirs, "theirs")
    for dry_run in (True, False):
        with pytest.raises(InvalidSchemaChange, match="masking policy m"):
            lake.repair_table(T, dry_run=dry_run)
    gateway.run("DROP MASKING POLICY m ON t")
    assert lake.repair_table(T).registered == (2,)
    assert "c2" in lake.open(T).schema.field_names


def test_a_policy_is_put_on_a_table_and_never_on_a_branch(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("ALTER TABLE `t$branch_b` RENAME card TO c2")
    for named in ("card", "c2"):
        with pytest.raises(InvalidName, match="a policy binds a table with all its branches"):
            gateway.run(f"CREATE MASKING POLICY m ON `t$branch_b` ({named}) USING (NULL)")
    with pytest.raises(ColumnNotExist, match="c2"):
        gateway.run("CREATE MASKING POLICY m ON t (c2) USING (NULL)")
    gateway.run("CREATE MASKING POLICY m ON t (card) USING (NULL); GRANT SELECT ON t TO ada")
    assert list(rules(lake, ada, T).masks) == ["card"]


def test_a_policy_that_comes_while_a_column_is_renamed_keeps_it(
    gateway: Gateway, lake: Lake, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = lake_tables._check_defaults

    def first(fields: object, *, before: object) -> None:
        monkeypatch.setattr(lake_tables, "_check_defaults", check)
        gateway.run("CREATE MASKING POLICY m ON t (card) USING (NULL)")

    monkeypatch.setattr(lake_tables, "_check_defaults", first)
    with pytest.raises(InvalidSchemaChange, match="masking policy m"):
        gateway.run("ALTER TABLE t RENAME card TO c2")


@pytest.mark.parametrize("kind", ["policy", "grant"])
def test_a_rule_waits_for_the_alter_that_takes_its_column(gateway: Gateway, lake: Lake, ada: str, kind: str) -> None:
    opened = lake.open(T)
    schema = opened.schema.to_json()
    schema["fields"] = [field | {"name": "c2"} if field["name"] == "card" else field for field in schema["fields"]]
    refused: list[BaseException] = []

    def make() -> None:
        try:
            if kind == "policy":
                policy = Policy(name="m", column="card", principals=(), sql="NULL", rule={"name": "NULL"})
                lake.permissions.create_policy(T, policy)
            else:
                gateway.run("GRANT SELECT EXCEPT (card) ON t TO ada")
        except BaseException as problem:
            refused.append(problem)

    maker = threading.Thread(target=make)
    with lake.catalog.transaction() as tx:
        number = tx.tables.next_schema_id(opened.table_id)
        maker.start()
        maker.join(0.5)
        assert maker.is_alive()
        tx.tables.advance_schema(opened.table_id, base=0, to=number, schema=schema)
    maker.join(120)
    assert [type(problem) for problem in refused] == [InvalidGrant]


def test_a_branch_that_calls_columns_otherwise_shows_no_more_than_main(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("ALTER TABLE `t$branch_b` RENAME card TO c2; ALTER TABLE `t$branch_b` ADD (card STRING)")
    gateway.run("CREATE MASKING POLICY m ON t (card) TO ada USING (NULL); GRANT SELECT ON t TO ada")
    assert rules(lake, ada, T).columns is None
    assert rules(lake, ada) == ReadRules(columns=frozenset({"id", "name"}))  # neither of its name nor the same one
    gateway.run("DROP MASKING POLICY m ON t; CREATE MASKING POLICY m ON t (name) TO ada USING (upper(card))")
    assert rules(lake, ada).columns == frozenset({"id", "c2", "card"})  # what is shown in its place is not there
    gateway.run("DROP MASKING POLICY m ON t; REVOKE SELECT ON t FROM ada; GRANT SELECT EXCEPT (card) ON t TO ada")
    assert rules(lake, ada).columns == rules(lake, ada, T).columns == frozenset({"id", "name"})
    gateway.run("GRANT SELECT (id, card) ON t TO ada")
    assert rules(lake, ada).columns == frozenset({"id"})
    gateway.run("GRANT SELECT ON t TO ada; CREATE POLICY p ON t TO ada USING (card = 'x')")
    seen = as_user(lake, ada)
    for read in (lambda: rules(lake, ada), lambda: seen.require_whole(lake.open(BRANCH), "files")):
        with pytest.raises(Forbidden, match="Row policy p names columns"):
            read()
    assert not seen.tells_counts(lake.open(BRANCH))
    assert not seen.sees_whole(lake.open(BRANCH))
    for query in ("SELECT * FROM `t$branch_b`", "SELECT COUNT(*) FROM `t$branch_b`", "SELECT * FROM `t$branch_b$files`"):
        with pytest.raises(Forbidden):
            gateway.run(query, caller=lake.access.caller(ada))


def test_a_branch_without_the_masked_column_is_still_not_the_whole_table(gateway: Gateway, lake: Lake, ada: str) -> None:
    """Its older files may hold what none of its columns shows any more, and statistics tell of that."""
    gateway.run("ALTER TABLE `t$branch_b` DROP card; CREATE MASKING POLICY m ON t (card) USING (NULL); GRANT SELECT ON t TO ada")
    assert rules(lake, ada) == ReadRules(columns=frozenset({"id", "name"}))
    with pytest.raises(Forbidden, match="sees only a part"):
        gateway.run("SELECT * FROM `t$branch_b$files`", caller=lake.access.caller(ada))
    with pytest.raises(Forbidden, match="streams of a part"):
        as_user(lake, ada).stream_start(lake.open(BRANCH), {"scan.snapshot-id": "1"})


def test_rules_whose_column_an_earlier_version_let_go_open_nothing(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("GRANT SELECT EXCEPT (card) ON t TO ada; GRANT UPDATE ON t TO ada")
    with lake.catalog.transaction() as tx:
        tx.policies._conn.execute("""UPDATE access_grant SET columns = '{"names": ["gone"], "excluded": true}' WHERE columns IS NOT NULL""")
    with pytest.raises(Forbidden, match="names column gone, which was renamed or dropped"):
        rules(lake, ada, T)
    with pytest.raises(InvalidSchemaChange, match="Column gone"):  # it would not be the one that was meant
        gateway.run("ALTER TABLE t ADD (gone STRING)")
    gateway.run("ALTER TABLE t ADD (other STRING); GRANT SELECT ON t TO ada; CREATE MASKING POLICY m ON t (card) USING (NULL)")
    with lake.catalog.transaction() as tx:
        tx.policies._conn.execute("UPDATE table_policy SET column_name = 'gone'")
    with pytest.raises(Forbidden, match=r"Policy m of table default\.t names column gone"):
        rules(lake, ada, T)
    assert not as_user(lake, ada).tells_counts(lake.open(T))


def past_rules(lake: Lake, secret: str, table: Identifier, body: Mapping[str, Any]) -> ReadRules:
    """What somebody sees of a table that is read by a version of its schema."""
    seen = as_user(lake, secret)
    return seen.read_rules(replace(seen.open(table), schema=Schema.from_json(body)))


def raw(found: ReadRules, columns: Iterable[str]) -> frozenset[str]:
    """The columns whose values are shown as they are."""
    return frozenset(columns) - found.unseen(columns)


def test_a_dropped_column_stays_kept_from_whom_it_was_masked_for(gateway: Gateway, lake: Lake, ada: str) -> None:
    bob = user(lake, "bob")
    gateway.run("GRANT SELECT ON t TO ada; GRANT SELECT ON t TO bob; CREATE MASKING POLICY p ON t (card) TO ada USING (NULL)").close()
    past = lake.open(T).schema.to_json()
    everything = frozenset({"id", "name", "card"})
    gateway.run("ALTER TABLE t DROP card").close()
    assert raw(past_rules(lake, ada, T, past), everything) == {"id", "name"}
    assert raw(past_rules(lake, ada, BRANCH, past), everything) == {"id", "name"}, "the branch has it still"
    assert raw(rules(lake, ada, T), {"id", "name"}) == {"id", "name"}
    assert rules(lake, ada, T).restricted, "files hold it"
    assert raw(past_rules(lake, bob, T, past), everything) == everything
    gateway.run("ALTER TABLE t ADD card STRING").close()  # which takes no right to say who sees what
    assert raw(rules(lake, ada, T), everything) == {"id", "name"}
    assert raw(past_rules(lake, ada, T, past), everything) == {"id", "name"}
    assert gateway.run("SHOW POLICIES ON t").collect() == [("p", "MASK", "card", "ada", "NULL")]
    gateway.run("DROP MASKING POLICY p ON t").close()
    assert raw(past_rules(lake, ada, T, past), everything) == everything, "as who may GRANT has said"


def test_a_mask_goes_only_with_a_column_that_is_dropped_and_that_no_other_rule_names(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("GRANT SELECT ON t TO ada; CREATE MASKING POLICY p ON t (card) TO ada USING (NULL)").close()
    for make, drop in (RULES["row policy p"], RULES[r"the grant of SELECT \(card\) to ada"]):
        gateway.run(make.replace("POLICY p", "POLICY other")).close()
        with pytest.raises(InvalidSchemaChange):
            gateway.run("ALTER TABLE t DROP card")
        gateway.run(drop.replace("POLICY p", "POLICY other")).close()
        assert rules(lake, ada, T).masks.keys() == {"card"}, "nothing was changed"
        if "GRANT" in make:
            gateway.run("GRANT SELECT ON t TO ada").close()


_STEPS = (
    "ALTER TABLE t DROP {c}",
    "ALTER TABLE t ADD {c} STRING",
    "ALTER TABLE t RENAME {c} TO {d}",
    "CREATE MASKING POLICY m{n} ON t ({c}) {to}",
)


@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_whatever_is_altered_no_masked_column_is_ever_shown(gateway: Gateway, lake: Lake, ada: str, seed: int) -> None:
    """Of any version and of the branch, to whom it was masked for, as long as nobody drops the mask."""
    rng, masked = Random(seed), set[int]()
    gateway.run("GRANT SELECT ON t TO ada").close()
    done = 0
    for number in range(40):
        c, d = rng.sample(("name", "card", "x", "y"), 2)
        text = rng.choice(_STEPS).format(c=c, d=d, n=number, to=rng.choice(("USING (NULL)", "TO ada USING (NULL)")))
        before = ids_of(lake.open(T).schema)
        try:
            gateway.run(text).close()
        except (InvalidSchemaChange, ColumnNotExist, ColumnAlreadyExist, InvalidGrant):
            continue
        done += 1
        if "MASKING" in text:
            masked.add(before[c])
        with lake.catalog.reading() as tx:
            versions = [body for _, body in tx.tables.schemas(lake.open(T).table_id, "main")]
        for body in versions:
            names = ids_of(body)
            for table in (T, BRANCH):
                shown = raw(past_rules(lake, ada, table, body), names)
                assert masked.isdisjoint(names[name] for name in shown), (text, table)
    assert done > 8
    assert masked


NARROWED = {"name": "VARCHAR(2)", "id": "TINYINT"}
"""Types under which a condition holds for values for which it does not: 'anna' is 'an', and 300 is 44."""


@pytest.mark.parametrize("name", NARROWED)
@pytest.mark.parametrize(
    "rule", ["CREATE POLICY p ON t TO ada USING (name = 'an' AND id < 100)", "CREATE MASKING POLICY p ON t ({name}) TO ada USING (NULL)"]
)
def test_a_column_that_a_policy_names_keeps_its_values(gateway: Gateway, lake: Lake, ada: str, name: str, rule: str) -> None:
    gateway.run(rule.format(name=name) + "; GRANT SELECT, ALTER ON t TO ada")
    alter = f"MODIFY {name} {NARROWED[name]}"
    for table in ("t", "`t$branch_b`"):
        with pytest.raises(InvalidSchemaChange, match=rf"Column {name} of table .* is named by .*policy p, .* DROP .*POLICY p ON .* first"):
            gateway.run(f"ALTER TABLE {table} {alter}")
    gateway.run("ALTER TABLE t MODIFY id BIGINT; ALTER TABLE t MODIFY card VARCHAR(2)")
    if "id" in rule.format(name=name):
        with pytest.raises(InvalidSchemaChange, match="Column id of"):
            lake.history.rollback_schema(lake.open(T), 0)
    kind = "POLICY" if rule.startswith("CREATE POLICY") else "MASKING POLICY"
    gateway.run(f"DROP {kind} p ON t; ALTER TABLE t {alter}")


def test_main_goes_forward_to_no_branch_with_other_values(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run("ALTER TABLE `t$branch_b` MODIFY name VARCHAR(2); CREATE POLICY p ON t TO ada USING (name = 'an')")
    with pytest.raises(InvalidSchemaChange, match="Column name of"):
        gateway.run("CALL sys.fast_forward('t', 'b')")


def test_what_shows_other_values_than_main_is_closed_to_whom_a_policy_binds(gateway: Gateway, lake: Lake, ada: str) -> None:
    """A branch, and a version of before the policy, under which values that it hides would be others."""
    narrow, wide = lake.open(T), "ALTER TABLE t MODIFY name STRING"
    gateway.run("ALTER TABLE `t$branch_b` MODIFY name VARCHAR(2); ALTER TABLE t MODIFY name VARCHAR(2)")
    narrow = lake.open(T)
    gateway.run(wide)
    gateway.run("CREATE POLICY p ON t TO ada USING (name = 'an'); GRANT SELECT ON t TO ada")
    seen = as_user(lake, ada)
    assert [policy.name for policy in rules(lake, ada, T).filters] == ["p"]
    for read in (seen.open(BRANCH), narrow):
        with pytest.raises(Forbidden, match="not all of them under these names and with the same values"):
            seen.read_rules(read)
    gateway.run("DROP POLICY p ON t; CREATE MASKING POLICY p ON t (name) TO ada USING (upper(name))")
    for read in (seen.open(BRANCH), narrow):
        assert seen.read_rules(read) == ReadRules(columns=frozenset({"id", "card"}))


def test_what_was_only_widened_is_read_as_before(gateway: Gateway, lake: Lake, ada: str) -> None:
    before = lake.open(T)
    gateway.run("ALTER TABLE t MODIFY id BIGINT; CREATE POLICY p ON t TO ada USING (id < 100); GRANT SELECT ON t TO ada")
    seen = as_user(lake, ada)
    for read in (seen.open(BRANCH), before, seen.open(T)):
        assert [policy.name for policy in seen.read_rules(read).filters] == ["p"]
