"""File indexes through SQL: written by every writer, used by reads, made later, expired with their files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lake import Lake, LakeTable
from lake.commit.write_context import Write
from lake.rewrite import file_index
from model.access import WHOLE
from model.errors import InvalidOption
from model.identifier import Identifier
from sql.analysis.predicates import pushed
from sql.analysis.references import table_references
from sql.dialect import parse_one
from table.format.manifests.entries import ManifestEntry, NewFile
from table.index import skip
from table.scan.planning.entry_scan import plan_scan
from tests.fix_gateway import Ask
from tests.lake.register.damage import index_of_other_rows

Kept = Callable[[str], int]
OPTIONS = (
    "'bucket'='-1', 'file-index.in-manifest-threshold'='0 b', 'file-index.bloom-filter.columns'='id, at', "
    "'file-index.bloom-filter.id.items'='100', "
    "'file-index.bloom-filter.at.items'='100', 'file-index.bloom-filter.id.fpp'='0.001', 'file-index.bitmap.columns'='kind'"
)


@pytest.fixture
def kept(lake: Lake) -> Kept:
    """How many files of the table a condition leaves."""

    def count(condition: str) -> int:
        (reference,) = table_references(parse_one(f"SELECT * FROM t WHERE {condition}"))
        table = lake.open(Identifier("default", "t"))
        return len(plan_scan(table.files, table.schema, table.latest(), pushed(reference, table.schema, WHOLE)).files)

    return count


@pytest.fixture
def filled(ask: Ask) -> Ask:
    """Four files whose ranges overlap wholly, so that statistics leave none out."""
    ask(f"CREATE TABLE t (id BIGINT, kind STRING, at TIMESTAMP(3)) WITH ({OPTIONS})")
    for n in range(4):
        rows = [f"({i}, '{'even' if n % 2 else 'odd'}{n}', TIMESTAMP '2024-01-0{n + 1} 00:00:00')" for i in range(n, 400, 4)]
        ask("INSERT INTO t VALUES " + ", ".join([*rows, f"({1000 + n}, NULL, NULL)", f"({-1 - n}, 'zz', NULL)", f"({-9 - n}, 'aa', NULL)"]))
    return ask


def test_files_are_left_out(filled: Ask, kept: Kept) -> None:
    assert filled("SELECT id FROM t WHERE id = 7") == [(7,)]
    assert kept("id = 7") == 1
    assert kept("id IN (5, 6)") == 2
    assert kept("kind = 'odd2'") == 1
    assert kept("kind = 'odd2' AND id = 2") == 1
    assert kept("kind = 'odd2' OR kind = 'even1'") == 2
    assert kept("kind = 'zz'") == 4
    assert kept("id > 7") == 4
    assert len(filled("SELECT id FROM t WHERE kind IS NULL")) == 4


def test_an_index_that_cannot_be_read_leaves_it_to_the_others(ask: Ask, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more values than are gone through, or damaged: neither the column's other index nor those of other columns are silent."""
    monkeypatch.setattr(skip, "_MOST_VALUES", 3)
    ask(
        "CREATE TABLE t (id BIGINT, kind STRING, n INT) WITH ('bucket' = '-1', 'write-only' = 'true', "
        "'file-index.bitmap.columns' = 'id, kind, n', 'file-index.bitmap.id.version' = '1', 'file-index.bitmap.n.version' = '1', "
        "'file-index.bloom-filter.columns' = 'id', 'file-index.bloom-filter.id.fpp' = '0.0001', 'file-index.range-bitmap.columns' = 'n')"
    )
    for first in (0, 1, 2):
        ask("INSERT INTO t VALUES " + ", ".join(f"({n}, 'k{first}', {n})" for n in range(first, 300, 3)))
    assert kept("kind = 'k1'") == 1
    assert kept("id = 151") == kept("n = 151") == 1  # by the bloom filter and the range bitmap
    for condition in ("id = 151 AND kind = 'k1'", "kind = 'k1' AND id IN (151, 152)", "kind = 'k1' AND id IS NOT NULL"):
        assert kept(condition) == 1
        assert ask(f"SELECT id FROM t WHERE id = 151 AND {condition}") == [(151,)]


