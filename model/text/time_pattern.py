"""Times in texts, read as Java's DateTimeFormatter reads them: what it refuses has no time here, either."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

_EPOCH = dt.datetime(1970, 1, 1)
_UNITS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "fraction"}
_DATE = ("year", "month", "day")
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<other>.)", re.DOTALL)
_DEFAULT = re.compile(
    r"(?P<year>[0-9]{1,10})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
)
"""What Paimon reads where no formatter is given (`PartitionTimeExtractor`): digits without dashes are no time."""


class TimePattern:
    """A pattern such as `yyyy-MM-dd HH:mm`; raises `ValueError` for letters that are not read here, and for what is none."""

    def __init__(self, pattern: str) -> None:
        try:
            self._regex = re.compile("".join(_parts(pattern)))
        except re.error:
            raise ValueError("a unit of time stands in it twice") from None

    def millis(self, text: str) -> int | None:
        """The time in milliseconds since 1970, without a zone; None where the text is none, or tells no day."""
        match = self._regex.fullmatch(text)
        if match is None:
            return None
        units = _numbers(match)
        if not units.keys() >= {*_DATE} or not _in_bounds(units):
            return None
        if "hour" not in units or ("second" in units and "minute" not in units):  # Java takes it for a date, which begins at midnight
            units = {unit: units[unit] for unit in _DATE}
        _, days = calendar.monthrange(units["year"], units["month"])
        return _millis({**units, "day": min(days, units["day"])})  # the 31st of a shorter month is its last day


@lru_cache(maxsize=256)
def time_pattern(pattern: str) -> TimePattern:
    """A pattern, read once."""
    return TimePattern(pattern)


def default_millis(text: str) -> int | None:
    """The time of a text such as `2024-5-6` or `2024-05-06 07:08:09.5`; a day too many is one of the next month, as in Java."""
    match = _DEFAULT.fullmatch(text)
    return None if match is None else _millis(_numbers(match))


def _parts(pattern: str) -> Iterator[str]:
    """The regular expression of each token of a pattern."""
    tokens = list(_TOKEN.finditer(pattern))
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if (quoted := token["quoted"]) is not None:
            yield re.escape(quoted.replace("''", "'") or "'")
        elif (letters := token["letters"]) is not None:
            following = after["letters"] or "" if after is not None else ""
            yield _number(letters, fixed_behind=len(following) > 1 or following == "S")
        elif token["other"] in "'[]{}#":
            raise ValueError(f"{token['other']} is not read here")
        else:
            yield re.escape(token["other"])


def _number(letters: str, *, fixed_behind: bool) -> str:
    """Digits of a unit: as many as there are letters, or any number of them; those of a fixed number behind are not taken."""
    unit, width = _UNITS.get(letters[0]), len(letters)
    widths = {"year": (1, 4), "fraction": range(1, 10)}.get(unit or "", (1, 2))
    if unit is None or width not in widths:
        raise ValueError("only yyyy, MM, dd, HH, mm, ss and S are read here")
    if width == 1 and unit != "fraction":
        return f"(?P<{unit}>[0-9]{{1,19}})" + ("" if fixed_behind else "(?![0-9])")
    return f"(?P<{unit}>[0-9]{{{width}}})"


def _numbers(match: re.Match[str]) -> dict[str, int]:
    texts = {unit: text for unit, text in match.groupdict().items() if text is not None}
    if "fraction" in texts:
        texts["fraction"] = texts["fraction"].ljust(9, "0")
    return {unit: int(text) for unit, text in texts.items()}


def _in_bounds(units: Mapping[str, int]) -> bool:
    most = {"month": 12, "day": 31, "hour": 23, "minute": 59, "second": 59}
    if units.get("hour") == 24 and not any(units.get(unit) for unit in ("minute", "second", "fraction")):
        most["hour"] = 24
    return all(value <= most.get(unit, value) for unit, value in units.items()) and units["month"] > 0 and units["day"] > 0


def _millis(units: Mapping[str, int]) -> int | None:
    """None for what Python's calendar does not know."""
    try:
        years, month = divmod(units["month"] - 1, 12)
        moment = dt.datetime(units["year"] + years, month + 1, 1) + dt.timedelta(
            days=units["day"] - 1, hours=units.get("hour", 0), minutes=units.get("minute", 0), seconds=units.get("second", 0)
        )
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1) + units.get("fraction", 0) // 1_000_000
