"""Changing rows beside other writers: no update is lost, nothing doubled, and nothing that an ALTER added falls away."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.change_rows import Changes, Find, change_rows, deletion_of
from lake.rewrite.compaction import compact, plan
from lake.rewrite.rescale import outgrown, rescale
from model.catalog_errors import TableChanged
from model.errors import RewriteConflict, StatementCanceled, Unavailable
from model.predicate import Compare, Op
from model.schema.change import AddColumn, SetOption
from model.schema.types import IntType
from model.snapshot import Operation, Snapshot
from table.format.manifests.entries import ManifestFile
from table.format.store import TableFiles
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import read_batches
from table.write.copy_on_write import FileChange
from tests.fix_gateway import Ask
from tests.lake.rewrite.test_compaction import append, commit_tied, rows
from tests.short import short
from tests.sql.tables import make_table

LAYOUTS = {"no buckets": {"bucket": "-1"}, "a queue": {"bucket": "1", "bucket-key": "id"}, "buckets": {"bucket": "3", "bucket-key": "id"}}
MERGED_AT_ONCE = {"bucket": "-1", "compaction.min.file-num": "2"}


def raised(number: int) -> Find:
    """``UPDATE … SET v = v + 1 WHERE id = number``."""

    def change_of(table: LakeTable, file: PlannedFile) -> FileChange:
        all_rows = pa.Table.from_batches(list(read_batches(table.files, table.schema, [file])))
        at = np.flatnonzero(all_rows.column("id").to_numpy() == number)
        values = pa.array([value + 1 for value in all_rows.column("v").take(pa.array(at)).to_pylist()], pa.int32())
        return FileChange(updated=at, values=lambda: iter([pa.RecordBatch.from_arrays([values], names=["v"])]))

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        return Changes(files=[(file, change_of(table, file)) for file in plan_scan(table.files, table.schema, snapshot).files])

    return find


def after_the_first(find: Find, happens: Callable[[], object]) -> Find:
    """Lets something happen once, between the look at the rows and the commit."""
    calls: list[int] = []

    def found(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        changes = find(table, snapshot)
        calls.append(1)
        if len(calls) == 1:
            happens()
        return changes

    return found


@pytest.mark.parametrize("layout", short(LAYOUTS, ["no buckets"]))
def test_no_update_is_lost_and_every_writer_has_its_turn(catalog: CatalogStore, lake: Lake, warehouse: Path, layout: str) -> None:
    """Two servers' threads raise the same numbers, while rows come and files are merged."""
    table = make_table(lake, options=LAYOUTS[layout], id="INT", v="INT")
    append(lake, table, range(4), v=[0] * 4)
    append(lake, table, range(4, 8), v=[0] * 4)
    other = Lake(catalog, str(warehouse))
    times, writers = 3, 4
    appended, over = [100], threading.Event()

    def raises(writer: int) -> list[int]:
        rng, of = random.Random(writer), (lake, other)[writer % 2]
        numbers = [rng.choice((1, 2, 5)) for _ in range(times)]
        for number in numbers:
            assert change_rows(of, of.open(table.identifier), raised(number), operation=Operation.UPDATE).rows == 1
        return numbers

    def appends() -> None:
        while not over.is_set():
            append(lake, lake.open(table.identifier), [appended[0]], v=[0])
            appended[0] += 1

    def merges() -> None:
        while not over.is_set():
            opened = other.open(table.identifier)
            compact(other.commit, opened, plan(opened, full=True))

    with ThreadPoolExecutor(writers + 2) as threads:
        beside = [threads.submit(appends), threads.submit(merges)]
        try:
            raising = [threads.submit(raises, writer) for writer in range(writers)]
            done = [number for future in raising for number in future.result()]
        finally:
            over.set()
        for future in beside:
            future.result()
    other.close()
    found = rows(lake.open(table.identifier))
    assert sorted(row["id"] for row in found) == [*range(8), *range(100, appended[0])]
    assert {row["id"]: row["v"] for row in found if row["id"] < 100} == {number: done.count(number) for number in range(8)}


@pytest.fixture
def stale(lake: Lake) -> LakeTable:
    """A table as it was opened before a column was added and filled."""
    table = make_table(lake, options=MERGED_AT_ONCE, id="INT", v="INT")
    append(lake, table, [1, 2], v=[0, 0])
    lake.alter_table(table.identifier, [AddColumn(name="more", type=IntType())])
    append(lake, lake.open(table.identifier), [3, 4], v=[0, 0], more=[30, 40])
    return table


def more(lake: Lake, table: LakeTable) -> list[tuple[int, int | None]]:
    return [(row["id"], row["more"]) for row in rows(lake.open(table.identifier))]


