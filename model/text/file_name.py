"""What messages call a file, and that they show none of the server's own directories."""

from __future__ import annotations

import re

_PATH = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/[^\s'\"`<>|,;()]*")
_PLACES: set[str] = set()
_WITH_SPACES: set[str] = set()


def file_name(path: str) -> str:
    """Its last name: the directories above it are the server's, and name partitions that a policy may hide."""
    return path.rstrip("/").rpartition("/")[2] or path


def hide_places(*directories: str) -> None:
    """Let these directories of the server stand in no message for callers; see `without_places`."""
    for directory in directories:
        place = directory.rstrip("/").removeprefix("file://")
        if len(place) > 1:
            (_WITH_SPACES if re.search(r"\s", place) else _PLACES).add(place)


def without_places(text: str) -> str:
    """A message with each path that leads into a directory of the server by its last name alone, whoever wrote it into the text.

    A name that may be a partition's, whose rows the caller need not see, is left out too.
    """
    if "/" not in text:
        return text
    for place in _WITH_SPACES:
        text = text.replace(place, "…")
    return _PATH.sub(_shortened, text)


def _shortened(match: re.Match[str]) -> str:
    path = match[0]
    place = path.removeprefix("file:").rstrip(".:")  # of the sentence
    place = "/" + place.lstrip("/") if place.startswith("/") else place
    while place not in _PLACES:
        place = place.rpartition("/")[0]
        if not place or place.endswith("/"):
            return path
    name = file_name(path.rstrip(".:"))
    return ("…" if "=" in name else name) + path[len(path.rstrip(".:")) :]
