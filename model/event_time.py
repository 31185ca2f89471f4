"""How far ahead of the clock event time may be."""

from __future__ import annotations

import time

_FURTHEST_AHEAD = 366 * 86_400_000


def is_far_ahead(watermark: int) -> bool:
    """Whether a watermark, in milliseconds since 1970, lies more than a year ahead of the clock.

    Event time of the next year is possible. A watermark that can never be passed is not: every later snapshot inherits it.
    """
    return watermark > time.time_ns() // 1_000_000 + _FURTHEST_AHEAD
