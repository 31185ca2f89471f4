"""Compactions write before they free: where space is short, or promised to others, they wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake import Lake, StorageReserve
from lake.reserve import COMMIT_BYTES
from maintenance.coordinator import Coordinator
from tests.disks import MEGABYTE, mounted
from tests.lake.rewrite.test_compaction import append, ids, live
from tests.maintenance.test_coordinator import LIMITS, QUEUE, rounds_of, until
from tests.sql.tables import make_table


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MB."""
    with mounted(tmp_path / "disk", megabytes=64) as directory:
        yield directory


def test_a_compaction_waits_for_room_that_is_promised_to_others(lake: Lake, disk: Path) -> None:
    lake.reserve = StorageReserve(reserved=4 * MEGABYTE, warehouse=str(disk))
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(8):
        append(lake, table, [n])
    promised, over = threading.Event(), threading.Event()

    def other_work() -> None:
        with lake.reserve.promise(60 * MEGABYTE - COMMIT_BYTES - (100 << 10)):
            promised.set()
            over.wait(120)

    other = threading.Thread(target=other_work)
    other.start()
    promised.wait(60)
    coordinator = Coordinator(lake, LIMITS)
    coordinator.start()
    try:
        lake.reserve.require()
        rounds_of(coordinator, 5)
        assert len(live(table)) == 8
        over.set()
        until(lambda: len(live(table)) < 5)
    finally:
        over.set()
        coordinator.close()
        other.join()
    assert ids(table) == list(range(8))
