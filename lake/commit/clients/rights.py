"""What a client's commit takes of its caller, called where it does something that only some may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID


def nothing(*_: object) -> None:
    """A right that everybody has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What raises for a caller who may not do something."""

    insert: Callable[[], None] = nothing
    """Add rows."""
    delete: Callable[[], None] = nothing
    """Take rows away."""
    replace: Callable[[UUID], None] = nothing
    """Put other files in the place of some of this table, with as many rows: a compaction, whose rows nobody compares."""
    index: Callable[[UUID], None] = nothing
    """Add an index of this table's values, which nobody compares with them."""
    table: Callable[[UUID], None] = nothing
    """Have the others said of this table, whatever is called by its name."""

    take_over: bool = True
    """Go on with a writer, by its ``commitUser``, that was another principal's."""


EVERY_RIGHT = Rights()
