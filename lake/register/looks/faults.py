"""What a look at a table tells of its files, and of those that their store does not give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from model.errors import Unavailable
from table.format.io.storage_errors import refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A file that is not what names it says."""

    branch: str
    snapshot_id: int | None
    """The newest snapshot found to need it."""
    partition: str
    file: str
    rows: int | None
    problem: str


def refused(problem: Unavailable) -> str:
    """What a store says of a file or directory that it does not give; raises the problem where the store itself cannot be used."""
    if (text := refusal(problem)) is None:
        raise problem
    return text


def unreadable(branch: str, problem: Unavailable) -> Fault:
    """The fault of a file or directory that its store does not give; raises the problem where the store itself cannot be used."""
    return Fault(branch=branch, snapshot_id=None, partition="", file=problem.place or "", rows=None, problem=refused(problem))


def refusals_too(branch: str, faults: Iterator[Fault]) -> Iterator[Fault]:
    """The faults, and as the last one what their store does not give."""
    try:
        yield from faults
    except Unavailable as problem:
        yield unreadable(branch, problem)


def once(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Each fault once, though several snapshots and branches need its file."""
    seen: set[tuple[str, str]] = set()
    for fault in faults:
        if (key := (fault.file, fault.problem)) not in seen:
            seen.add(key)
            yield fault
