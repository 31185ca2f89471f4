"""What a result's reader is to know beside the rows, as headers of HTTP and of gRPC, which hold only ASCII."""

from __future__ import annotations

import json
from collections.abc import Sequence

HEADER = "X-Notice"
_MOST_BYTES = 3000
"""Of all together: a proxy takes heads of 4 KiB unless told otherwise, and refuses the whole answer for a longer one."""


def header_values(notices: Sequence[str]) -> list[str]:
    """The values of one header each: with JSON's escapes, without the quotes.

    Of too many, or one that is too long, the first are told, and how many more there are.
    """
    values, left = [json.dumps(notice)[1:-1] for notice in notices], _MOST_BYTES
    for at, value in enumerate(values):
        left -= len(value)
        if left < 0:
            rest = len(values) - at
            return [*values[:at], f"{rest} more {'notice' if rest == 1 else 'notices'} did not fit here; sys.damaged_tables lists tables."]
    return values
