"""Days and times as numbers and as Python's; those that Python has not are numbers that compare with Python's own."""

from __future__ import annotations

import datetime as dt
import re

_EPOCH = dt.datetime(1970, 1, 1)
EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The Gregorian calendar repeats itself."""
_MILLENNIUM = dt.datetime(2000, 1, 1)
_DATE = re.compile(r"([+-]?[0-9]{4,})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"(.+)[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,9}))?)?")


class FarDate(int):
    """A day outside the years 1 to 9999, in days since 1970."""

    def __lt__(self, other: dt.date | int) -> bool:
        return int(self) < days_of(other)

    def __le__(self, other: dt.date | int) -> bool:
        return int(self) <= days_of(other)

    def __gt__(self, other: dt.date | int) -> bool:
        return int(self) > days_of(other)

    def __ge__(self, other: dt.date | int) -> bool:
        return int(self) >= days_of(other)


class PaimonTime(int):
    """A time outside the years 1 to 9999, or with a part of a microsecond, in nanoseconds since 1970."""

    def __lt__(self, other: dt.datetime | int) -> bool:
        return int(self) < _epoch_nanos(other)

    def __le__(self, other: dt.datetime | int) -> bool:
        return int(self) <= _epoch_nanos(other)

    def __gt__(self, other: dt.datetime | int) -> bool:
        return int(self) > _epoch_nanos(other)

    def __ge__(self, other: dt.datetime | int) -> bool:
        return int(self) >= _epoch_nanos(other)


Time = dt.datetime | PaimonTime


def date_of(days: int) -> dt.date | FarDate:
    """The day so many days after 1970-01-01."""
    try:
        return dt.date.fromordinal(days + EPOCH_DAY)
    except (ValueError, OverflowError):
        return FarDate(days)


def time_of(micros: int, *, zoned: bool, nanos: int = 0) -> Time:
    """The time so many microseconds, and nanoseconds of another, after 1970; in UTC where it is of a zone."""
    try:
        value = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return PaimonTime(micros * 1000 + nanos)
    if nanos:
        return PaimonTime(micros * 1000 + nanos)
    return value.replace(tzinfo=dt.UTC) if zoned else value


def days_of(value: dt.date | int) -> int:
    """Days since 1970."""
    return value.toordinal() - EPOCH_DAY if isinstance(value, dt.date) else int(value)


def epoch_micros(value: Time) -> int:
    """Whole microseconds since the epoch; a zoned value is taken as the instant it is."""
    if isinstance(value, PaimonTime):
        return int(value) // 1000
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    delta = value - _EPOCH
    return (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds


def nanos_of(value: Time) -> int:
    """A time's nanoseconds beyond its whole microseconds."""
    return int(value) % 1000 if isinstance(value, PaimonTime) else 0


def _epoch_nanos(value: dt.datetime | int) -> int:
    return epoch_micros(value) * 1000 if isinstance(value, dt.datetime) else int(value)


def on_the_calendar(value: Time) -> tuple[int, dt.datetime]:
    """A time's year, and a time of whole microseconds that is like it in all but the year."""
    if isinstance(value, dt.datetime):
        return value.year, value
    return _on_the_calendar(epoch_micros(value))


def day_on_the_calendar(value: FarDate) -> tuple[int, dt.datetime]:
    """The same of a day."""
    return _on_the_calendar(value * 86_400_000_000)


def _on_the_calendar(micros: int) -> tuple[int, dt.datetime]:
    cycles, rest = divmod(micros - epoch_micros(_MILLENNIUM), _CYCLE_DAYS * 86_400_000_000)
    alike = _MILLENNIUM + dt.timedelta(microseconds=rest)
    return alike.year + cycles * _CYCLE_YEARS, alike


def year_text(year: int) -> str:
    """As `java.time` writes it: four digits, and a sign before others."""
    return ("-" if year < 0 else "+" if year > 9999 else "") + f"{abs(year):04d}"


def four_digits(year: int) -> str:
    """As Paimon's casts write it: the last four digits, of a negative year by what lies below "0"."""
    sign = -1 if year < 0 else 1
    return "".join(chr(ord("0") + sign * (abs(year) // power % 10)) for power in (1000, 100, 10, 1))


def date_text(value: dt.date | FarDate) -> str:
    """``2024-01-31``, ``+12000-01-31``, ``-0005-01-31``."""
    if isinstance(value, dt.date):
        return value.isoformat()
    year, day = day_on_the_calendar(value)
    return f"{year_text(year)}-{day:%m-%d}"


def parsed_date(text: str) -> dt.date | FarDate:
    """What `date_text` wrote; raises `ValueError` for any other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return dt.date.fromisoformat(text)
    cycles, year = divmod(int(match[1]) - _MILLENNIUM.year, _CYCLE_YEARS)
    alike = dt.date(_MILLENNIUM.year + year, int(match[2]), int(match[3]))
    return date_of(days_of(alike) + cycles * _CYCLE_DAYS)


def parsed_time(text: str) -> Time:
    """A time of no zone as Java and SQL write it, with years of any length and up to nine digits of a second; raises `ValueError`."""
    match = _TIME.fullmatch(text)
    if match is None:
        return dt.datetime.fromisoformat(text)
    clock = dt.timedelta(hours=int(match[2]), minutes=int(match[3]), seconds=int(match[4] or 0))
    if match[2] > "23" or match[3] > "59" or (match[4] or "") > "59":
        raise ValueError(text)
    fraction = (match[5] or "").ljust(9, "0")
    micros = (days_of(parsed_date(match[1])) * 86_400 + clock.seconds) * 1_000_000 + int(fraction[:6])
    return time_of(micros, zoned=False, nanos=int(fraction[6:]))
