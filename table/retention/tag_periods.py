"""The periods a table makes tags for, and the tags' names (`paimon-append.md` §10, tag.*)."""

from __future__ import annotations

import datetime as dt

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema

_PERIODS = {"daily": dt.timedelta(days=1), "hourly": dt.timedelta(hours=1), "two-hours": dt.timedelta(hours=2)}
_FORMATS = {
    "with_dashes": ("%Y-%m-%d", "%Y-%m-%d %H"),
    "without_dashes": ("%Y%m%d", "%Y%m%d %H"),
    "without_dashes_and_spaces": ("%Y%m%d", "%Y%m%d%H"),
}


class TagPeriods:
    """A table's periods and the names their tags get; a period's tag has the name of the time it began."""

    def __init__(self, schema: Schema) -> None:
        free = _option(schema, "tag.creation-period-duration")
        named = str(_option(schema, "tag.creation-period"))
        self.length = free if isinstance(free, dt.timedelta) else _PERIODS[named]
        whole, hours = _FORMATS[str(_option(schema, "tag.period-formatter"))]
        if isinstance(free, dt.timedelta):
            self.format = "%Y%m%d%H%M" if "dashes" not in str(_option(schema, "tag.period-formatter")) else "%Y-%m-%d %H:%M"
        else:
            self.format = whole if named == "daily" else hours

    def begin(self, moment: dt.datetime) -> dt.datetime:
        """When the period a moment lies in began."""
        start = dt.datetime(1970, 1, 1)
        return moment - (moment - start) % self.length

    def name(self, begin: dt.datetime) -> str:
        """The tag's name."""
        return begin.strftime(self.format)

    def parse(self, name: str) -> dt.datetime | None:
        """When the period of a tag of that name began; None for a tag somebody made by hand."""
        try:
            return dt.datetime.strptime(name, self.format)
        except ValueError:
            return None


def _option(schema: Schema, key: str) -> object:
    return TABLE_OPTIONS.read(schema.options, key)
