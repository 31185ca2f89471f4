"""Keys that table options had in earlier versions of Paimon."""

from __future__ import annotations

from collections.abc import Mapping

from model.options.table import TABLE_OPTIONS

_TODAY = {former: option.key for option in TABLE_OPTIONS for former in option.former}


def of_today(raw: Mapping[str, str]) -> dict[str, str]:
    """The same options under the keys they have by now; where a former one is given as well, today's counts, as in Paimon."""
    return {_TODAY.get(key, key): text for key, text in raw.items() if _TODAY.get(key) not in raw}


def names_of(key: str) -> tuple[str, ...]:
    """All keys that an option is or was known by, today's first."""
    today = _TODAY.get(key, key)
    return (today, *(former for former, now in _TODAY.items() if now == today))
