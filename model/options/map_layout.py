"""How MAPs lie in files: as pairs, or with the values of one key in a column, by an option of Paimon's Java clients."""

from __future__ import annotations

from collections.abc import Mapping

SHREDDED = "shared-shredding"
_BEFORE, _AFTER = "fields.", ".map.storage-layout"


def laid_out(key: str) -> str | None:
    """The column whose layout an option says; None where it says something else."""
    return key.removeprefix(_BEFORE).removesuffix(_AFTER) if key.startswith(_BEFORE) and key.endswith(_AFTER) else None


def layout_of(value: str) -> str:
    """The layout as Java reads it."""
    return value.strip().lower().replace("_", "-")


def shredded_maps(options: Mapping[str, str]) -> list[str]:
    """The columns whose new files Java writes with the values of one key in a column."""
    return [name for key, value in options.items() if (name := laid_out(key)) is not None and layout_of(value) == SHREDDED]
