"""A queue's rows keep their order, whatever is written anew while others append under numbers that the files have already."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from model.errors import RewriteConflict
from model.snapshot import CommitKind, Snapshot
from table.compaction.rewrite import numbered
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import EMPTY_ROW, ManifestEntry, NewFile
from table.format.store import TableFiles
from table.write.places import by_number, overlapping, placed
from table.write.sequences import BUCKETS
from table.write.snapshot_builder import CommitRequest
from tests.table.write.test_snapshot_builder import a_file, a_schema, commit

SCHEMA = a_schema()


class Queue:
    """A queue of one bucket, of which only the manifests are written; ``rows`` tells what each file holds."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._names = 0
        self.latest: Snapshot | None = None
        self.rows: dict[str, list[int]] = {}

    def live(self) -> list[ManifestEntry]:
        """Files in the order in which they are read."""
        return sorted(self._files.live_entries(self.latest), key=by_number)

    def read(self) -> list[int]:
        return [row for entry in self.live() for row in self.rows[entry.file.file_name]]

    @property
    def top(self) -> int:
        return max((entry.file.max_sequence_number for entry in self.live()), default=-1)

    def _file(self, rows: Sequence[int]) -> NewFile:
        self._names += 1
        name = f"f{self._names}"
        self.rows[name] = list(rows)
        return NewFile(partition=EMPTY_ROW, bucket=0, file=a_file(name, len(rows)))

    def append(self, rows: Sequence[int]) -> None:
        """As this server does: numbers behind all that are there."""
        self._commit(CommitRequest(kind=CommitKind.APPEND, adds=(self._file(rows),), commit_user="u"))

    def append_tied(self, rows: Sequence[int], number: int | None = None) -> None:
        """As pypaimon does: one number, which the bucket ended with when it began to write."""
        new = self._file(rows)
        if number is None:
            number = self.top if self.latest else 1
        shift = number - self.top - 1  # the commit adds the top and one
        file = replace(new.file, min_sequence_number=shift, max_sequence_number=shift)
        self._commit(CommitRequest(kind=CommitKind.APPEND, adds=(replace(new, file=file),), commit_user="pypaimon"))

    def rewrite(self, inputs: Sequence[Sequence[ManifestEntry]], gone: Sequence[int], *, cut: int, kind: CommitKind) -> None:
        """Files, task by task, written anew without some rows, in files of at most so many."""
        adds: list[NewFile] = []
        for task in inputs:
            left = [row for entry in task for row in self.rows[entry.file.file_name] if row not in gone]
            new = [self._file(left[at : at + cut]) for at in range(0, len(left), cut)]
            starts = [at * cut for at in range(len(new))]
            shifted = [
                replace(one.file, min_sequence_number=at, max_sequence_number=at + one.file.row_count - 1)
                for one, at in zip(new, starts, strict=True)
            ]
            numbers = numbered(shifted, [entry.file for entry in task])
            adds += [replace(one, file=file) for one, file in zip(new, numbers, strict=True)]
        self._commit(
            CommitRequest(
                kind=kind, adds=tuple(adds), deletes=tuple(entry for task in inputs for entry in task), commit_user="u",
                in_place=kind is CommitKind.OVERWRITE,
            )
        )  # fmt: skip

    def _commit(self, request: CommitRequest) -> None:
        self.latest = commit(self._files, SCHEMA, self.latest, request)


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(TableFiles(LocalFileIO(), str(tmp_path / "t")))


KINDS = (CommitKind.COMPACT, CommitKind.OVERWRITE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["counted", "one row", "tied"])
def test_a_tied_append_meanwhile_stands_behind_what_is_written_anew(queue: Queue, first: str, kind: CommitKind) -> None:
    """However often: each time all files of the bucket share the number of the one that comes."""
    if first != "tied":
        queue.append([0] if first == "one row" else [0, 1, 2])
    queue.append_tied([3, 4])
    for row in range(5, 15):
        tasks = list(overlapping(queue.live()))
        queue.append_tied([row])
        before, top = queue.read(), queue.top
        gone = before[1:2] if kind is CommitKind.OVERWRITE else []
        queue.rewrite(tasks, gone, cut=2, kind=kind)
        assert queue.read() == [other for other in before if other not in gone]
        assert queue.top == top, "the next writers count from there"
    assert by_number(queue.live()[0]) >= min(top - 1, 0), "a queue does not sink"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_between_those_of_one_rewrite_lets_it_lose(queue: Queue, kind: CommitKind) -> None:
    queue.append([0, 1, 2])
    queue.append_tied([3])
    tasks = list(overlapping(queue.live()))
    queue.append_tied([9], number=1)
    before = queue.read()
    assert before == [0, 1, 2, 9, 3]
    with pytest.raises(RewriteConflict, match="belong between"):
        queue.rewrite(tasks, [], cut=9, kind=kind)
    assert queue.read() == before


def test_no_number_stands_between_two_of_one_number(queue: Queue) -> None:
    """Where one file of several under one number were written anew alone, what stays before and behind it leaves no place."""
    for row in range(3):
        queue.append_tied([row], number=1)
    live = queue.live()
    with pytest.raises(RewriteConflict, match="belong between"):
        placed(live, {live[1].key()}, [replace(live[1], file=replace(live[1].file, file_name="new"))])


@pytest.mark.parametrize("seed", range(6))
def test_any_history_keeps_its_order(queue: Queue, seed: int) -> None:
    """Appends of all writers, some of them begun long ago, beside rewrites of any files; a rewrite loses only to a file between its own."""
    rng = random.Random(seed)
    rows, tops = iter(range(10_000)), [1]

    def append() -> None:
        new = [next(rows) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.3:
            queue.append(new)
        else:
            queue.append_tied(new, number=rng.choice(tops[-3:]) if rng.random() < 0.3 else None)
        tops.append(max(queue.top, 0))

    done = lost = 0
    for _ in range(40):
        append()
        kind = rng.choice(KINDS)
        runs = list(overlapping(queue.live()))
        at, count = rng.randrange(len(runs)), rng.randrange(1, 4)
        chosen = runs[at : at + count]
        tasks = [[entry for run in chosen for entry in run]] if kind is CommitKind.COMPACT else chosen
        gone = [row for row in queue.read() if rng.random() < 0.3] if kind is CommitKind.OVERWRITE else []
        for _ in range(rng.randrange(4)):
            append()
        if rng.random() < 0.2:
            BUCKETS.forget()
        before, live = queue.read(), [entry.file.file_name for entry in queue.live()]
        going = [[entry.file.file_name for entry in task] for task in tasks]
        parted = any(len(task) != 1 + live.index(task[-1]) - live.index(task[0]) for task in going)
        went = {row for task in going for name in task for row in queue.rows[name]} & set(gone)
        try:
            queue.rewrite(tasks, gone, cut=rng.choice((1, 3, 100)), kind=kind)
        except RewriteConflict:
            assert parted
            assert queue.read() == before
            lost += 1
            continue
        assert not parted
        assert queue.read() == [row for row in before if row not in went]
        done += 1
    assert done > 15
