"""Options of other clients that list columns, whose values lie in files of their own."""

from __future__ import annotations

from collections.abc import Mapping

BLOB_FIELD = "blob-field"
INLINE_BLOBS = ("blob-descriptor-field", "blob-view-field")
BLOB_LISTS = (BLOB_FIELD, *INLINE_BLOBS)
VECTOR_FIELD = "vector-field"
_FORMER = {"blob-descriptor-field": "blob.stored-descriptor-fields"}
LISTS_OF_BLOBS = (*BLOB_LISTS, *_FORMER.values())
"""By them Java's clients know in which files BLOBs lie; each is read under its former key, too."""
COLUMN_LISTS = (*LISTS_OF_BLOBS, VECTOR_FIELD)


def listed_columns(options: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The columns that an option names, also under its former key."""
    text = options.get(key, options.get(_FORMER.get(key, key), ""))
    return tuple(name for part in text.split(",") if (name := part.strip()))


def without_column(options: dict[str, str], name: str) -> None:
    """Strike a column that is dropped; a list of no column goes."""
    _replace(options, name, ())


def renamed_column(options: dict[str, str], name: str, to: str) -> None:
    """Let the lists follow a column's new name, in which there is no comma."""
    _replace(options, name, (to,))


def _replace(options: dict[str, str], name: str, by: tuple[str, ...]) -> None:
    for key in COLUMN_LISTS:
        listed = [part.strip() for part in options.get(key, "").split(",")]
        if name not in listed:
            continue
        options[key] = ",".join(now for each in listed for now in (by if each == name else (each,)) if now)
        if not options[key]:
            del options[key]
