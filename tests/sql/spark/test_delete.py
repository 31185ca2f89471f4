"""DELETE whose condition Spark decides: by the rows it would show, and nothing that is kept from the caller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from gateway.limits import GatewayLimits
from lake import Lake
from model.errors import AnalysisError, ResultTooLarge
from model.identifier import Identifier
from sql.spark.session.pool import SparkPool
from table.format.io.file_io import FileIO
from table.format.orc import Here, OrcPart, Wanted, decode_with, decode_without
from tests.lake.access.test_access import user
from tests.short import short
from tests.sql.spark.conftest import Run

ERASABLE = "'rows.erasable' = 'true'"


@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["parquet"]))
def test_subqueries_and_functions_choose_rows_by_their_places(run: Run, format_: str) -> None:
    options = f"'bucket' = '2', 'bucket-key' = 'id', 'file.format' = '{format_}', 'write-only' = 'true', {ERASABLE}"
    run(f"CREATE TABLE t (id INT, s STRING, ts TIMESTAMP(3), p STRING) PARTITIONED BY (p) WITH ({options})")
    run("CREATE TABLE gone (id INT)")
    run("INSERT INTO gone VALUES (3), (7), (NULL)")
    for n in range(2):
        rows = ((id_, p) for p in ("a", "ü b%20+") for id_ in range(10 * n, 10 * n + 10))
        values = (f"({id_}, 'name {id_}', TIMESTAMP '2024-01-01 00:00:{id_:02}', '{p}')" for id_, p in rows)
        run("INSERT INTO t VALUES " + ", ".join(values))
    assert run("DELETE FROM t x WHERE x.id IN (SELECT id FROM gone)")[0][0] == 4
    assert run("DELETE FROM t WHERE id NOT IN (SELECT id FROM gone)")[0][0] == 0
    assert run("DELETE FROM t WHERE upper(s) = 'NAME 5' AND p LIKE '%+'")[0][0] == 1
    assert run("DELETE FROM t WHERE extract(second FROM ts) >= 18")[0][0] == 4
    assert run("DELETE FROM t WHERE EXISTS (SELECT 1 FROM t y WHERE y.id = t.id + 16)")[0][0] == 4
    left = run("SELECT id, p FROM t")
    for p in ("a", "ü b%20+"):
        ids = {id_ for id_, of in left if of == p}
        assert ids == set(range(20)) - {0, 1, 3, 7, 18, 19} - (set() if p == "a" else {5})
    with pytest.raises(AnalysisError):
        run("DELETE FROM t WHERE no_such_column = 1")


class _Asked(Here):
    """Decodes ORC, and remembers which columns were asked for in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[Sequence[str] | None] = []

    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart:
        self.columns.append(wanted.columns)
        return super().part(io, path, wanted)


def test_rows_of_orc_files_are_found_by_the_executors(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, s STRING) WITH ('file.format' = 'orc', 'write-only' = 'true', {ERASABLE})")
    for first in (0, 10):
        run("INSERT INTO t VALUES " + ", ".join(f"({id_}, 'name {id_}')" for id_ in range(first, first + 10)))
    asked = _Asked()
    decode_with(asked)
    try:
        assert run("DELETE FROM t WHERE upper(s) = 'NAME 5' OR upper(s) = 'NAME 17'")[0][0] == 2
    finally:
        decode_without(asked)
    assert ["s"] not in asked.columns  # what the condition names; the files that change are written anew with all columns
    assert ["id", "s"] in asked.columns
    assert {id_ for (id_,) in run("SELECT id FROM t")} == set(range(20)) - {5, 17}


def test_rows_a_filter_hides_are_not_deleted(run: Run, on_spark: Gateway, lake: Lake) -> None:
    run(f"CREATE TABLE t (id INT, tenant STRING, secret STRING) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'a', 'y'), (4, NULL, 'x')")
    token = user(lake, "ada")
    run("GRANT SELECT (id, tenant), DELETE ON t TO ada")
    run("CREATE POLICY mine ON t TO ada USING (tenant = 'a')")
    ada = lake.access.caller(token)
    assert run("DELETE FROM t WHERE id < 3 OR tenant IS NULL", caller=ada, dry_run=True) == [("", 0, "", 0, 1, 0, True)]
    with pytest.raises(AnalysisError):
        run("DELETE FROM t WHERE secret = 'x'", caller=ada)
    assert run("DELETE FROM t WHERE id < 3 OR tenant IS NULL", caller=ada)[0][0] == 1
    assert sorted(run("SELECT id, secret FROM t")) == [(2, "x"), (3, "y"), (4, "x")]


def test_many_rows_are_found_through_the_spool(run: Run, lake: Lake, pool: SparkPool, warehouse: Path) -> None:
    run(f"CREATE TABLE t (id INT) WITH ('write-only' = 'true', 'target-file-size' = '1 mb', {ERASABLE})")
    for first in (0, 80_000):
        run(f"INSERT INTO t SELECT CAST(id AS INT) FROM range({first}, {first + 80_000})")
    spool = warehouse / ".sluice" / "spool"
    narrow = Gateway(lake, pool, limits=GatewayLimits(result_bytes=1000))
    narrow.start()
    try:
        with pytest.raises(ResultTooLarge):
            narrow.run("DELETE FROM t WHERE abs(id) % 3 > 0").close()
    finally:
        narrow.close()
    assert run("SELECT count(*) FROM t") == [(160_000,)]
    assert run("DELETE FROM t WHERE abs(id) % 3 > 0")[0][0] == 106_666
    assert run("SELECT count(*), sum(id) FROM t") == [(53_334, sum(range(0, 160_000, 3)))]
    assert list(spool.rglob("*.parquet")) == []


def test_explain_tells_what_is_read(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, s STRING) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'a')")
    run("INSERT INTO t VALUES (100, 'b')")
    ((text,),) = run("EXPLAIN DELETE FROM t WHERE id > 50")
    assert "files: 1 kept, 1 skipped, of 2" in text
    assert len(run("SELECT id FROM t")) == 2


def test_statistics_of_what_was_there_go_with_it(run: Run, lake: Lake) -> None:
    run(f"CREATE TABLE t (id INT) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1), (77)")
    run("CALL sys.analyze_table('t')")
    table = lake.open(Identifier("default", "t"))
    assert (analysed := table.latest()) is not None
    assert analysed.statistics is not None
    run("DELETE FROM t WHERE id = 77")
    assert (latest := table.latest()) is not None
    assert latest.statistics is None


def test_what_spark_finds_is_erased_from_tags_too(run: Run, lake: Lake) -> None:
    run(f"CREATE TABLE t (id INT, name STRING) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'ada'), (2, 'bob')")
    run("CALL sys.create_tag('t', 'first')")
    done = run("CALL sys.erase(`table` => 't', `where` => 'upper(name) = ''ADA''')")
    assert [row[:3] for row in done if row[0] in ("table", "tag")] == [("table", "default.t", 1), ("tag", "first", 1)]
    assert run("SELECT id FROM t") == [(2,)]
