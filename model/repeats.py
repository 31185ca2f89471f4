"""Log lines of what fails again and again while a disk, a store or Postgres is away."""

from __future__ import annotations

REPEATS = {"repeats": True}
"""The ``extra`` of such a line: of those of one logger and wording the server tells one a minute, and how many more there were."""
