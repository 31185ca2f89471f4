"""What may be said with a text that is to be run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from lake import Caller
from sql.parameters import Parameters


class Wishes(TypedDict, total=False):
    """How a text is run; all of it may be left out."""

    database: str | None
    """Where a fresh session begins, instead of in the default database."""
    settings: Mapping[str, str] | None
    """Over those of the session."""
    parameters: Parameters
    """Values of the text's placeholders."""
    timeout: float | None
    """Seconds for the whole text, waiting included."""
    idempotency_key: str | None
    """Under it the text runs once, however often it is sent."""
    caller: Caller
    name: str | None
    """What the client asks for it by while it runs."""
    max_rows: int | None
    """More rows are cut off."""
    dry_run: bool
    """One statement is looked at without its taking effect."""
    describe: bool
    """The one statement is not run: the result has its columns and no rows (`sql.describe`)."""
