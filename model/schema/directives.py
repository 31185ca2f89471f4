"""Comments by which Paimon's own catalogs give a new column another type: of BLOBs, or of vectors."""

from __future__ import annotations

from model.errors import InvalidSchema

_DIRECTIVES = {"__BLOB": "BLOB", "__VECTOR": "VECTOR"}


def check_no_directive(column: str, comment: str | None) -> None:
    """Raise `InvalidSchema` for a comment that is no text for people: as one, the column would have the wrong type for good."""
    said = (comment or "").strip()
    for begin, type_ in _DIRECTIVES.items():
        if said.startswith(begin):
            raise InvalidSchema(
                f"The comment of column {column} begins with {begin}, which asks a Paimon catalog for a column of type {type_}; this one "
                f"takes the type itself: give the column the type {type_}, or write another comment."
            )
