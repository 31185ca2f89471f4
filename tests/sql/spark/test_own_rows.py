"""INSERT OVERWRITE by a query of the table it replaces, beside other writers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.gateway import Gateway
from model.errors import RewriteConflict
from sql.statements import insert


def test_it_runs_anew_until_nobody_wrote_meanwhile(on_spark: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(text: str) -> list[tuple[object, ...]]:
        with on_spark.run(text) as result:
            return result.collect()

    looked, asked = insert.write_query, []

    def interrupted(*meanwhile: str) -> Callable[..., object]:
        left = list(meanwhile)

        def write_query(*arguments: object) -> object:
            seen = looked(*arguments)  # type: ignore[arg-type]
            asked.append(seen)
            if left:
                ask(left.pop(0))
            return seen

        return write_query

    def overwritten(text: str, *meanwhile: str) -> list[object]:
        asked.clear()
        monkeypatch.setattr(insert, "write_query", interrupted(*meanwhile))
        ask(text)
        return sorted(row[0] for row in ask("SELECT id FROM t"))  # type: ignore[type-var]

    ask("CREATE TABLE t (id INT) WITH ('bucket' = '-1', 'rows.erasable' = 'true')")
    ask("INSERT INTO t VALUES (1), (2)")
    ask("CREATE VIEW v AS SELECT id FROM t")
    ask("CREATE VIEW vro AS SELECT id FROM t$ro")
    ask("CREATE TABLE other (id INT)")
    assert overwritten("INSERT OVERWRITE t SELECT id + 10 FROM t", "INSERT INTO t VALUES (3)") == [11, 12, 13]
    assert len(asked) == 2
    text = "EXECUTE STATEMENT SET BEGIN INSERT OVERWRITE t SELECT id + 10 FROM v; INSERT INTO other SELECT id FROM v; END"
    assert overwritten(text, "DELETE FROM t WHERE id = 12") == [21, 23]
    assert len(asked) == 4, "both of the set, twice"
    assert sorted(ask("SELECT id FROM other")) == [(21 - 10,), (23 - 10,)]
    # Rows that it does not read are replaced, whoever wrote them, and so are others than those of the moment that it names.
    assert overwritten("INSERT OVERWRITE t SELECT id FROM other", "INSERT INTO t VALUES (3)") == [11, 13]
    assert overwritten("INSERT OVERWRITE t SELECT id FROM t VERSION AS OF 1", "INSERT INTO t VALUES (3)") == [1, 2]
    hint = "INSERT OVERWRITE t SELECT id FROM t /*+ OPTIONS('incremental-between' = '0,1') */"
    assert overwritten(hint, "INSERT INTO t VALUES (3)") == [1, 2]
    ask("ALTER TABLE t SET ('scan.snapshot-id' = '1')")
    asked.clear()
    monkeypatch.setattr(insert, "write_query", interrupted("INSERT INTO t VALUES (3)"))
    ask("INSERT OVERWRITE t SELECT id + 1 FROM t")
    assert len(asked) == 1
    ask("ALTER TABLE t RESET ('scan.snapshot-id')")
    now = "INSERT OVERWRITE t SELECT id FROM t /*+ OPTIONS('scan.mode' = 'latest') */"
    assert overwritten(now, "INSERT INTO t VALUES (4)") == [2, 3, 4]
    # What shows the table's own rows reads them, too.
    for words in ("id + 10 FROM t$ro", "id + 10 FROM t$audit_log", "id[0] + 10 FROM t$binlog", "id + 10 FROM vro"):
        ask("TRUNCATE TABLE t")
        ask("INSERT INTO t VALUES (1), (2)")
        assert overwritten(f"INSERT OVERWRITE t SELECT {words}", "INSERT INTO t VALUES (3)") == [11, 12, 13], words
    hint = "INSERT OVERWRITE t SELECT id FROM t$ro /*+ OPTIONS('scan.snapshot-id' = '1') */"
    assert overwritten(hint, "INSERT INTO t VALUES (3)") == [1, 2]
    ask("TRUNCATE TABLE t")
    ask("INSERT INTO t VALUES (1), (2), (3)")
    with pytest.raises(RewriteConflict, match=r"during each of 5 runs\. Nothing was changed"):
        overwritten("INSERT OVERWRITE t SELECT id FROM t", *(f"INSERT INTO t VALUES ({number})" for number in range(5)))
    assert len(ask("SELECT id FROM t")) == 8
