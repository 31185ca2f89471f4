"""A disk whose reserve is used: what would add to it is refused before it begins, and all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lake.reserve import DiskSpace
from tests.faults.operation import Operation, made, verified
from tests.faults.operations import OPERATIONS
from tests.faults.world import STRUCK_SECONDS, world
from tests.short import one_in

REFUSED = {
    "insert", "insert with a key", "inserts at once", "rows by body", "ingest in the place of a table", "insert into a branch",
    "commit of a client", "update", "update of a queue", "merge", "delete", "delete from a queue", "compaction", "compaction of a queue",
    "rescale", "rewrite index", "merge manifests", "migrate table", "migrate files",
}  # fmt: skip
BELOW = {"overwrite", "statement set", "analyze"}
"""Done here as the statement commits, which was refused before."""


def used(directory: str) -> DiskSpace:
    """A disk with space for all, of which more is to be kept free."""
    return DiskSpace(directory=directory, free=1 << 40, reserved=1 << 50)


@pytest.mark.parametrize("operation", one_in(3, [one for one in OPERATIONS if one.name not in BELOW]), ids=lambda operation: operation.name)
def test_what_adds_to_a_short_disk_is_refused_and_all_else_is_done(
    dsn: str, tmp_path: Path, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(dsn, tmp_path) as short:
        made(short, "t", operation.options)
        operation.prepare(short, "t")
        with monkeypatch.context() as full:
            full.setattr(short.lake.reserve, "_space", used)  # no other server's of this process
            full.setattr(short.lake.reserve, "_directories", ("/disk",))
            short.lake.reserve._look()
            answers = operation.run(short, "t")
            short.settle(STRUCK_SECONDS)
        short.lake.reserve._look()
        expected = {507} if operation.name in REFUSED else {200}
        assert {answer.status for answer in answers} == expected, answers
        verified(short, operation, "t", answers)