def test_an_older_schema_merges_no_file_of_a_newer_one(lake: Lake, stale: LakeTable) -> None:
    assert compact(lake.commit, stale, plan(stale, full=True)).conflicts == 1
    assert more(lake, stale) == [(1, None), (2, None), (3, 30), (4, 40)]
    fresh = lake.open(stale.identifier)
    assert compact(lake.commit, fresh, plan(fresh, full=True)).files_before == 2
    assert more(lake, stale) == [(1, None), (2, None), (3, 30), (4, 40)]


def test_an_older_schema_changes_no_row_of_a_newer_one(lake: Lake, stale: LakeTable) -> None:
    with pytest.raises(TableChanged, match="was changed while rows were being written; nothing was committed"):
        change_rows(lake, stale, raised(3), operation=Operation.UPDATE)
    assert more(lake, stale) == [(1, None), (2, None), (3, 30), (4, 40)]
    assert change_rows(lake, lake.open(stale.identifier), raised(3), operation=Operation.UPDATE).rows == 1
    assert more(lake, stale) == [(1, None), (2, None), (3, 30), (4, 40)]


def test_an_older_schema_rescales_no_partition_of_a_newer_one(lake: Lake) -> None:
    table = make_table(lake, options={"bucket": "1", "bucket-key": "id"}, id="INT", v="INT")
    append(lake, table, [1], v=[0])
    lake.alter_table(table.identifier, [SetOption(key="bucket", value="2")])
    stale = lake.open(table.identifier)
    lake.alter_table(table.identifier, [SetOption(key="bucket", value="1")])
    lake.alter_table(table.identifier, [AddColumn(name="more", type=IntType())])
    append(lake, lake.open(table.identifier), [2], v=[0], more=[20])
    lake.alter_table(table.identifier, [SetOption(key="bucket", value="2")])
    (partition,) = outgrown(stale, stale.latest())
    with pytest.raises(RewriteConflict):
        rescale(lake, stale, partition, check=lambda: None)
    assert more(lake, table) == [(1, None), (2, 20)]


def test_an_alter_between_two_looks_ends_the_statement(lake: Lake) -> None:
    """The first look finds what a compaction takes away, the second one rows of a column it knows nothing of."""
    table = make_table(lake, options=MERGED_AT_ONCE, id="INT", v="INT")
    append(lake, table, [1, 2], v=[0, 0])

    def altered_and_merged() -> None:
        lake.alter_table(table.identifier, [AddColumn(name="more", type=IntType())])
        append(lake, lake.open(table.identifier), [3], v=[0], more=[30])
        fresh = lake.open(table.identifier)
        assert compact(lake.commit, fresh, plan(fresh, full=True)).files_before == 2

    with pytest.raises(TableChanged):
        change_rows(lake, lake.open(table.identifier), after_the_first(raised(1), altered_and_merged), operation=Operation.UPDATE)
    assert more(lake, table) == [(1, None), (2, None), (3, 30)]


def test_an_alter_alone_does_not_stop_it(lake: Lake) -> None:
    """Files keep the schema they were written with."""
    table = make_table(lake, options=LAYOUTS["a queue"], id="INT", v="INT")
    append(lake, table, [1, 2], v=[0, 0])

    def altered() -> None:
        lake.alter_table(table.identifier, [AddColumn(name="more", type=IntType())])
        append(lake, lake.open(table.identifier), [3], v=[0], more=[30])

    change_rows(lake, lake.open(table.identifier), after_the_first(raised(1), altered), operation=Operation.UPDATE)
    assert [(row["id"], row["v"], row["more"]) for row in rows(lake.open(table.identifier))] == [(1, 1, None), (2, 0, None), (3, 0, 30)]


def test_later_changes_and_compaction_stand_behind_one_that_lost(lake: Lake) -> None:
    table = make_table(lake, options=LAYOUTS["a queue"], id="INT", v="INT")
    append(lake, table, [1, 2], v=[0, 0])
    place, done = (table.table_id, "main"), threading.Event()

    def raises() -> None:
        change_rows(lake, lake.open(table.identifier), raised(1), operation=Operation.UPDATE)
        done.set()

    with ThreadPoolExecutor(1) as threads:
        with lake.changing_rows.turn(place, lambda: None):
            running = threads.submit(raises)
            assert not done.wait(1)
            assert lake.changing_rows.somebody(place)
        running.result()
    assert not lake.changing_rows.somebody(place)
    assert [row["v"] for row in rows(table)] == [1, 0]


