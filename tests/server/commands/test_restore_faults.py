"""Each call of a restore to its files fails once: it is told, nothing half is under a name, and the command again ends with all rows."""

from __future__ import annotations

import errno
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import table.format.io.file_io
from model.errors import IllegalMove, LakeError
from model.identifier import Identifier
from server.commands.backup import backup, restore_parts
from server.commands.restore import restore
from tests.faults.below import each
from tests.faults.failing_io import SHORT_WRITE, FailingFileIO, Faults
from tests.lake.register.damage import forget_metadata
from tests.server.commands.conftest import Of, Open, Server

ORDERS = Identifier("shop", "orders")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, SHORT_WRITE)
ASKED = ("shop.orders", "shop.orders$branch_b", "shop.queue")
Failing = Callable[[], Any]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """Files of this process, of which one call fails: none until it is armed."""
    faults = Faults()
    real = table.format.io.file_io.file_io_for
    for module in list(sys.modules.values()):
        if getattr(module, "file_io_for", None) is real:
            monkeypatch.setattr(module, "file_io_for", lambda location, *, sync=True: FailingFileIO(faults))
    yield faults
    faults.disarm()


def troubles(differences: Sequence[Any]) -> list[Any]:
    """What is told, but for who may do what again: that is so each time."""
    return [one for one in differences if "again, as when the backup was made" not in one.what]


def struck(faults: Faults, run: Callable[[], tuple[str, Sequence[Any]]], *, at: int, error: int) -> tuple[bool, str]:
    """Let one call of a restore fail; returns whether it says that it is done, and all that it says."""
    faults.arm(at, error)
    try:
        summary, differences = run()
        differences = troubles(differences)
    except LakeError as problem:
        return False, problem.message
    finally:
        faults.disarm()
    return True, "; ".join([summary, *(f"{one.table}: {one.what}" for one in differences)]) if differences else ""


def single(faults: Faults, shop: Server, run: Callable[[], tuple[str, Sequence[Any]]], before: Any, *, at: int) -> tuple[bool, bool]:
    """Bring one table back while a call fails, then once more."""
    shop.run("DROP TABLE shop.orders PURGE")
    done, said = struck(faults, run, at=at, error=ERRORS[at % len(ERRORS)])
    calls, failed = faults.calls, faults.faults
    forget_metadata()
    there = ("orders",) in shop.rows("SHOW TABLES IN shop")
    assert done == there, said
    if not there:
        assert not failed or "othing was changed" in said or "cannot be used" in said or "No space" in said, said
        assert troubles(run()[1]) == []
    assert [shop.history(name) for name in ASKED[:2]] == before, said
    assert shop.rows("CALL sys.check_table('shop.orders', deep => true)") == [], said
    shop.run("INSERT INTO shop.orders VALUES (4, 'ü')")
    with pytest.raises(IllegalMove):
        run()
    return calls >= at, failed > 0


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.torture)])
def test_a_table_comes_back_whole_or_not_at_all(shop: Server, of: Of, failing: Faults, tmp_path: Path, every: int) -> None:
    before = [shop.history(name) for name in ASKED[:2]]
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)

    def run() -> tuple[str, Sequence[Any]]:
        return restore_parts(of(shop.dsn), file, tables=[ORDERS], files_from=copy)

    calls, faults = each(lambda at: single(failing, shop, run, before, at=at), every=every, tries=1)
    print(f"restore --table: {calls} calls, {faults} faults")
    assert calls == faults


def whole(
    faults: Faults, opened: Open, run: Callable[[], tuple[str, Sequence[Any]]], dsn: str, before: Any, *, at: int, warehouse: Path
) -> tuple[bool, bool]:
    """Put all back where nothing is while a call fails, then once more."""
    shutil.rmtree(warehouse, ignore_errors=True)
    done, said = struck(faults, run, at=at, error=ERRORS[at % len(ERRORS)])
    calls, failed = faults.calls, faults.faults
    forget_metadata()
    if said or not done:
        assert troubles(run()[1]) == [], said
    forget_metadata()
    other = opened(dsn)
    try:
        assert [other.history(name) for name in ASKED] == before, said
        for name in ASKED:
            assert other.rows(f"CALL sys.check_table('{name}', deep => true)") == []
    finally:
        other.close()
    return calls >= at, failed > 0


@pytest.mark.parametrize("every", [45, pytest.param(1, marks=pytest.mark.torture)])
def test_a_warehouse_comes_back_whole_in_the_end(
    shop: Server, opened: Open, of: Of, dsn: str, failing: Faults, tmp_path: Path, every: int
) -> None:
    before = [shop.history(name) for name in ASKED]
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(shop.dsn), file, files_to=copy)
    shop.close()

    def run() -> tuple[str, Sequence[Any]]:
        return restore(of(dsn), file, replace=True, files_from=copy)

    calls, faults = each(lambda at: whole(failing, opened, run, dsn, before, at=at, warehouse=tmp_path / "warehouse"), every=every, tries=1)
    print(f"restore: {calls} calls, {faults} faults")
    assert calls == faults
