"""The periods a table makes tags for, and the tags' names (`paimon-append.md` §10, tag.*)."""

from __future__ import annotations

import datetime as dt
import re

from model.options.maintenance import PERIODS
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema

_FORMATS = {
    "with_dashes": ("%Y-%m-%d", "%Y-%m-%d %H"),
    "without_dashes": ("%Y%m%d", "%Y%m%d %H"),
    "without_dashes_and_spaces": ("%Y%m%d", "%Y%m%d%H"),
}
_FREE, _TWO_HOURS = "%Y%m%d%H%M", "%Y-%m-%d %H"
"""Whatever `tag.period-formatter` says (`TagPeriodHandler`)."""
_FREE_BEFORE = "%Y-%m-%d %H:%M"
"""What earlier versions of this server called the tags of a free period; those of two hours followed the formatter."""
_WIDTHS = {"%Y": "[0-9]{4}", "%m": "[0-9]{2}", "%d": "[0-9]{2}", "%H": "[0-9]{2}", "%M": "[0-9]{2}"}


class TagPeriods:
    """A table's periods and the names their tags get, which are Paimon's; a period's tag has the name of the time it began."""

    def __init__(self, schema: Schema) -> None:
        free = _option(schema, "tag.creation-period-duration")
        named = str(_option(schema, "tag.creation-period"))
        self.length = free if isinstance(free, dt.timedelta) else PERIODS[named]
        whole, hours = _FORMATS[str(_option(schema, "tag.period-formatter"))]
        if isinstance(free, dt.timedelta):
            self._formats: tuple[str, ...] = (_FREE, _FREE_BEFORE)
        elif named == "two-hours":
            self._formats = (_TWO_HOURS, hours)
        else:
            self._formats = (whole, f"{whole} %H") if named == "daily" else (hours,)  # Paimon counts hourly tags among daily ones

    def begin(self, moment: dt.datetime) -> dt.datetime:
        """When the period a moment lies in began."""
        start = dt.datetime(1970, 1, 1)
        return moment - (moment - start) % self.length

    def name(self, begin: dt.datetime) -> str:
        """The tag's name."""
        return begin.strftime(self._formats[0].replace("%Y", f"{begin.year:04}"))

    def parse(self, name: str) -> dt.datetime | None:
        """When the period of a tag of that name began; None for a tag somebody made by hand, such as `2024-1-5` or `202411`."""
        for format_ in self._formats:
            if not re.fullmatch(re.sub("%.", lambda unit: _WIDTHS[unit[0]], format_), name):
                continue
            try:
                return dt.datetime.strptime(name, format_)
            except ValueError:
                continue
        return None


def _option(schema: Schema, key: str) -> object:
    return TABLE_OPTIONS.read(schema.options, key)