def test_appends_of_pypaimon_meanwhile_make_no_change_look_again(lake: Lake) -> None:
    """They bear the number that the queue ends with, and come as often as the change looks."""
    table = make_table(lake, options=LAYOUTS["a queue"], id="INT")
    commit_tied(lake, table, [0, 1])
    looks, written = [0], [2]

    def emptied(opened: LakeTable, snapshot: Snapshot | None) -> Changes:
        """``DELETE … WHERE id = the first of all``."""
        looks[0] += 1
        file = plan_scan(opened.files, opened.schema, snapshot).files[0]
        commit_tied(lake, opened, [written[0], written[0] + 1])
        written[0] += 2
        return deletion_of([(file, np.array([0]))], whole=False)

    for done in range(1, 6):
        assert change_rows(lake, lake.open(table.identifier), emptied).rows == 1
        assert looks == [done]
        assert [row["id"] for row in rows(table)] == list(range(done, written[0]))


@pytest.mark.parametrize("call", ["compact('{t}')", "compact_database(including_tables => '{t}')"])
def test_a_compaction_that_is_called_for_lets_waiting_changes_first(ask: Ask, lake: Lake, call: str) -> None:
    table = make_table(lake, options=LAYOUTS["a queue"], id="INT", v="INT")
    for number in range(3):
        append(lake, table, [number], v=[0])
    place, passed = (table.table_id, "main"), threading.Event()

    def compacts() -> None:
        ask(f"CALL sys.{call.format(t=table.identifier.table)}")
        passed.set()

    with ThreadPoolExecutor(1) as threads:
        with lake.changing_rows.turn(place, lambda: None):
            running = threads.submit(compacts)
            assert not passed.wait(0.5)
            assert len(list(table.files.live_entries(table.latest()))) == 3
        running.result()
    assert len(list(table.files.live_entries(table.latest()))) == 1


def test_a_statement_that_is_not_wanted_any_more_leaves_the_line(lake: Lake) -> None:
    table = make_table(lake, options=LAYOUTS["a queue"], id="INT", v="INT")

    def cancelled() -> None:
        raise StatementCanceled("enough")

    with lake.changing_rows.turn((table.table_id, "main"), lambda: None), pytest.raises(StatementCanceled):
        change_rows(lake, table, raised(1), check=cancelled)
    assert not lake.changing_rows.somebody((table.table_id, "main"))


def given(new: int, *, where: int) -> Find:
    """``UPDATE … SET v = new WHERE v = where``, which goes by the values alone."""

    def change_of(table: LakeTable, file: PlannedFile) -> FileChange:
        values = np.concatenate([batch.column("v").to_numpy() for batch in read_batches(table.files, table.schema, [file])])
        at = np.flatnonzero(values == where)
        batch = pa.RecordBatch.from_arrays([pa.array([new] * len(at), pa.int32())], names=["v"])
        return FileChange(updated=at, values=lambda: iter([batch]))

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        predicate = Compare("v", Op.EQ, where)
        files = [(file, change_of(table, file)) for file in plan_scan(table.files, table.schema, snapshot, predicate).files]
        return Changes(files=files, predicate=predicate, whole=False)

    return find


def values(lake: Lake, table: LakeTable) -> list[int]:
    return [row["v"] for row in rows(lake.open(table.identifier))]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_changes_of_other_files_are_as_one_after_another(catalog: CatalogStore, lake: Lake, warehouse: Path, layout: str) -> None:
    """Where neither saw the other's rows, 1 and 2 would change places."""
    table = make_table(lake, options=LAYOUTS[layout], id="INT", v="INT")
    append(lake, table, [1], v=[1])
    append(lake, table, [2], v=[2])
    other = Lake(catalog, str(warehouse))

    def meanwhile() -> None:
        assert change_rows(other, other.open(table.identifier), given(1, where=2), operation=Operation.UPDATE).rows == 1

    assert change_rows(lake, table, after_the_first(given(2, where=1), meanwhile), operation=Operation.UPDATE).rows == 2
    assert values(lake, table) == [2, 2]
    other.close()


def test_a_change_of_rows_that_do_not_matter_is_passed(lake: Lake) -> None:
    """The statistics of what was written tell that no row of it matches."""
    table = make_table(lake, options=LAYOUTS["no buckets"], id="INT", v="INT")
    append(lake, table, [1], v=[1])
    append(lake, table, [2], v=[5])
    looks: list[int] = []

    def find(opened: LakeTable, snapshot: Snapshot | None) -> Changes:
        looks.append(1)
        return given(2, where=1)(opened, snapshot)

    def meanwhile() -> None:
        change_rows(lake, lake.open(table.identifier), given(7, where=5), operation=Operation.UPDATE)
        append(lake, lake.open(table.identifier), [3], v=[1])

    assert change_rows(lake, table, after_the_first(find, meanwhile), operation=Operation.UPDATE).rows == 1
    assert (sorted(values(lake, table)), len(looks)) == ([1, 2, 7], 1), "the appended row counts as one that came afterwards"


