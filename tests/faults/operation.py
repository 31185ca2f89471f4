"""One way to change a table, as a client asks for it, and how what it left is held against what clients were told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from model.errors import LakeError, OutcomeUnknown
from model.identifier import Identifier
from tests.faults.world import Answer, World

T = TypeVar("T")
BEFORE = (1, 2, 3, 4, 5, 6)
KEY = "the-key-of"
QUEUE = "'bucket' = '1'"


class Told(Enum):
    """What clients were told of an operation."""

    DONE = "done"
    REFUSED = "refused, so that nothing has changed"
    UNKNOWN = "nothing that is certain"

    def one_of(self, before: T, after: T) -> tuple[T, ...]:
        """What may be there."""
        return {Told.DONE: (after,), Told.REFUSED: (before,), Told.UNKNOWN: (before, after)}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One way to change a table ``t`` that holds `BEFORE` in three files of three snapshots."""

    name: str
    run: Callable[[World, str], Sequence[Answer]]
    """Ask for it; several answers where several clients ask at once."""
    after: Sequence[int] = BEFORE
    """What the table holds once it is done."""
    each: Sequence[Sequence[int]] = ()
    """What each of several clients adds."""
    prepare: Callable[[World, str], None] = lambda world, table: None
    options: str = "'bucket' = '-1'"
    """How its rows lie."""
    completes: bool = False
    """Whether the check does it where it was not done."""
    check: Callable[[World, str, Told], str] = lambda world, table, told: table
    """Look at what else must be so; returns the name the table has."""


def made(world: World, table: str, options: str = "'bucket' = '-1'") -> None:
    """Make the table every operation begins with."""
    world.must(f"CREATE TABLE {table} (id INT, s STRING) WITH ({options}, 'compaction.min.file-num' = '2')")
    for first in (1, 3, 5):
        world.must(f"INSERT INTO {table} VALUES ({first}, 'a'), ({first + 1}, 'b')")


def asking(text: str, *, key: bool = False) -> Callable[[World, str], Sequence[Answer]]:
    return lambda world, table: [world.ask(text.replace("{t}", table), f"{KEY}-{table}" if key else None)]


def branched_off(world: World, table: str) -> None:
    """Give a table a branch with a row of its own."""
    world.must(f"CALL sys.create_branch('{table}', 'b')", f"INSERT INTO {table}$branch_b VALUES (50, 'x')")


def place(world: World, table: str) -> str:
    """The directory of a table."""
    return world.lake.open(Identifier("default", table)).location


def all_files(world: World, directory: str) -> list[str]:
    """Every file below a directory."""
    found = []
    for status in world.store.list(directory):
        found += all_files(world, status.path) if status.is_dir else [status.path]
    return found


def refused(problem: LakeError) -> Answer:
    """What a client is told of an error."""
    return Answer(status=problem.status, body={"errorClass": type(problem).__name__, "detail": problem.message})


def is_there(world: World, table: str, expected: Sequence[bool]) -> bool:
    there = any(row[0] == table for row in world.rows("SHOW TABLES"))
    assert there in expected, f"{table} is {'there' if there else 'not there'}"
    return there


REFUSALS = {503, 507}
"""What a client may be told where the store fails: neither a bug of the server nor a mistake of its own."""


def hint_holds(world: World, table: str) -> None:
    """Other readers of files find the newest snapshot by the hint: they believe it where there is no next one."""
    files = world.lake.open(Identifier("default", table)).files
    hint = files.read_hint(files.layout.latest_hint())
    assert hint is None or files.io.exists(files.layout.snapshot_file(hint)), f"{hint} is not there"


def surely_failed(answer: Answer) -> bool:
    """Whether an error says that nothing has happened; the protocol of the REST catalog has one word for both."""
    return (
        not answer.ok
        and isinstance(answer.body, dict)
        and answer.body.get("errorClass", OutcomeUnknown.__name__) != OutcomeUnknown.__name__
    )


def verified(world: World, operation: Operation, table: str, answers: Sequence[Answer]) -> None:
    """Compare a table with what its clients were told, by a server that knows nothing of it, and use it on."""
    done = all(answer.ok for answer in answers)
    assert all(answer.ok or answer.status in REFUSALS for answer in answers), answers
    refused = bool(answers) and all(map(surely_failed, answers))
    name = operation.check(world, table, Told.DONE if done else Told.REFUSED if refused else Told.UNKNOWN)
    found = world.ids(name)
    hint_holds(world, name)
    if operation.each:
        for added, answer in zip(operation.each, answers, strict=True):
            here = [number for number in found if number in added]
            assert here == list(added) or (not here and not answer.ok), (found, answers)
        assert [number for number in found if number <= 6] == list(BEFORE)
        assert len(found) == len(set(found)), found
    else:
        # Who is told that it failed, and not that nobody knows, sends it again.
        maybe = [list(BEFORE)] if refused and not operation.completes else [list(BEFORE), list(operation.after)]
        assert found in ([list(operation.after)] if done else maybe), (found, answers)
    world.must(f"INSERT INTO {name} (id, s) VALUES (99, 'next')")
    assert world.ids(name) == [*found, 99]
    world.must(f"CALL sys.compact('{name}')")
    assert world.ids(name) == [*found, 99]
