"""Small lines and bars as SVG, for pages whose pictures need no script."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.points import JobPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of values over time, ready to be drawn in a box of 100 × 100."""

    path: str
    area: str
    least: float
    most: float
    last: float
    begin: float
    """Seconds since 1970."""
    end: float


def line(points: Sequence[tuple[float, float]], *, most_points: int = 120) -> Line | None:
    """The line through (time, value) pairs, its foot at 0; None for fewer than two."""
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    begin, end = points[0][0], points[-1][0]
    step = max(1, len(points) // most_points)
    thinned = [max(points[at : at + step], key=lambda point: point[1]) for at in range(0, len(points) - 1, step)] + [points[-1]]
    most = max(value for _, value in points)
    scale = most or 1.0
    placed = [(100 * (at - begin) / (end - begin), 100 - 100 * value / scale) for at, value in thinned]
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in placed)
    area = f"{path}L{placed[-1][0]:.2f} 100L{placed[0][0]:.2f} 100Z"
    return Line(path=path, area=area, least=min(v for _, v in points), most=most, last=points[-1][1], begin=begin, end=end)


def lag_unit(points: Sequence[JobPoint]) -> str:
    """What a job's lag is drawn in: ``records`` where a source tells them, else ``snapshots``; two units are in no one line."""
    return "records" if any(point.lag and point.lag.records is not None for point in points) else "snapshots"


def lag_line(points: Sequence[JobPoint], unit: str) -> Line | None:
    """How far a job's sources were ahead of it, in one unit."""
    counts = [(point.at, point.lag.by_unit().get(unit)) for point in points if point.lag]
    return line([(at, float(count)) for at, count in counts if count is not None])


def rate_line(points: Sequence[JobPoint]) -> Line | None:
    """Rows a second between one point and the next."""
    pairs = itertools.pairwise(points)
    return line([(b.at, max(0.0, (b.rows - a.rows) / (b.at - a.at))) for a, b in pairs if b.at > a.at])