def test_a_change_that_reads_the_whole_table_looks_again(lake: Lake) -> None:
    """As a MERGE that finds no row, and inserts: rows that went meanwhile matter to it."""
    table = make_table(lake, options=LAYOUTS["no buckets"], id="INT", v="INT")
    append(lake, table, [1], v=[1])
    append(lake, table, [2], v=[5])

    def find(opened: LakeTable, snapshot: Snapshot | None) -> Changes:
        most = max((row["v"] for row in rows(opened)), default=0)
        batch = pa.RecordBatch.from_pydict({"id": [9], "v": [most]}, schema=pa.schema([("id", pa.int32()), ("v", pa.int32())]))
        return Changes(inserted=lambda: iter([batch]), inserted_rows=1)

    def meanwhile() -> None:
        everything_of = plan_scan(table.files, table.schema, lake.open(table.identifier).latest(), Compare("v", Op.EQ, 5)).files
        gone = [(file, np.array([0], np.int64)) for file in everything_of]
        change_rows(lake, lake.open(table.identifier), lambda *_: deletion_of(gone))

    change_rows(lake, table, after_the_first(find, meanwhile), operation=Operation.MERGE)
    assert sorted(values(lake, table)) == [1, 1]


def test_a_rollback_between_look_and_decision_lets_it_look_again(lake: Lake) -> None:
    """The file that it found is there before and after; another one has rows again that match."""
    table = make_table(lake, options=LAYOUTS["no buckets"], id="INT", v="INT")
    append(lake, table, [1], v=[3])
    append(lake, table, [2], v=[3])
    change_rows(lake, lake.open(table.identifier), raised(2), operation=Operation.UPDATE)

    def meanwhile() -> None:
        assert lake.history.rollback_to_snapshot(lake.open(table.identifier), 2)

    find = after_the_first(given(8, where=3), meanwhile)
    assert change_rows(lake, lake.open(table.identifier), find, operation=Operation.UPDATE).rows == 2
    assert values(lake, table) == [8, 8]


def test_what_cannot_be_read_once_a_change_is_decided_fails_nothing(
    catalog: CatalogStore, lake: Lake, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that it failed sends it again: the row would be raised twice."""
    decided: list[str] = []
    table = make_table(lake, options=LAYOUTS["a queue"], id="INT", v="INT")
    append(lake, table, range(4), v=[0] * 4)
    read = TableFiles.manifests_of

    def failing(files: TableFiles, snapshot: Snapshot) -> list[ManifestFile]:
        if decided:
            raise Unavailable("The store is away.")
        return read(files, snapshot)

    other = Lake(catalog, str(warehouse), hook=lambda step: decided.append(step) if step == "decided" else None)
    with monkeypatch.context() as away:
        away.setattr(TableFiles, "manifests_of", failing)
        assert change_rows(other, other.open(table.identifier), raised(2), operation=Operation.UPDATE).rows == 1
    other.close()
    assert decided
    assert [row["v"] for row in rows(lake.open(table.identifier))] == [0, 0, 1, 0]


def test_a_slow_change_gets_its_turn_beside_quick_ones_of_another_server(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    """It looks for so long that without a line another one always comes first."""
    table = make_table(lake, options=LAYOUTS["no buckets"], id="INT", v="INT")
    append(lake, table, [1, 2], v=[0, 0])
    other, over = Lake(catalog, str(warehouse)), threading.Event()
    looks: list[int] = []

    def slow(opened: LakeTable, snapshot: Snapshot | None) -> Changes:
        changes = raised(1)(opened, snapshot)
        looks.append(1)
        for _ in range(200):  # until somebody has come first, or nobody does
            if over.wait(0.01) or lake.open(table.identifier).latest() != snapshot:
                break
        return changes

    def quick() -> int:
        done = 0
        while not over.is_set():
            done += change_rows(other, other.open(table.identifier), raised(2), operation=Operation.UPDATE).rows
        return done

    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(quick)
        try:
            assert change_rows(lake, table, slow, operation=Operation.UPDATE).rows == 1
        finally:
            over.set()
        quickly = beside.result()
    other.close()
    assert values(lake, table) == [1, quickly]
    assert len(looks) < 6, "it stood in line from its first loss on"
