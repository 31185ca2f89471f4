"""CALL sys.remove_unexisting_files against disks that fail, lost answers and writers that are faster."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog import CatalogStore, CatalogTransaction
from catalog.commits.reservations import Client
from catalog.objects.tables import TableRepository
from lake import Lake, LakeTable
from lake.commit.core import Prepared
from lake.register.looks.faults import Fault
from lake.register.looks.file_faults import fault_of_entry
from lake.register.lost import remove_unexisting_files
from model.errors import OutcomeUnknown, ResultTooLarge, Unavailable
from model.identifier import MAIN_BRANCH
from model.schema.change import AddColumn
from model.schema.schema import column, new_schema
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from tests.lake.commit.test_faults import T, insert, rows
from workers.orc import OrcProcesses
from workers.pool import WorkerLimits


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    """One with four snapshots that has lost the file of its second INSERT."""
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "-1"}))
    for number in (1, 2, 3, 4):
        insert(lake, number)
    table = lake.open(T)
    entries = sorted(table.files.live_entries(table.latest()), key=lambda entry: entry.file.min_sequence_number)
    Path(table.files.data_path(table.schema, entries[1])).unlink()
    return table


@pytest.fixture
def other(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()


def mend(lake: Lake) -> Sequence[Fault]:
    return remove_unexisting_files(lake, lake.open(T), dry_run=False, deep=False, threads=2, check=lambda: None)


@pytest.mark.parametrize("deep", [True, False])
def test_a_file_is_not_lost_because_postgres_is_away(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, deep: bool) -> None:
    """Its schema is an older one, which the catalog tells: without it a whole file counted as lost, and its rows went."""
    lake.alter_table(T, [AddColumn(name="more", type=column("more", "BIGINT").type)])

    def away(*_: object) -> None:
        raise psycopg.OperationalError("the server closed the connection unexpectedly")

    looked = lake.open(T)
    (entry, *_) = [one for one in looked.files.live_entries(looked.latest()) if Path(looked.files.data_path(looked.schema, one)).exists()]
    with monkeypatch.context() as patch:
        patch.setattr(TableRepository, "schemas", away)
        if deep:
            with pytest.raises(Unavailable, match="catalog database"):
                fault_of_entry(looked, entry, deep=True)
        else:
            assert fault_of_entry(looked, entry, deep=False) is None
    assert fault_of_entry(looked, entry, deep=True) is None


@pytest.mark.parametrize("deep", [True, False])
def test_a_file_is_not_lost_because_its_footer_is_too_large(lake: Lake, monkeypatch: pytest.MonkeyPatch, deep: bool) -> None:
    """Other readers read it: wide tables of many row groups have such. The file was taken away, and its rows with it."""
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "-1"}))
    insert(lake, 1)
    table = lake.open(T)
    planned = plan_scan(table.files, table.schema, table.latest()).files
    monkeypatch.setattr("table.format.parquet.metadata.MOST_FOOTER_BYTES", 10)
    assert remove_unexisting_files(lake, lake.open(T), dry_run=False, deep=deep, threads=2, check=lambda: None) == ()
    assert list(lake.check_table(lake.open(T), deep=deep, threads=2, checked=lambda *_: None)) == []
    with pytest.raises(
        ResultTooLarge, match=r"file data-\S+ holds more than can be read: its footer has [\d,]+ bytes, of which at most 10"
    ):
        list(read_batches(table.files, table.schema, planned))
    monkeypatch.undo()
    assert sum(batch.num_rows for batch in read_batches(table.files, table.schema, planned)) == 1
    assert rows(lake.open(T)) == [1]


def test_a_file_is_not_lost_because_its_decoder_is_late(lake: Lake, warehouse: Path) -> None:
    """As on a busy machine, or where the kernel ends it: a whole ORC file counted as lost, and its rows went."""
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "-1", "file.format": "orc"}))
    insert(lake, 1)
    processes = OrcProcesses(WorkerLimits(count=1, seconds=3), str(warehouse))
    processes.begin()

    def look() -> list[str]:
        found = lake.check_table(lake.open(T), deep=True, threads=1, checked=lambda *_: None)
        return [fault.problem for fault in found]

    def stall() -> None:
        assert look() == []
        for pid in processes.pids():
            os.kill(pid, signal.SIGSTOP)

    try:
        stall()
        with pytest.raises(Unavailable, match="was not decoded within 3 seconds"):
            remove_unexisting_files(lake, lake.open(T), dry_run=False, deep=True, threads=1, check=lambda: None)
        stall()
        (told,) = look()
    finally:
        processes.close()
    assert told.startswith("could not be looked at: ")
    assert look() == []
    table = lake.open(T)
    assert [entry.file.row_count for entry in table.files.live_entries(table.latest())] == [1]


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EIO])
def test_what_was_decided_is_answered_though_its_file_cannot_be_written(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(problem, os.strerror(problem))

    with monkeypatch.context() as full:
        full.setattr(TableFiles, "publish_snapshot", broken)
        assert len(mend(lake)) == 1
    assert mend(lake) == ()
    assert rows(lake.open(T)) == [1, 3, 4]
    latest = lake.open(T).latest()
    assert latest is not None
    assert table.files.read_snapshot(latest.id) == latest


def test_an_answer_that_was_lost_is_found_and_nothing_is_taken_away_twice(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, found = catalog.transaction, lake._core._find_outcome
    first = [True]

    @contextlib.contextmanager
    def losing(**options: Any) -> Iterator[CatalogTransaction]:
        with whole(**options) as tx:
            yield tx
        if first and "turn" in options:
            raise OutcomeUnknown("lost")

    def too_early(first_of_all: Prepared, lost: OutcomeUnknown) -> bool:
        first.clear()
        with monkeypatch.context() as blind:
            blind.setattr("catalog.objects.snapshots.SnapshotRepository.by_uuid", lambda *_: None)
            return found(first_of_all, lost)

    monkeypatch.setattr(catalog, "transaction", losing)
    monkeypatch.setattr(lake._core, "_find_outcome", too_early)
    assert len(mend(lake)) == 1, "also where it was found only later"
    latest = lake.open(T).latest()
    assert latest is not None
    assert latest.id == 5
    assert rows(lake.open(T)) == [1, 3, 4]


def test_it_waits_for_a_client_for_whom_the_next_decision_is_reserved(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    place = (table.table_id, MAIN_BRANCH)
    with catalog.turn([place], seconds=30) as turn:
        assert turn is not None
        turn.reserve(Client("principal", "client"), 0.5)
    assert len(mend(lake)) == 1
    with catalog.reading() as tx:
        assert tx.turns.line(*place).reserved_seconds == 0


def test_it_is_next_once_it_lost_a_race(lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    check_free = lake._publisher.check_free
    writers: list[threading.Thread] = []

    def beaten(*args: Any) -> None:
        check_free(*args)
        assert len(writers) < 5, "it starves"
        writers.append(threading.Thread(target=insert, args=(other, 10 + len(writers))))
        writers[-1].start()
        writers[-1].join(60 if len(writers) == 1 else 1)  # the first has committed, the next waits for its turn

    monkeypatch.setattr(lake._publisher, "check_free", beaten)
    assert len(mend(lake)) == 1
    for writer in writers:
        writer.join(120)
    assert len(writers) == 2
    assert rows(lake.open(T)) == [1, 3, 4, 10, 11]
