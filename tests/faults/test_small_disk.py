"""A real disk filled to the last page: an operation meets its end at every page of its need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.disks import PAGE, fill, mounted
from tests.faults.operation import BEFORE, KEY, Operation, Told, asking, made, verified
from tests.faults.operations import BY_NAME, OPERATIONS
from tests.faults.world import Answer, World, world
from tests.short import diagonal

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


def at_every_page(dsn: str, directory: Path, operation: Operation, pages: Sequence[int], *, begins: bool = False) -> tuple[int, int]:
    """Run an operation with so many free pages, one number after the other until it has enough; returns tries and refusals."""
    tried = refused = 0
    with world(dsn, directory, begins=begins) as full:
        for number in pages:
            table = f"t{number}"
            made(full, table, operation.options)
            operation.prepare(full, table)
            full.settle()
            ballast = filled(directory / "warehouse", leave=number)
            answers = operation.run(full, table)
            ballast.unlink()
            _looked_at(dsn, directory, operation, table, answers, full, begins=begins)
            tried += 1
            refused += not all(answer.ok for answer in answers)
            if all(answer.ok for answer in answers) and number > 2:
                break
    return tried, refused


def _looked_at(
    dsn: str, directory: Path, operation: Operation, table: str, answers: Sequence[Answer], full: World, *, begins: bool
) -> None:
    with world(dsn, directory, begins=begins) as fresh:
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


_ERASE = "CALL sys.erase(`table` => '{t}', `where` => 'id = 3')"


def _erased(world: World, table: str, told: Told) -> str:
    """Sent again at once, under the key it had, it goes on where it ended."""
    if told is Told.REFUSED:
        assert world.ids(table) == list(BEFORE), "it said that nothing was changed"
    answer = world.ask(_ERASE.replace("{t}", table), f"{KEY}-{table}")
    assert answer.ok, answer
    assert world.rows(f"SELECT COUNT(*) FROM {table}$snapshots") == [(1,)]
    return table


ERASING = Operation(
    name="erasure",
    run=asking(_ERASE, key=True),
    options="'bucket' = '-1', 'rows.erasable' = 'true', 'write-only' = 'true'",
    check=_erased,
    after=(1, 2, 4, 5, 6),
    completes=True,
)


def test_an_erasure_at_the_last_pages_of_a_disk(dsn: str, small: Path) -> None:
    tried, refused = at_every_page(dsn, small, ERASING, range(MOST_PAGES), begins=True)
    print(f"{ERASING.name}: {tried} tried, {refused} refused")
    assert MOST_PAGES > tried > refused >= 3


@dataclass(frozen=True, slots=True)
class Going:
    """What goes on where no page is free."""

    text: str
    frees: bool = True
    begins: bool = False


GOING_ON = [
    Going("SELECT id FROM t", frees=False),
    Going("SELECT COUNT(*) FROM t", frees=False),
    Going("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)"),
    Going("CALL sys.delete_tag('t', 'old')"),
    Going("CALL sys.delete_branch('t', 'b')", frees=False),
    Going("CALL sys.remove_orphan_files('t')"),
    Going("DROP TABLE t", frees=False),
    Going("DROP TABLE t PURGE"),
]


def _full_of_what_goes(full: World, directory: Path, *, unpublished: bool) -> None:
    """A table of which much may go, on a disk without a page; with the newest snapshot in Postgres alone where that is asked for."""
    made(full, "t")
    full.must(
        "CALL sys.create_tag('t', 'old', 1)", "CALL sys.create_branch('t', 'b', 'old')", "TRUNCATE TABLE t", "INSERT INTO t VALUES (7, 'c')"
    )
    litter = directory / "warehouse" / "default.db" / "t" / "manifest" / "manifest-dead-0"
    litter.write_bytes(b"x" * PAGE)
    os.utime(litter, (0, 0))
    full.settle()
    ballast = filled(directory / "warehouse", leave=0)
    if not unpublished:
        return
    for pages in range(1, MOST_PAGES):
        ballast.unlink()
        ballast = filled(directory / "warehouse", leave=pages)
        if full.ask("INSERT INTO t VALUES (8, 'd')").ok:
            break
    assert not (litter.parents[1] / "snapshot" / "snapshot-6").exists()
    filled(directory / "warehouse", leave=0)


@pytest.mark.parametrize(("going", "unpublished"), diagonal(GOING_ON, [False, True]))
def test_what_frees_a_disk_without_a_page_goes_on(dsn: str, small: Path, going: Going, *, unpublished: bool) -> None:
    with world(dsn, small, begins=True) as full:
        _full_of_what_goes(full, small, unpublished=unpublished)
        answer = full.ask(going.text)
        assert answer.ok, answer
        assert not going.frees or shutil.disk_usage(small / "warehouse").free > 0
