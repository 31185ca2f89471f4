"""Comments by which Paimon's own catalogs give a new column another type: of BLOBs, or of vectors."""

from __future__ import annotations

from model.errors import InvalidSchema
from model.schema.type_parts import walk
from model.schema.types import BlobType, DataType, VectorType

_DIRECTIVES: dict[str, type[DataType]] = {"__BLOB": BlobType, "__VECTOR": VectorType}


def check_no_directive(column: str, comment: str | None, given: DataType) -> None:
    """Raise `InvalidSchema` for a comment that asks for another type than the ``given`` one, which the column would have for good."""
    said = (comment or "").strip()
    for begin, kind in _DIRECTIVES.items():
        if said.startswith(begin) and not any(isinstance(part, kind) for part in walk(given)):
            type_ = kind.root
            raise InvalidSchema(
                f"The comment of column {column} begins with {begin}, which asks a Paimon catalog for a column of type {type_}; this one "
                f"takes the type itself: give the column the type {type_}, or write another comment."
            )