def test_a_range_bitmap_leaves_out_files_by_ranges(ask: Ask, kept: Kept) -> None:
    """Two clusters of values far apart in each file, so that its least and greatest value say nothing."""
    ask(
        "CREATE TABLE t (n BIGINT, price DECIMAL(8, 2), name STRING) WITH ('bucket' = '-1', 'write-only' = 'true', "
        "'file-index.range-bitmap.columns' = 'n, price, name', 'file-index.range-bitmap.n.chunk-size' = '16 b')"
    )
    for first in (0, 10, 20):
        values = [f"({n}, {n}.25, 'n{n:05}')" for at in (first, 1000 + first) for n in range(at, at + 5)]
        ask("INSERT INTO t VALUES " + ", ".join([*values, "(NULL, NULL, NULL)"]))
    for condition, files, rows in (
        ("n > 6 AND n < 1000", 2, 10),
        ("n BETWEEN 12 AND 19", 1, 3),
        ("n >= 1024", 1, 1),
        ("n = 13", 1, 1),
        ("n IN (3, 7)", 1, 1),
        ("n > 30 AND n < 900", 0, 0),
        ("price > 24.25 AND price <= 1000.25", 1, 1),
        ("name >= 'n00021' AND name < 'n00900'", 1, 4),
        ("n IS NULL", 3, 3),
        ("n > 30 AND n < 900 AND name IS NOT NULL", 0, 0),
        ("n < 0 OR n BETWEEN 5 AND 9", 0, 0),
    ):
        assert kept(condition) == files, condition
        assert len(ask(f"SELECT n FROM t WHERE {condition}")) == rows, condition
    assert {kind for (kind,) in ask("SELECT index_type FROM t$file_indexes")} == {"range-bitmap"}
    ask("ALTER TABLE t RENAME n TO m")
    assert kept("m BETWEEN 12 AND 19") == 1
    assert sorted(ask("SELECT m FROM t WHERE m BETWEEN 12 AND 13")) == [(12,), (13,)]
    ask("CALL sys.compact(`table` => 't', compact_strategy => 'full')")
    assert kept("m > 30 AND m < 900") == 0


def test_indexes_are_shown(filled: Ask) -> None:
    shown = sorted(filled("SELECT column_name, index_type, storage_type, is_empty FROM t$file_indexes"))
    assert shown == [
        (c, k, "FILE", False) for c, k in (("at", "bloom-filter"), ("id", "bloom-filter"), ("kind", "bitmap")) for _ in range(4)
    ]


