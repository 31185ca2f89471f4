"""CALL sys.erase of which a call to the files fails: what it told is true, and called again it ends."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lake.rewrite.orphans import remove_orphan_files
from model.identifier import Identifier
from tests.erased import SEEN, VALUE, decoded
from tests.faults.below import each
from tests.faults.failing_io import SHORT_WRITE, FailingFileIO, Faults
from tests.faults.operation import surely_failed
from tests.faults.world import STRUCK_SECONDS, World, world

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, SHORT_WRITE)
_OPTIONS = "'bucket' = '1', 'rows.erasable' = 'true', 'write-only' = 'true', 'file-index.bloom-filter.columns' = 'name'"
_IN_FILES = ", 'file-index.in-manifest-threshold' = '1 B'"


class _Outage(Faults):
    """All calls fail from the one on that is to fail: nothing is cleaned up behind it, as where the server is killed there."""

    def come(self, path: str, data: bytes | None = None) -> None:
        super().come(path, data)
        if self.armed and self.calls > self.fail_at:
            self._fail(errno.EIO, path)


class _Erasing:
    """Erases from one table after the other, each time with another call that fails."""

    def __init__(self, failing: World, faults: Faults, dsn: str) -> None:
        self._failing, self._faults, self._dsn = failing, faults, dsn
        self._tables = 0

    def holders(self, table: str) -> list[str]:
        files = (self._failing.directory / "warehouse" / "default.db" / table).rglob("*")
        return [str(path) for path in files if path.is_file() and SEEN in decoded(path)]

    def run(self, *, fail_at: int, error: int) -> tuple[bool, bool]:
        """Let one call of an erasure fail, and look; returns whether the call came, and whether it failed."""
        self._tables += 1
        table = f"t{self._tables}"
        self._failing.must(
            f"CREATE TABLE {table} (id INT, name STRING) WITH ({_OPTIONS}{_IN_FILES if self._tables % 2 else ''})",
            f"INSERT INTO {table} VALUES (1, 'Ada'), (2, '{VALUE}'), (3, 'Dan')",
            f"INSERT INTO {table} VALUES (4, 'Bob')",
            f"CALL sys.create_tag('{table}', 'with')",
            f"INSERT INTO {table} VALUES (5, '{VALUE}')",
        )
        self._failing.settle()
        call = f"CALL sys.erase(`table` => '{table}', `where` => 'name = ''{VALUE}''')"
        self._faults.arm(fail_at, error)
        try:
            answer = self._failing.ask(call)
            self._failing.settle(STRUCK_SECONDS)
        finally:
            self._faults.disarm()
        assert answer.ok or answer.status < 500 or answer.status in (503, 507), answer
        if surely_failed(answer):
            self._as_before(table)
        if answer.ok and all(row[3] is None for row in answer.body["rows"]):
            assert self.holders(table) == [], "it said that nothing is left"
        with world(self._dsn, self._failing.directory, begins=True) as fresh:
            self._again(fresh, table, call)
            assert self.holders(table) == []
            assert fresh.ids(table) == [1, 3, 4]
            assert fresh.rows(f"CALL sys.check_table('{table}', deep => true)") == []
        return self._faults.calls >= fail_at, self._faults.faults > 0

    def _as_before(self, table: str) -> None:
        """Who is refused finds the table as it was."""
        failing = self._failing
        assert failing.ids(table) == [1, 2, 3, 4, 5], "it said that nothing was changed"
        assert failing.rows(f"SELECT tag_name FROM {table}$tags") == [("with",)]
        assert failing.rows(f"SELECT COUNT(*) FROM {table}$snapshots") == [(3,)]

    @staticmethod
    def _again(fresh: World, table: str, call: str) -> None:
        """As the answer says, until nothing is left."""
        left: list[tuple[Any, ...]] = []
        for _ in range(2):
            left = [row for row in fresh.rows(call) if row[3]]
            if not left:
                return
            assert [row[0] for row in left] == ["files nothing refers to"]
            now = time.time_ns() // 1_000_000
            remove_orphan_files(fresh.lake, fresh.lake.open(Identifier("default", table)), older_than_millis=now, check=lambda: None)
        raise AssertionError(left)


@pytest.fixture
def erasing(dsn: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Erasing]:
    faults = getattr(request, "param", Faults)()
    with world(dsn, tmp_path, file_io=FailingFileIO(faults), begins=True) as failing:
        yield _Erasing(failing, faults, dsn)


def _reported(erasing: _Erasing, *, every: int, begin: int = 1) -> None:
    calls, faults = each(lambda number: erasing.run(fail_at=number, error=ERRORS[number % len(ERRORS)]), every=every, begin=begin)
    print(f"sys.erase: {calls} calls, {faults} faults")
    assert calls == faults > 0


def test_an_erasure_of_which_a_call_fails_is_called_again(erasing: _Erasing) -> None:
    _reported(erasing, every=60, begin=30)


@pytest.mark.torture
@pytest.mark.parametrize("erasing", [Faults, _Outage], indirect=True, ids=["one call", "all from one on"])
def test_every_call_of_an_erasure_fails(erasing: _Erasing) -> None:
    _reported(erasing, every=1)
