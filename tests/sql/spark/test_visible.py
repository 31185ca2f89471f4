"""Row filters, masks and columns hold whatever a query does with the table."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from gateway.operation import Operation
from lake import Lake
from lake.access.callers import EVERYBODY
from model.errors import Forbidden, InvalidSchemaChange, LakeError
from tests.lake.access.test_access import user
from tests.short import short
from tests.sql.tables import make_table

pytestmark = pytest.mark.spark


def test_rules_hold_for_every_kind_of_query(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", name="STRING", salary="BIGINT", region="STRING")
    make_table(lake, "mine", id="INT", name="STRING", salary="BIGINT", region="STRING")
    ada = user(lake, "ada")
    on_spark.run(
        "INSERT INTO t VALUES (1, 'anna', 10, 'eu'), (2, 'bert', 20, 'us'), (3, 'carl', 30, 'eu'), (4, NULL, 40, NULL);"
        "GRANT SELECT ON t TO ada; GRANT ALL ON mine TO ada; CREATE POLICY eu ON t TO ada USING (region = 'eu' OR id IN (4));"
        "CREATE MASKING POLICY short ON t (name) TO ada USING (substring(name, 1, 1));"
        "CREATE MASKING POLICY none ON t (salary) TO ada USING (NULL)"
    )

    def sees(query: str) -> list[tuple[object, ...]]:
        return sorted(on_spark.run(query, caller=lake.access.caller(ada)).collect(), key=repr)

    all_of_it = [(1, "a", None, "eu"), (3, "c", None, "eu"), (4, None, None, None)]
    assert sees("SELECT * FROM t") == all_of_it
    assert sees("SELECT COUNT(*), SUM(salary), MAX(name) FROM t") == [(3, None, "c")]
    assert sees("SELECT id FROM t WHERE name = 'bert' OR salary = 20 OR id = 2") == []
    assert sees("SELECT id FROM t WHERE name = 'anna'") == []
    assert sees("SELECT id FROM t WHERE name = 'a'") == [(1,)]
    assert sees("SELECT id FROM t WHERE salary IS NULL AND salary > 0 OR region = 'us'") == []
    assert sees("WITH x AS (SELECT * FROM t) SELECT COUNT(*) FROM x a JOIN t b ON a.id = b.id") == [(3,)]
    assert sees("SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2099-01-01 00:00:00'") == all_of_it
    assert sees("SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */") == [(1,), (3,), (4,)]
    # A row that is filtered away must not make the query fail either: its error would tell of it.
    assert sees("SELECT id FROM t WHERE 1 / (id - 2) < 5") == [(1,), (3,), (4,)]
    sees("INSERT INTO mine SELECT * FROM t")
    assert sorted(on_spark.run("SELECT * FROM mine").collect(), key=repr) == all_of_it
    assert sorted(on_spark.run("SELECT id, salary FROM t").collect()) == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.parametrize("shape", short(["plain", "evolved", "wide"], ["wide", "evolved"]))
def test_no_condition_is_asked_of_rows_that_are_filtered_away(on_spark: Gateway, lake: Lake, shape: str) -> None:
    """Its failure would tell of them, and the values in it. Spark moves conditions, and infers one from two others.

    ``evolved``: a column the rule reads is cast by Python, past which Spark moves conditions. ``wide``: of more columns than Spark makes
    code of one piece for, and then it takes out what a condition says twice.
    """
    more = {f"c{n}": "INT" for n in range(100 if shape == "wide" else 1)}
    make_table(lake, options=None, region="INT", card="STRING", other="STRING", **more)
    token = user(lake, "ada")
    on_spark.run("INSERT INTO t (region, card, other) VALUES (1, '42', '42'), (2, 'secret', 'secret'); GRANT SELECT ON t TO ada")
    if shape == "evolved":
        on_spark.run("ALTER TABLE t MODIFY region STRING; CREATE POLICY p ON t TO ada USING (region = '1')")
    else:
        on_spark.run("CREATE POLICY p ON t TO ada USING (region = 1)")
    for condition in (
        "CAST(card AS INT) > 0",
        "IF(card LIKE 's%', 1 / 0, 1) = 1",
        "card = other AND CAST(card AS INT) > 0",
        "CAST(card AS INT) > 0 AND CAST(card AS INT) < 99",
    ):
        seen = on_spark.run(f"SELECT * FROM t WHERE {condition}", caller=lake.access.caller(token)).collect()
        assert [row[1] for row in seen] == ["42"], condition
    joined = "SELECT count(*) FROM t JOIN LATERAL (SELECT x.card FROM t x WHERE x.other = t.other AND CAST(x.card AS INT) > 0)"
    assert on_spark.run(joined, caller=lake.access.caller(token)).collect() == [(1,)]


def test_only_the_granted_columns_are_there(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", name="STRING", salary="BIGINT")
    ada = user(lake, "ada")
    on_spark.run("INSERT INTO t VALUES (1, 'anna', 10); GRANT SELECT (id, name) ON t TO ada; CREATE POLICY low ON t USING (salary < 100)")
    caller = lake.access.caller(ada)
    assert on_spark.run("SELECT * FROM t", caller=caller).collect() == [(1, "anna")]
    with pytest.raises(LakeError, match="salary"):
        on_spark.run("SELECT salary FROM t", caller=caller)
    on_spark.run("GRANT SELECT EXCEPT (name) ON t TO ada")
    assert on_spark.run("SELECT * FROM t", caller=lake.access.caller(ada)).collect() == [(1, 10)]


HIDDEN_FOR_SPARK = (
    "SELECT count(*) FROM t s JOIN (SELECT named_struct('card', 'zz') AS s) y ON s.card >= '{}'",
    "SELECT count(*) FROM t s, (SELECT named_struct('card', 'zz') AS s) y WHERE s.card >= '{}'",
    "SELECT count(*) FROM (SELECT 'zz' AS card) x WHERE EXISTS (SELECT 1 FROM t WHERE card >= '{}')",
    "SELECT count(*) FROM (SELECT named_struct('card', 'zz') AS s) x WHERE EXISTS (SELECT 1 FROM t s WHERE s.card >= '{}')",
)
"""A name that Spark takes for another relation's where the table's own column is kept from the caller."""


def test_conditions_on_other_relations_find_no_hidden_values(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", card="STRING", options={"bucket": "-1", "rows.erasable": "true"})
    token = user(lake, "ada")
    on_spark.run("INSERT INTO t VALUES (1, '41'); INSERT INTO t VALUES (2, '44'); GRANT SELECT (id), UPDATE, DELETE ON t TO ada")
    ada = lake.access.caller(token)
    for query in HIDDEN_FOR_SPARK:
        found = [on_spark.run(query.format(bound), caller=ada).collect() for bound in ("40", "42", "45")]
        assert found[0] == found[1] == found[2] != [(0,)], query
    merge = "MERGE INTO t s USING (SELECT named_struct('card', 'zz') AS s) y ON s.card >= '45' WHEN MATCHED THEN DELETE"
    on_spark.run(merge, caller=ada).close()
    assert on_spark.run("SELECT count(*) FROM t").collect() == [(0,)]


def test_a_name_of_two_relations_is_the_tables_where_spark_says_so(on_spark: Gateway, lake: Lake) -> None:
    """A table's alias goes before another relation's struct of that name, where the table is known already."""
    make_table(lake, id="INT", card="STRING")
    on_spark.run("INSERT INTO t VALUES (1, '41'); INSERT INTO t VALUES (2, '44')")
    struct = "(SELECT 1 AS id, named_struct('card', 'zz') AS s) y"
    for query, found in (
        (f"SELECT count(*) FROM t s JOIN {struct} ON s.card >= '42'", 1),
        (f"SELECT count(*) FROM {struct}, t s WHERE s.card >= '42'", 1),
        (f"SELECT count(*) FROM {struct} JOIN (SELECT 1) z ON s.card >= '45' JOIN t s ON s.id > 0", 2),
        (f"SELECT count(*) FROM {struct} LEFT SEMI JOIN t s ON s.id = y.id WHERE s.card >= '45'", 1),
        (f"SELECT count(*) FROM {struct} LEFT ANTI JOIN t s ON s.id = y.id WHERE s.card >= '45'", 0),
    ):
        assert on_spark.run(query).collect() == [(found,)], query


def test_a_hidden_column_is_hidden_under_whatever_name(on_spark: Gateway, lake: Lake) -> None:
    """Whoever may SELECT and ALTER gives a column no name that is shown, and a branch that has another name for it shows it neither."""
    make_table(lake, id="INT", name="STRING", region="STRING")
    ada = user(lake, "ada")
    on_spark.run(
        "INSERT INTO t VALUES (1, 'anna', 'eu'); CALL sys.create_tag('t', 'one', 1); CALL sys.create_branch('t', 'b', 'one');"
        "ALTER TABLE `t$branch_b` RENAME name TO called; ALTER TABLE t ADD (more INT); INSERT INTO t VALUES (2, 'bert', 'us', 3);"
        "GRANT SELECT, ALTER ON t TO ada; CREATE MASKING POLICY m ON t (name) USING (substring(name, 1, 1))"
    )

    def sees(query: str) -> list[tuple[object, ...]]:
        return sorted(on_spark.run(query, caller=lake.access.caller(ada)).collect(), key=repr)

    for change in ("ALTER TABLE t RENAME name TO called", "ALTER TABLE `t$branch_b` DROP region"):
        if "region" in change:
            on_spark.run("CREATE POLICY p ON t USING (region = 'eu')")
        with pytest.raises(InvalidSchemaChange, match="policy"):
            on_spark.run(change, caller=lake.access.caller(ada))
    assert sees("SELECT * FROM t") == [(1, "a", "eu", None)]
    assert sees("SELECT name FROM t VERSION AS OF 'one'") == [("a",)]
    assert sees("SELECT * FROM `t$branch_b`") == [(1, "eu")]
    with pytest.raises(LakeError, match="called"):
        sees("SELECT called FROM `t$branch_b`")
    with pytest.raises(Forbidden, match="sees only a part"):
        sees("SELECT * FROM `t$branch_b$files`")
    on_spark.run("DROP POLICY p ON t; ALTER TABLE `t$branch_b` RENAME region TO place; CREATE POLICY p ON t USING (region = 'eu')")
    with pytest.raises(Forbidden, match="Row policy p names columns"):
        sees("SELECT id FROM `t$branch_b`")
    assert sees("SELECT id FROM t") == [(1,)]
    assert on_spark.run("SELECT * FROM `t$branch_b`").collect() == [(1, "anna", "eu")]


def test_explain_tells_nothing_of_the_hidden_part_and_shows_no_path(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, "parted", partition="day", id="INT", day="STRING")
    ada = user(lake, "ada")
    on_spark.run("INSERT INTO parted VALUES (1, 'hidden'), (2, 'shown'); GRANT SELECT ON parted TO ada")
    query = "SELECT upper(day), count(*) FROM parted GROUP BY 1"

    def explained(explain: str, who: str | None) -> str:
        caller = lake.access.caller(who) if who else EVERYBODY
        return "".join(str(row) for row in on_spark.run(f"{explain} {query}", caller=caller).collect())

    assert "files: 2 kept" in explained("EXPLAIN", ada)
    on_spark.run("CREATE POLICY p ON parted TO ada USING (day = 'shown')")
    for explain in ("EXPLAIN", "EXPLAIN JSON_EXECUTION_PLAN"):
        for who in (ada, None):
            told = explained(explain, who)
            assert ("Physical Plan" in told) is (who is None)  # which differs by the files that a condition leaves
            assert ("not told, as it depends on rows of default.parted" in told) is (who is not None)
            assert not [word for word in ("Location", "warehouse", "parquet-") if word in told]
            assert ("hidden" in told) is (who is None and "JSON" in explain)  # who sees all is shown the partitions of files
        assert not [told for told in ("2 kept", '"rowsToRead": 2') if told in explained(explain, ada)]


def test_conditions_find_no_hidden_values_by_what_explain_tells(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", salary="INT")
    token = user(lake, "ada")
    on_spark.run("INSERT INTO t VALUES (1, 10); INSERT INTO t VALUES (2, 777)")
    on_spark.run("GRANT SELECT ON t TO ada; CREATE POLICY p ON t TO ada USING (id = 1)")
    ada = lake.access.caller(token)

    def explained(explain: str, bound: str) -> str:
        rows = on_spark.run(f"{explain} SELECT id FROM t WHERE salary > {bound}", caller=ada).collect()
        return str(rows).replace(bound, "")

    bounds = ("100", "776", "777", "999")
    told = {explained(explain, bound) for explain in ("EXPLAIN", "EXPLAIN JSON_EXECUTION_PLAN") for bound in bounds}
    assert len(told) == 2


def test_progress_counts_no_files_for_who_sees_a_part_and_shows_no_path(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", salary="INT")
    token = user(lake, "ada")
    on_spark.run("INSERT INTO t VALUES (1, 10); INSERT INTO t VALUES (2, 777)")
    on_spark.run("GRANT SELECT ON t TO ada; CREATE POLICY p ON t TO ada USING (id = 1)")
    ended: list[Operation] = []
    on_spark.listen(ended.append)
    on_spark.run("SELECT upper(id) FROM t").close()
    stages = on_spark.progress(ended[-1]).stages
    assert stages
    assert not [stage.name for stage in stages if "/" in stage.name or not stage.name]
    for bound in (100, 999):
        on_spark.run(f"SELECT id FROM t WHERE salary > {bound}", caller=lake.access.caller(token)).close()
        told = on_spark.progress(ended[-1])
        assert (told.done, told.total, told.stages) == (0, None, ())


def test_who_sees_a_part_of_a_table_counts_nothing_of_it_by_analyzing(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    token = user(lake, "ada")
    on_spark.run("INSERT INTO t VALUES (1), (2); GRANT SELECT, INSERT ON t TO ada; CREATE POLICY p ON t TO ada USING (id = 1)")
    with pytest.raises(Forbidden, match="not its statistics"):
        on_spark.run("CALL sys.analyze_table('t')", caller=lake.access.caller(token))


def test_tables_about_all_tables_take_any_condition_from_everybody(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    ada = user(lake, "ada")
    on_spark.run("GRANT SELECT ON t TO ada")
    caller = lake.access.caller(ada)
    assert on_spark.run("SELECT upper(table_name) FROM sys.tables WHERE upper(table_name) = 'T'", caller=caller).collect() == [("T",)]
    found = on_spark.run("SELECT DISTINCT principal FROM sys.audit_log WHERE upper(principal) <> 'X'", caller=caller).collect()
    assert found in ([], [("ada",)])