def test_compaction_writes_them_and_expiry_removes_them(filled: Ask, warehouse: Path, kept: Kept) -> None:
    assert len(list(warehouse.rglob("*.index"))) == 4
    filled("CALL sys.compact(`table` => 't', compact_strategy => 'full')")
    assert kept("id = 399") == 1
    assert kept("id = 5000") == 0
    filled("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert len(list(warehouse.rglob("*.index"))) == 1
    assert sorted(id_ for (id_,) in filled("SELECT id FROM t")) == [*range(-12, -8), *range(-4, 400), *range(1000, 1004)]


def test_the_second_place_is_flinks_partitions_or_sparks_condition(ask: Ask) -> None:
    ask("CREATE TABLE t (id BIGINT, dt STRING, h INT) PARTITIONED BY (dt, h)")
    ask("INSERT INTO t VALUES (1, '2026-01-01', 1), (2, '2026-01-01', 2), (3, '2026-01-02', 1)")
    ask("ALTER TABLE t SET ('file-index.bloom-filter.columns'='id')")
    for place, count in (
        ("dt=2026-01-01,h=2", 1), ("dt=2026-01-01", 2), ("dt=2026-01-01,h=2;h=1", 3), ("h = 1", 2), ("h=1", 2), ("dt > ''2026-01-01''", 1),
        ("h=1 OR h=2", 3),
    ):  # fmt: skip
        assert ask(f"CALL sys.rewrite_file_index('t', '{place}')")[0][:2] == (count, count), place


def test_indexes_come_later_and_go(ask: Ask, warehouse: Path, kept: Kept) -> None:
    ask("CREATE TABLE t (id BIGINT, note STRING)")
    for n in range(3):
        ask(f"INSERT INTO t VALUES ({n}, 'x'), ({n + 10}, NULL)")
    ask("ALTER TABLE t RENAME note TO remark")
    ask("ALTER TABLE t SET ('file-index.bloom-filter.columns'='id', 'file-index.bloom-filter.id.items'='10')")
    assert kept("id = 5") == 3
    assert ask("CALL sys.rewrite_file_index(`table` => 't', dry_run => true)")[0][:2] == (1, 3)
    assert ask("SELECT * FROM t$file_indexes") == []
    assert ask("CALL sys.rewrite_file_index('t')")[0][:2] == (1, 3)
    assert ask("SELECT storage_type FROM t$file_indexes") == [("EMBEDDED",)] * 3
    assert kept("id = 5") == 0
    ask("ALTER TABLE t SET ('file-index.in-manifest-threshold'='0 b')")
    ask("CALL sys.rewrite_file_index('t')")
    assert len(list(warehouse.rglob("*.index"))) == 3
    ask("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert ask("SELECT id FROM t") == [(0,), (10,), (1,), (11,), (2,), (12,)]
    ask("ALTER TABLE t RENAME id TO number")
    assert kept("number = 5") == 0
    ask("ALTER TABLE t RESET ('file-index.bloom-filter.columns', 'file-index.bloom-filter.number.items')")
    assert ask("CALL sys.rewrite_file_index('t')")[0][:2] == (1, 3)
    ask("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert list(warehouse.rglob("*.index")) == []
    assert len(ask("SELECT * FROM t")) == 6


def test_a_rollback_keeps_the_rows(ask: Ask, warehouse: Path) -> None:
    ask("CREATE TABLE t (id BIGINT) WITH ('file-index.in-manifest-threshold'='0 b')")
    ask("INSERT INTO t VALUES (1), (2)")
    ask("ALTER TABLE t SET ('file-index.bloom-filter.columns'='id', 'file-index.bloom-filter.id.items'='10')")
    ask("CALL sys.rewrite_file_index('t')")
    ask("CALL sys.rollback_to('t', 1)")
    assert ask("SELECT id FROM t") == [(1,), (2,)]
    assert list(warehouse.rglob("*.index")) == []


def test_an_index_that_is_gone_or_broken_hides_nothing(filled: Ask, warehouse: Path) -> None:
    from table.index.skip import _READ

    first, second, *_ = sorted(warehouse.rglob("*.index"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:40])
    _READ.clear()
    assert sorted(filled("SELECT id FROM t WHERE id IN (4, 5, 6, 7)")) == [(4,), (5,), (6,), (7,)]


def test_an_index_in_the_place_of_another_hides_nothing(filled: Ask, warehouse: Path) -> None:
    from table.index.skip import _READ

    indexes = sorted(warehouse.rglob("*.index"))
    contents = [index.read_bytes() for index in indexes]
    for index, content in zip(indexes, contents[1:] + contents[:1], strict=True):
        index.write_bytes(content)
    _READ.clear()
    assert filled("SELECT id FROM t WHERE id = 5") == [(5,)]
    assert filled("CALL sys.check_table('t')") == []
    told = filled("CALL sys.check_table('t', deep => true)")
    assert {(row[3], "is another file's index; CALL sys.rewrite_file_index(" in str(row[5])) for row in told} == {
        (str(i), True) for i in indexes
    }
    assert filled("CALL sys.remove_unexisting_files('t', deep => true)") == []
    filled("CALL sys.rewrite_file_index('t')")
    filled("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert filled("CALL sys.check_table('t', deep => true)") == []
    assert filled("SELECT id FROM t WHERE id = 5") == [(5,)]


@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap"])
@pytest.mark.parametrize("told", [("one", "two", None), ("one", "two", "three"), ("one", "one", "thirty")], ids=str)
def test_an_index_that_leaves_out_rows_is_found(ask: Ask, lake: Lake, kind: str, told: tuple[str | None, ...]) -> None:
    """As whoever writes files of a table may: it is well formed, and queries believe it."""
    ask(f"CREATE TABLE t (id INT, word STRING) WITH ('file-index.{kind}.columns' = 'word', 'file-index.in-manifest-threshold' = '0 b')")
    ask("INSERT INTO t VALUES (1, 'one'), (2, 'thirty'), (3, NULL)")
    assert ask("CALL sys.check_table('t', deep => true)") == []
    path = index_of_other_rows(lake.open(Identifier("default", "t")), word=list(told))
    if "thirty" not in told or kind != "bloom-filter":
        ((file, problem),) = [(row[3], row[5]) for row in ask("CALL sys.check_table('t', deep => true)")]
        assert file == path
        assert problem.startswith(f"has a {kind} index of column word that leaves out rows"), problem
        assert ask("CALL sys.remove_unexisting_files('t', deep => true)") == [], "its rows can be read"
    ask("CALL sys.rewrite_file_index('t')")
    ask("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert ask("CALL sys.check_table('t', deep => true)") == []
    assert ask("SELECT id FROM t WHERE word = 'thirty'") == [(2,)]


def test_rows_whose_index_is_lost_stay(filled: Ask, warehouse: Path) -> None:
    lost = sorted(warehouse.rglob("*.index"))[0]
    lost.unlink()
    before = sorted(filled("SELECT id FROM t"))
    ((path, problem),) = [(row[3], row[5]) for row in filled("CALL sys.check_table('t')")]
    assert (path, problem) == (str(lost), "is missing; CALL sys.rewrite_file_index('default.t') makes it anew")
    filled("CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert sorted(filled("SELECT id FROM t")) == before
    filled("CALL sys.rewrite_file_index('t')")
    filled("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert filled("CALL sys.check_table('t')") == []
    assert sorted(filled("SELECT id FROM t")) == before


def test_a_column_with_an_index_is_not_dropped(filled: Ask) -> None:
    with pytest.raises(InvalidOption, match="there is no column kind"):
        filled("ALTER TABLE t DROP (kind)")


def test_a_queue_keeps_its_order_whichever_index_is_made_first(ask: Ask, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """pypaimon reads files as manifests name them."""
    ask("CREATE TABLE q (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id', 'write-only' = 'true')")
    for row in range(4):
        ask(f"INSERT INTO q VALUES ({row})")
    ask("ALTER TABLE q SET ('file-index.bloom-filter.columns' = 'id')")
    table = lake.open(Identifier("default", "q"))
    made = file_index._indexed

    def slower(opened: LakeTable, write: Write, entry: ManifestEntry) -> NewFile:
        time.sleep(0.2 if entry.file.min_sequence_number == 0 else 0)
        return made(opened, write, entry)

    monkeypatch.setattr(file_index, "_indexed", slower)
    ask("CALL sys.rewrite_file_index('q')")
    numbers = [entry.file.min_sequence_number for entry in table.files.live_entries(table.latest())]
    assert numbers == [0, 1, 2, 3]
