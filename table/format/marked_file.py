"""Files of JSON that are removed as long as they are what they were when that was decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from table.format.json_document import parse_json
from table.format.store import TableFiles


def remove_marked(files: TableFiles, path: str, mark: Mapping[str, Any]) -> None:
    """Remove a file below the table's directory as long as it holds all that the mark says."""
    full = files.layout.inside(path)
    try:
        marks = parse_json(files.io.read(full))
    except (FileNotFoundError, ValueError):
        return
    if isinstance(marks, dict) and all(marks.get(key) == value for key, value in mark.items()):
        files.io.delete(full)
