"""What can be set of the looks at tables that nobody uses; `server.settings.options` declares it among the rest."""

from __future__ import annotations

from datetime import timedelta

from model.options.option import Option, duration, integer

LIST_INTERVAL = Option(
    "looks.list-interval",
    duration(),
    timedelta(days=1),
    "How often the listings of a table's directories are held against the catalog, by each server: a store bills five of them a table. "
    "Where something was committed since, once an hour at most; what they cost stands in "
    "[scaling](scaling.md#what-looking-at-tables-costs).",
)
TABLES = Option(
    "looks.tables",
    integer(at_least=0, at_most=10_000),
    20,
    "How many tables and branches each server looks at every five seconds, in turns, for what was written past the catalog or is missing, "
    "without a listing: eight small requests to a store each. All are looked at once at the start, and each when it is used.",
)
