"""Work that may take long asks between its steps whether it is to go on."""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[], None]
"""Called between steps; raises where the work is to stop."""


def go_on() -> None:
    """A check that never stops."""
