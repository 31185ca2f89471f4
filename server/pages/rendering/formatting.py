"""Numbers, sizes and times as people read them."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_NONE = "–"


def count(value: float | None) -> str:
    """A number with its thousands parted: ``1 234 567``."""
    return _NONE if value is None else f"{value:,.0f}".replace(",", "\u202f")


def size(value: float | None) -> str:
    """Bytes in three digits."""
    if value is None:
        return _NONE
    amount, unit = float(value), 0
    while abs(amount) >= 999.5 and unit < len(_UNITS) - 1:
        amount /= 1000
        unit += 1
    digits = 0 if unit == 0 or amount >= 99.5 else 1 if amount >= 9.95 else 2
    return f"{amount:.{digits}f}\u00a0{_UNITS[unit]}"


def span(seconds: float | None) -> str:
    """A length of time in its largest unit or two."""
    if seconds is None:
        return _NONE
    if seconds < 1:
        return f"{seconds * 1000:.0f}\u00a0ms"
    if seconds < 10:
        return f"{seconds:.1f}\u00a0s"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}\u00a0{unit}"
    return f"{seconds:.0f}\u00a0s"


def moment_of(value: Any) -> dt.datetime | None:
    """Milliseconds, or a time with or without zone (which is UTC), as a time in UTC; None for none."""
    if value is None or value == 0:
        return None
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    try:
        return dt.datetime.fromtimestamp(value / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return None


def ago(value: Any) -> Markup | str:
    """How long ago, with the time itself for whoever points at it."""
    moment = moment_of(value)
    if moment is None:
        return _NONE
    passed = time.time() - moment.timestamp()
    text = "just now" if abs(passed) < 2 else f"{span(passed)} ago" if passed > 0 else f"in {span(-passed)}"
    return _time(moment, text)


def moment(value: Any) -> Markup | str:
    """A time to the second, in UTC."""
    instant = moment_of(value)
    return _NONE if instant is None else _time(instant, f"{instant:%Y-%m-%d %H:%M:%S}")


def _time(moment: dt.datetime, text: str) -> Markup:
    stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, f"{moment:%Y-%m-%d %H:%M:%S} UTC", text)


def percent(value: float | None) -> str:
    """A share."""
    return _NONE if value is None else f"{value * 100:.0f}\u00a0%"


def cell(value: Any) -> Markup | str:
    """Any value of a row; NULL is told from the text NULL."""
    if value is None:
        return Markup('<span class="null">NULL</span>')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        text = value[:64].hex()
        return f"0x{text}{'…' if len(value) > 64 else ''}"
    text = str(value)
    return escape(text if len(text) <= 300 else f"{text[:300]}…")


def plural(value: int, one: str, many: str = "") -> str:
    """``3 files``, ``1 file``."""
    return f"{count(value)}\u00a0{one if value == 1 else many or one + 's'}"


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count,
    "size": size,
    "span": span,
    "ago": ago,
    "moment": moment,
    "percent": percent,
    "cell": cell,
    "plural": plural,
}
"""``count`` takes the place of Jinja's own name for ``length``, which stays under that name."""
