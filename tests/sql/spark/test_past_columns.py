"""A snapshot that a query names has the columns it was committed with, as Paimon shows it; rules about columns hold for them."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import Forbidden, LakeError
from model.identifier import Identifier
from model.schema.schema import Schema, column, new_schema
from tests.lake.access.test_access import user
from tests.short import short
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark
OLD = [(1, "x"), (2, "y")]
THEN = (
    "t VERSION AS OF 1",
    "t VERSION AS OF 'first'",
    "t /*+ OPTIONS('scan.snapshot-id' = '1') */",
    "t /*+ OPTIONS('scan.tag-name' = 'first') */",
    "t FOR SYSTEM_TIME AS OF TIMESTAMP '{}'",
    "t$ro /*+ OPTIONS('scan.snapshot-id' = '1') */",
)


@pytest.fixture
def changed(run: Run) -> Run:
    """Two rows, and then the changes that a test asks for."""
    run("CREATE TABLE t (a INT, b STRING) WITH ('bucket' = '1', 'bucket-key' = 'a')")
    run("INSERT INTO t VALUES (1, 'x'), (2, 'y'); CALL sys.create_tag('t', 'first', 1)")
    return run


CHANGES: list[Schema | str] = [
    new_schema([column("a", "BIGINT"), column("b", "STRING"), column("c", "INT")], options={"bucket": "-1"}),
    new_schema([column("n", "DATE"), column("a", "STRING")], options={"bucket": "2", "bucket-key": "n"}),
    "ALTER TABLE t RENAME b TO c; ALTER TABLE t ADD b INT; INSERT INTO t VALUES (3, 'z', 4)",
    "ALTER TABLE t DROP b; ALTER TABLE t ADD b INT; INSERT INTO t VALUES (3, 4)",
]


@pytest.mark.parametrize("change", short(CHANGES, CHANGES[1:3]))
def test_a_snapshot_has_the_columns_it_was_committed_with(changed: Run, lake: Lake, change: Schema | str) -> None:
    ((moment,),) = changed("SELECT CAST(commit_time AS STRING) FROM t$snapshots WHERE snapshot_id = 1")
    if isinstance(change, Schema):  # CREATE OR REPLACE TABLE, as other engines ask for it
        lake.replace_table(Identifier("default", "t"), change)
    else:
        changed(change)
    for then in THEN:
        mention = then.format(moment)
        assert sorted(changed(f"SELECT * FROM {mention}")) == OLD, mention
        assert changed(f"SELECT COUNT(a), SUM(a + 1), MAX(upper(b)) FROM {mention} WHERE a > 0") == [(2, 5, "Y")], mention
        assert changed(f"SELECT b FROM {mention} WHERE a = 1") == [("x",)], mention
    changed("CREATE TABLE saved AS SELECT * FROM t VERSION AS OF 1")
    assert sorted(changed("SELECT * FROM saved")) == OLD
    assert [row[:2] for row in changed("DESCRIBE saved")] == [("a", "INT"), ("b", "STRING")]
    audited = "SELECT rowkind, a, b FROM t$audit_log /*+ OPTIONS('scan.snapshot-id' = '1') */"
    assert sorted(changed(audited)) == [("+I", *row) for row in OLD]


def test_a_table_that_names_a_snapshot_is_shown_as_it_was(changed: Run) -> None:
    changed("ALTER TABLE t DROP b; INSERT INTO t VALUES (3); ALTER TABLE t SET ('scan.snapshot-id' = '1')")
    assert sorted(changed("SELECT * FROM t")) == OLD


def test_what_was_added_between_snapshots_has_the_present_columns(changed: Run) -> None:
    changed("ALTER TABLE t RENAME b TO c; ALTER TABLE t ADD d INT")
    assert sorted(changed("SELECT a, c, d FROM t /*+ OPTIONS('incremental-between' = '0,1') */")) == [(a, b, None) for a, b in OLD]


def test_a_branch_has_columns_of_its_own_past(changed: Run) -> None:
    changed("CALL sys.create_branch('t', 'b', 'first'); ALTER TABLE t$branch_b DROP b; ALTER TABLE t$branch_b ADD b INT")
    changed("INSERT INTO t$branch_b VALUES (3, 4)")
    assert sorted(changed("SELECT a, b FROM t$branch_b VERSION AS OF 1")) == OLD
    assert sorted(changed("SELECT a, b FROM t$branch_b"), key=repr) == [(1, None), (2, None), (3, 4)]


def test_rules_hold_for_columns_by_their_number_and_by_their_name(changed: Run, on_spark: Gateway, lake: Lake) -> None:
    token = user(lake, "ada")
    changed("ALTER TABLE t RENAME b TO secret; ALTER TABLE t ADD b STRING; INSERT INTO t VALUES (3, 'z', 'free')")
    changed("GRANT SELECT ON t TO ada; CREATE MASKING POLICY m ON t (secret) TO ada USING (NULL)")

    def sees(text: str) -> list[tuple[object, ...]]:
        return sorted(on_spark.run(text, caller=lake.access.caller(token)).collect(), key=repr)

    assert sees("SELECT * FROM t") == [(1, None, None), (2, None, None), (3, None, "free")]
    assert sees("SELECT * FROM t VERSION AS OF 1") == [(1,), (2,)], "b was then what is secret now"
    with pytest.raises(Exception, match="b"):
        sees("SELECT b FROM t VERSION AS OF 1")
    changed("ALTER TABLE t DROP b")
    assert sees("SELECT * FROM t VERSION AS OF 2") == [(1, None), (2, None), (3, None)], "b went with whatever bound ada"
    with pytest.raises(Exception, match="b"):
        sees("SELECT b FROM t VERSION AS OF 2")
    changed("ALTER TABLE t ADD b STRING")
    changed("DROP MASKING POLICY m ON t; CREATE POLICY p ON t TO ada USING (secret = 'x')")
    assert sees("SELECT a FROM t") == [(1,)]
    with pytest.raises(Forbidden, match="Row policy p"):
        sees("SELECT a FROM t VERSION AS OF 1")
    changed("DROP POLICY p ON t; REVOKE SELECT ON t FROM ada; GRANT SELECT (a, b) ON t TO ada")
    assert sees("SELECT * FROM t") == [(1, None), (2, None), (3, None)]
    assert sees("SELECT * FROM t VERSION AS OF 1") == [(1,), (2,)]


def test_a_masked_column_that_is_dropped_is_not_in_the_past_of_whom_it_was_masked_for(changed: Run, on_spark: Gateway, lake: Lake) -> None:
    token = user(lake, "ada")
    changed(
        "GRANT SELECT ON t TO ada; CREATE MASKING POLICY m ON t (b) TO ada USING (NULL); ALTER TABLE t DROP b; INSERT INTO t VALUES (3)"
    )

    def sees(text: str) -> list[tuple[object, ...]]:
        return sorted(on_spark.run(text, caller=lake.access.caller(token)).collect(), key=repr)

    assert sees("SELECT * FROM t") == [(1,), (2,), (3,)]
    assert sees("SELECT * FROM t VERSION AS OF 1") == [(1,), (2,)]
    for text in (
        "SELECT b FROM t VERSION AS OF 1",
        "SELECT max(b) FROM t VERSION AS OF 1",
        "SELECT a FROM t VERSION AS OF 1 WHERE b = 'x'",
    ):
        with pytest.raises(LakeError, match="b"):
            sees(text)
    assert sorted(changed("SELECT * FROM t VERSION AS OF 1")) == OLD
