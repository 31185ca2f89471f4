"""Paimon's types for shapes, kept for its own clients: a coordinate reference system, and an algorithm for edges on the earth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from model.errors import UnsupportedType
from model.schema.base_type import DataType
from model.text.sql_text import literal

_DEFAULT_CRS = "OGC:CRS84"
_EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_PLAIN_CRS = re.compile(r"[^\s<>(),.'`\d][^\s<>(),.'`]*")
"""What Paimon spells without quotes."""
_TYPE = re.compile(
    r"(?P<root>GEOMETRY|GEOGRAPHY)"
    r"(?:\s*\(\s*(?:'(?P<quoted>(?:[^']|'')+)'|(?P<plain>[^\s<>(),.'`]+))\s*(?:,\s*(?P<quote>'?)(?P<algorithm>[A-Z]+)(?P=quote)\s*)?\))?"
    r"(?P<null>\s+(?:NOT\s+)?NULL)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryType(DataType):
    """Shapes in a plane; no key and without statistics, as in Paimon."""

    root: ClassVar[str] = "GEOMETRY"
    crs: str = _DEFAULT_CRS

    def sql(self) -> str:
        return f"{self.root}({self._crs()})"

    def _crs(self) -> str:
        return self.crs if _PLAIN_CRS.fullmatch(self.crs) else literal(self.crs)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeographyType(GeometryType):
    """Shapes on the surface of the earth, whose edges an algorithm draws."""

    root: ClassVar[str] = "GEOGRAPHY"
    algorithm: str = _EDGE_ALGORITHMS[0]

    def sql(self) -> str:
        return f"{self.root}({self._crs()}, {self.algorithm})"


def parse_geospatial(text: str) -> GeometryType | None:
    """Read one of these types, None where it is another; raise `UnsupportedType` for an algorithm that Paimon does not know."""
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        return None
    nullable = "NOT" not in (match["null"] or "").upper()
    crs = (match["quoted"] or "").replace("''", "'") or match["plain"] or _DEFAULT_CRS
    algorithm = match["algorithm"]
    if match["root"].upper() == "GEOMETRY":
        if algorithm is not None:
            raise UnsupportedType(f"There is no type {text!r}: a GEOMETRY has no algorithm for edges.")
        return GeometryType(crs=crs, nullable=nullable)
    if algorithm is None:
        return GeographyType(crs=crs, nullable=nullable)
    if algorithm.lower() not in _EDGE_ALGORITHMS:
        raise UnsupportedType(f"There is no type {text!r}: the algorithms for edges are {', '.join(_EDGE_ALGORITHMS)}.")
    return GeographyType(crs=crs, algorithm=algorithm.lower(), nullable=nullable)
