"""A store that fails at any step of a commit: what is answered is what is there, and nothing that is there is taken away."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.compaction import compact, plan
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.write.snapshot_builder import everything
from table.write.writer import write_batches
from tests.lake.commit.failing import FailingIO

T = Identifier("default", "t")
Work = Callable[[Lake], None]


@pytest.fixture
def io() -> FailingIO:
    return FailingIO()


@pytest.fixture
def failing(catalog: CatalogStore, warehouse: Path, io: FailingIO) -> Iterator[Lake]:
    """A lake on the disk that fails."""
    made = Lake(catalog, str(warehouse), file_io=io)
    yield made
    made.close()


def batch(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


def insert(lake: Lake, *ids: int) -> None:
    table = lake.open(T)
    with table.write() as write:
        write.add(write_batches(table.files, table.schema, [batch(*ids)]))
        lake.commit(table, write.request(CommitKind.APPEND))


def overwrite(lake: Lake) -> None:
    table = lake.open(T)
    with table.write() as write:
        write.add(write_batches(table.files, table.schema, [batch(7)]))
        lake.commit(table, write.request(CommitKind.OVERWRITE, overwrite=everything))


def merge(lake: Lake) -> None:
    table = lake.open(T)
    compact(lake.commit, table, plan(table, full=True))


def replace(lake: Lake) -> None:
    lake.replace_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))


WORKS: dict[str, tuple[Work, list[int]]] = {
    "insert": (lambda lake: insert(lake, 7), [1, 2, 3, 4, 5, 6, 7]),
    "overwrite": (overwrite, [7]),
    "compaction": (merge, [1, 2, 3, 4, 5, 6]),
    "replace": (replace, []),
}


def rows(table: LakeTable) -> list[int]:
    """What the table's files hold, read one by one: a file that is gone shows."""
    types = [f.type for f in table.schema.partition_fields]
    assert not types
    found: list[int] = []
    for entry in table.files.live_entries(table.latest()):
        found += pq.read_table(table.files.data_path(table.schema, entry), partitioning=None).column("id").to_pylist()
    return sorted(found)


ONCE, FOR_GOOD = 1, 10_000
SHORT = [("insert", errno.ENOSPC, FOR_GOOD), ("compaction", None, ONCE)]
LONG = [(work, kind, length) for work in WORKS for kind in (errno.ENOSPC, errno.EIO, None) for length in (ONCE, FOR_GOOD)]


@pytest.mark.parametrize(
    ("work", "kind", "length"),
    [*SHORT, *(pytest.param(*one, marks=pytest.mark.torture) for one in LONG if one not in SHORT)],
    ids=lambda value: "a bug" if value is None else str(value),
)
def test_every_step_of_a_commit_may_fail(
    catalog: CatalogStore, lake: Lake, failing: Lake, warehouse: Path, io: FailingIO, work: str, kind: int | None, length: int
) -> None:
    run, after = WORKS[work]
    before = [1, 2, 3, 4, 5, 6]
    outcomes: Counter[str] = Counter()
    at = 0
    while True:
        if at:
            lake.drop_table(T)
        lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
        for first in (1, 3, 5):
            insert(lake, first, first + 1)
        failing.open(T).latest()
        io.broken(at, RuntimeError("a bug") if kind is None else OSError(kind, os.strerror(kind)), length=length)
        try:
            run(failing)
            told = "committed"
        except (LakeError, OSError, RuntimeError):
            told = "refused"
        calls = len(io.calls)
        io.whole()
        outcomes[told] += 1
        fresh = Lake(catalog, str(warehouse))
        table = fresh.open(T)
        assert rows(table) == (after if told == "committed" else before), f"{work}, call {at}: {told}"
        latest = table.latest()
        assert latest is not None
        assert table.files.read_snapshot(latest.id) == latest, "it is published at the next look"
        named = {path for entry in table.files.live_entries(latest) for path in [table.files.data_path(table.schema, entry)]}
        there = {str(path) for path in Path(table.location, "bucket-0").iterdir()}
        assert named <= there
        insert(fresh, 100)
        assert 100 in rows(fresh.open(T))
        fresh.close()
        if at >= calls:
            break
        at += 1
    assert outcomes["committed"] > 1, "the last steps come after the decision"
    assert outcomes["refused"] > 3
