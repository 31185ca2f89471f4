"""A real disk filled to the last page: an operation meets its end at every page of its need."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.disks import PAGE, fill, mounted
from tests.faults.operation import Operation, made, verified
from tests.faults.operations import BY_NAME, OPERATIONS
from tests.faults.world import Answer, World, world

MEGABYTES = 16
MOST_PAGES = 60
SHORT_FORM = ["insert with a key", "compaction"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A warehouse on a disk of its own."""
    with mounted(tmp_path / "warehouse", megabytes=MEGABYTES):
        yield tmp_path


def filled(disk: Path, *, leave: int) -> Path:
    """The file that takes all of a disk but so many pages."""
    ballast = disk / "ballast"
    fill(ballast, leave=leave * PAGE)
    assert shutil.disk_usage(disk).free == leave * PAGE
    return ballast


def at_every_page(dsn: str, directory: Path, operation: Operation, pages: Sequence[int]) -> tuple[int, int]:
    """Run an operation with so many free pages, one number after the other until it has enough; returns tries and refusals."""
    tried = refused = 0
    with world(dsn, directory) as full:
        for number in pages:
            table = f"t{number}"
            made(full, table)
            operation.prepare(full, table)
            ballast = filled(directory / "warehouse", leave=number)
            answers = operation.run(full, table)
            ballast.unlink()
            _looked_at(dsn, directory, operation, table, answers, full)
            tried += 1
            refused += not all(answer.ok for answer in answers)
            if all(answer.ok for answer in answers) and number > 2:
                break
    return tried, refused


def _looked_at(dsn: str, directory: Path, operation: Operation, table: str, answers: Sequence[Answer], full: World) -> None:
    with world(dsn, directory) as fresh:
        verified(fresh, operation, table, answers)
    if operation.name not in ("rename", "drop", "register"):
        full.must(f"INSERT INTO {table} (id, s) VALUES (100, 'the same server goes on')")
        assert 100 in full.ids(table)


@pytest.mark.parametrize("name", SHORT_FORM)
def test_the_last_pages_of_a_disk(dsn: str, small: Path, name: str) -> None:
    tried, refused = at_every_page(dsn, small, BY_NAME[name], [0, 1, 3, 4, 5, 6])
    print(f"{name}: {tried} tried, {refused} refused")
    assert refused >= 3


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_page_of_a_disk(dsn: str, small: Path, operation: Operation) -> None:
    tried, refused = at_every_page(dsn, small, operation, range(MOST_PAGES))
    print(f"{operation.name}: {tried} tried, {refused} refused")
    assert tried < MOST_PAGES, "it has enough in the end"
