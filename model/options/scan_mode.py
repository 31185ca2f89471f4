"""The scan mode in force, and the option that says where to start (`paimon-append.md` §8.1)."""

from __future__ import annotations

from collections.abc import Mapping

from model.errors import InvalidOption
from model.options.table import TABLE_OPTIONS

_MODES = {
    "scan.timestamp": "from-timestamp",
    "scan.timestamp-millis": "from-timestamp",
    "scan.snapshot-id": "from-snapshot",
    "scan.tag-name": "from-snapshot",
    "scan.watermark": "from-snapshot",
    "scan.version": "from-snapshot",
    "scan.file-creation-time-millis": "from-file-creation-time",
    "scan.creation-time-millis": "from-creation-timestamp",
    "incremental-between": "incremental",
    "incremental-between-timestamp": "incremental",
    "incremental-to-auto-tag": "incremental",
}
_NEED_AN_OPTION = frozenset(_MODES.values()) | {"from-snapshot-full"}
TRAVEL_OPTIONS = frozenset(_MODES) | {"scan.mode"}
"""Options that make a read cover anything but the latest snapshot."""
SNAPSHOT_OPTIONS = frozenset(
    {"scan.timestamp", "scan.timestamp-millis", "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"}
)
"""Options of a batch read that name one snapshot, which is read by the schema it was committed with, as in Paimon."""
SNAPSHOT_OPTIONS_OF_BATCHES = SNAPSHOT_OPTIONS - {"scan.timestamp", "scan.timestamp-millis", "scan.snapshot-id"}
"""Those that no stream takes."""
INCREMENTAL_ALONE = frozenset({"incremental-between-scan-mode", "incremental-between-tag-to-snapshot"})
"""Options of incremental reads that name no starting point."""


def scan_mode(options: Mapping[str, str]) -> tuple[str, str | None]:
    """The mode, never ``default`` or ``full``, and its option; raises `InvalidOption` for what `paimon-append.md` calls an error."""
    keys = [key for key in _MODES if key in options]
    mode = str(TABLE_OPTIONS.read(options, "scan.mode"))
    mode = "latest-full" if mode == "full" else mode
    if len(keys) > 1:
        raise InvalidOption(f"The options {' and '.join(repr(key) for key in keys)} name two starting points; keep one of them.")
    key = keys[0] if keys else None
    if mode == "default":
        mode = _MODES[key] if key else "latest-full"
    elif key and mode.removesuffix("-full") != _MODES[key]:
        raise InvalidOption(f"Option 'scan.mode' = '{mode}' does not go with '{key}'.")
    elif key and mode == "from-snapshot-full" and key != "scan.snapshot-id":
        raise InvalidOption(f"Option 'scan.mode' = '{mode}' goes with 'scan.snapshot-id', not with '{key}'.")
    elif mode == "latest-delta" and (beside := sorted(INCREMENTAL_ALONE & {*options})):  # Java would not load the table
        raise InvalidOption(f"Option 'scan.mode' = '{mode}' does not go with '{beside[0]}', which is of incremental reads; RESET one.")
    elif not key and mode in _NEED_AN_OPTION:
        raise InvalidOption(f"Option 'scan.mode' = '{mode}' needs the option that says where to start.")
    return mode, key
