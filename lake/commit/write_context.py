"""The owner of written files: they are removed where no snapshot can name them, and kept in every other case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from model.commit_phase import CommitProgress
from model.schema.schema import Schema
from model.snapshot import CommitKind
from table.format.discard import discard
from table.format.manifests.entries import NewFile
from table.format.store import TableFiles
from table.write.partition_time import check_partition_times
from table.write.snapshot_builder import CommitRequest
from table.write.writer import paths_of as paths_of


class Write:
    """The files written for commits of one table, whose end removes what was not committed for certain.

    What an exception says does not matter, only how far each commit came: files of one that is decided, or that may be, stay.
    """

    def __init__(self, files: TableFiles, schema: Schema, left_behind: Callable[[], None] = lambda: None) -> None:
        self._table_files = files
        self._schema = schema
        self._left_behind = left_behind
        self._removed = False
        self._commits: dict[str, list[CommitProgress]] = {}
        """Each owned path, with the commits it was given to."""
        self.files: list[NewFile] = []
        """The data files, in the order they were written."""

    def add(self, written: Iterable[NewFile]) -> list[NewFile]:
        """Own data files with what lies beside them; returns them."""
        files = list(written)
        self.files += files
        for new in files:
            self.add_paths(paths_of(self._table_files, self._schema, new))
        return files

    def add_paths(self, paths: Iterable[str]) -> None:
        """Own files that are no data files: statistics, an index beside a data file of the table."""
        for path in paths:
            self._commits.setdefault(path, [])

    @property
    def rows(self) -> int:
        """Rows in the data files."""
        return sum(new.file.row_count for new in self.files)

    def request(self, kind: CommitKind, *, adds: Sequence[NewFile] | None = None, paths: Iterable[str] = (), **more: Any) -> CommitRequest:
        """A commit of the files, or of some of them; ``paths`` are those it names besides its data files.

        Raises `InvalidData` for a partition that the table's options do not let be made.
        """
        files = tuple(self.files if adds is None else adds)
        if kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
            check_partition_times(self._schema, {new.partition for new in files} - {entry.partition for entry in more.get("deletes", ())})
        request = CommitRequest(kind=kind, adds=files, **{"commit_user": str(uuid4()), **more})
        named = [path for new in files for path in paths_of(self._table_files, self._schema, new)]
        for path in (*named, *paths):
            if path in self._commits:
                self._commits[path].append(request.progress)
        return request

    def drop(self, written: Collection[NewFile]) -> None:
        """Remove data files now, unless one of their commits may be decided: a rewrite that lost its race."""
        self._remove(path for new in written for path in paths_of(self._table_files, self._schema, new))
        gone = {id(new) for new in written}
        self.files = [new for new in self.files if id(new) not in gone]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        looked = not self._removed and bool(self._commits) and all(map(_looked_after, self._commits.values()))
        self._remove(list(self._commits))
        if (isinstance(problem, Exception) or self._removed) and not looked:
            self._left_behind()

    def _remove(self, paths: Iterable[str]) -> None:
        removed = []
        for path in paths:
            commits = self._commits.pop(path, None)
            if commits is None or not all(commit.undecided for commit in commits):
                continue
            removed.append(path)
        self._removed = self._removed or bool(removed)
        discard(self._table_files, removed)


def _looked_after(commits: Sequence[CommitProgress]) -> bool:
    return bool(commits) and all(commit.looked for commit in commits)
