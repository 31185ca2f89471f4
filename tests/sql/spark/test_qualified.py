"""Two tables of one name in two databases stay two, on Spark as well."""

from __future__ import annotations

import pytest

from model.errors import AnalysisError
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark


@pytest.fixture
def twins(run: Run) -> None:
    """``d1.t`` and ``d2.t``, one row of which matches."""
    for database, rows in (("d1", "(1, 'a'), (2, 'b'), (3, 'c')"), ("d2", "(2, 'two'), (9, 'nine')")):
        run(f"CREATE DATABASE {database}")
        run(f"CREATE TABLE {database}.t (id INT, s STRING) WITH ('rows.erasable' = 'true')")
        run(f"INSERT INTO {database}.t VALUES {rows}")


@pytest.mark.usefixtures("twins")
def test_a_table_of_the_same_name_is_another(run: Run) -> None:
    among = "(SELECT 1 FROM d2.t WHERE d2.t.id = d1.t.id)"
    assert run(f"SELECT t.id FROM d1.t WHERE EXISTS {among}") == [(2,)]
    assert run("SELECT d1.t.*, d2.t.s FROM d1.t JOIN d2.t ON d1.t.id = d2.t.id") == [(2, "b", "two")]
    with pytest.raises(AnalysisError, match="more than one table called t"):
        run("SELECT t.s FROM d1.t JOIN d2.t ON d1.t.id = d2.t.id")
    run("CREATE VIEW d1.v AS SELECT * FROM d1.t")
    run("CREATE VIEW d2.v AS SELECT * FROM d2.t")
    assert run("SELECT v.id FROM d1.v WHERE EXISTS (SELECT 1 FROM d2.v WHERE d2.v.id = d1.v.id)") == [(2,)]
    assert run("SELECT d1.v.id FROM d1.v WHERE EXISTS (SELECT 1 FROM d2.t AS v WHERE v.id = d1.v.id)") == [(2,)]

    assert run(f"UPDATE d1.t SET s = (SELECT MAX(d2.t.s) FROM d2.t WHERE d2.t.id = d1.t.id) WHERE EXISTS {among}")[0][0] == 1
    assert run("SELECT * FROM d1.t ORDER BY id") == [(1, "a"), (2, "two"), (3, "c")]
    found = "(SELECT 1 FROM d2.t WHERE d2.t.id = d1.t.id AND d2.t.s = t.s)"
    merge = f"MERGE INTO d1.t USING d2.t AS x ON x.id = d1.t.id AND EXISTS {found} WHEN MATCHED THEN UPDATE SET t.s = concat(d1.t.s, x.s)"
    assert run(merge)[0][0] == 1
    assert run(f"DELETE FROM d1.t WHERE NOT EXISTS {among}")[0][0] == 2
    assert run("SELECT * FROM d1.t") == [(2, "twotwo")]
    assert run(f"DELETE FROM d1.t WHERE EXISTS {among}")[0][0] == 1
    assert run("SELECT COUNT(*) FROM d1.t") == [(0,)]


@pytest.mark.usefixtures("twins")
def test_the_source_of_a_merge_answers_to_its_whole_name(run: Run) -> None:
    run("CREATE TABLE d2.u (id INT, s STRING)")
    run("INSERT INTO d2.u VALUES (3, 'x'), (7, 'y')")
    merge = "WHEN MATCHED THEN UPDATE SET s = d2.u.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (d2.u.id, d2.u.s)"
    assert run(f"MERGE INTO d1.t USING d2.u ON d2.u.id = d1.t.id {merge}")[0][0] == 2
    assert run("SELECT * FROM d1.t ORDER BY id") == [(1, "a"), (2, "b"), (3, "x"), (7, "y")]


@pytest.mark.usefixtures("twins")
def test_the_table_of_a_merge_answers_to_its_whole_name_where_the_source_has_no_row(run: Run) -> None:
    run("CREATE TABLE d2.u (id INT, s STRING)")
    run("INSERT INTO d2.u VALUES (-1, 'x')")
    merge = (
        "WHEN NOT MATCHED BY SOURCE AND d1.t.id = 1 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND d1.t.id > 1 THEN UPDATE SET s = d1.t.s || '!'"
    )
    before = run("SELECT * FROM d1.t WHERE id > 1 ORDER BY id")
    run(f"MERGE INTO d1.t USING d2.u ON d2.u.id = d1.t.id {merge}")
    assert run("SELECT * FROM d1.t ORDER BY id") == [(row[0], row[1] + "!") for row in before]
