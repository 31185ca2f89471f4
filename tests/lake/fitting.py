"""Holds each manifest of a warehouse against those before it, and each snapshot's counts against its entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from lake.register.looks.contradictions import Contradictions
from lake.register.looks.needed import Line
from model.errors import LakeError
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles

T = TypeVar("T")


def check_fitting(warehouse: Path) -> None:
    """Assert that nothing contradicts itself; what is missing, as files of expired snapshots are, tells nothing."""
    for directory in warehouse.rglob("snapshot"):
        at, branch = directory.parent, "main"
        if at.parent.name == "branch":
            at, branch = at.parent.parent, at.name.removeprefix("branch-")
        files = TableFiles(LocalFileIO(), str(at), branch)
        snapshots = [one for number in files.snapshot_ids() if (one := files.read_snapshot(number)) is not None]
        fitting = Contradictions(_or_none(files.manifest_list), _or_none(files.manifest))
        wrong = list(fitting.of(Line(branch=branch, snapshots=snapshots), table=at.name))
        assert wrong == [], f"{directory}: {[(one.snapshot.id, one.manifest, one.problem) for one in wrong]}"


def _or_none(read: Callable[..., Sequence[T]]) -> Callable[..., Sequence[T] | None]:
    def known(*arguments: object) -> Sequence[T] | None:
        try:
            return read(*arguments)
        except LakeError:
            return None

    return known
