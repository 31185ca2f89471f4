"""Pictures as numbers: where bars, cells and lines lie, for templates that draw them as SVG."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from lake.inspect.browse import BucketShare, Step
from model.snapshot import Snapshot
from server.pages.rendering.formatting import count, plural, size, span

_STEPS_OF_HEAT = 5
_MOST_CELLS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a histogram."""

    x: float
    y: float
    width: float
    height: float
    label: str
    summary: str
    files: int
    warn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A histogram."""

    width: int
    height: int
    bars: tuple[Bar, ...]


def histogram(steps: Sequence[Step], *, small_below: int, width: int = 560, height: int = 132) -> Bars:
    """Files by size, up to where they are no longer small; steps that are small throughout are marked."""
    steps = [*steps]
    while steps and steps[-1].high < small_below:
        steps.append(Step(low=steps[-1].high, high=4 * steps[-1].high, files=0, size=0))
    most = max((step.files for step in steps), default=1)
    wide = min(64.0, width / max(1, len(steps)))
    bars = []
    for i, step in enumerate(steps):
        high = 0.0 if not step.files else max(2.0, (height - 4) * step.files / most)
        summary = f"{plural(step.files, 'file')} from {size(step.low)} to {size(step.high)}, {size(step.size)} together"
        warn = step.high <= small_below
        bars.append(
            Bar(
                x=i * wide + 1,
                y=height - high,
                width=wide - 2,
                height=high,
                label=size(step.low),
                summary=summary,
                files=step.files,
                warn=warn,
            )
        )
    return Bars(width=max(round(wide * len(steps)), 1), height=height, bars=tuple(bars))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One bucket of one partition."""

    share: BucketShare
    x: int
    y: int
    heat: int
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    """A partition's buckets together."""

    name: str
    y: int
    files: int
    rows: int
    size: int
    buckets: int
    oldest_millis: int
    newest_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """Partitions as rows, buckets as cells, the darker the more bytes."""

    cells: tuple[Cell, ...]
    lines: tuple[PartitionLine, ...]
    columns: int
    partitions: int
    """How many there are in all."""
    skew: float | None
    """The fullest bucket over the mean one, in what the cells are dark for; None with fewer than two."""
    largest: BucketShare | None
    most_bytes: int
    """What the largest of the partitions shown holds."""
    low: str
    high: str
    """What the palest and the darkest cells stand for."""


CELL, GAP = 22, 3
SHADES = {"size": "bytes", "rows": "rows", "files": "files", "age": "time since it was last written"}
"""What the cells of a heat map can be dark for."""


def heat_map(shares: Sequence[BucketShare], *, by: str = "size", most: int = 40) -> Heat:
    """The newest partitions by name, and all their buckets up to a page's width; darker for more of what ``SHADES`` names."""
    by_partition: dict[str, list[BucketShare]] = {}
    for share in shares:
        by_partition.setdefault(share.partition, []).append(share)
    chosen = sorted(by_partition, reverse=True)[:most]
    newest = max((share.newest_millis for share in shares), default=0)

    def weight(share: BucketShare) -> int:
        return {"size": share.size, "rows": share.rows, "files": share.files, "age": newest - share.newest_millis}[by]

    darkest = max(map(weight, shares), default=1) or 1
    cells = [
        Cell(
            share=share,
            x=j * (CELL + GAP),
            y=i * (CELL + GAP),
            heat=min(_STEPS_OF_HEAT - 1, int(_STEPS_OF_HEAT * weight(share) / darkest)),
            summary=_summary(share),
        )
        for i, name in enumerate(chosen)
        for j, share in enumerate(by_partition[name][:_MOST_CELLS])
    ]
    lines = [_partition_line(name, by_partition[name], y=i * (CELL + GAP)) for i, name in enumerate(chosen)]
    weights = [share.size if by == "age" else weight(share) for share in shares]
    fullest, mean = max(weights, default=0), sum(weights) / len(weights) if weights else 0
    columns = min(_MOST_CELLS, max((len(by_partition[name]) for name in chosen), default=0))
    return Heat(
        cells=tuple(cells),
        lines=tuple(lines),
        columns=columns,
        partitions=len(by_partition),
        skew=fullest / mean if len(shares) > 1 and mean else None,
        largest=max(shares, key=lambda share: share.size, default=None),
        most_bytes=max((line.size for line in lines), default=1) or 1,
        low="newest" if by == "age" else "little",
        high=f"{span(darkest / 1000)} before it" if by == "age" else size(darkest) if by == "size" else count(darkest),
    )


def _summary(share: BucketShare) -> str:
    place = f"bucket {share.bucket}" + (f" of {share.partition}" if share.partition else "")
    written = span(max(0.0, time.time() - share.newest_millis / 1000))
    return f"{place}: {size(share.size)}, {plural(share.rows, 'row')}, {plural(share.files, 'file')}, last written {written} ago"


def _partition_line(name: str, buckets: Sequence[BucketShare], *, y: int) -> PartitionLine:
    return PartitionLine(
        name=name,
        y=y,
        files=sum(bucket.files for bucket in buckets),
        rows=sum(bucket.rows for bucket in buckets),
        size=sum(bucket.size for bucket in buckets),
        buckets=len(buckets),
        oldest_millis=min(bucket.oldest_millis for bucket in buckets),
        newest_millis=max(bucket.newest_millis for bucket in buckets),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line over time, and the area below it."""

    line: str
    area: str
    width: int
    height: int
    summary: str
    first: Snapshot
    last: Snapshot


def growth(snapshots: Sequence[Snapshot], *, width: int = 560, height: int = 96) -> Line | None:
    """Rows over the snapshots that are kept, as steps in time; None with fewer than two."""
    if len(snapshots) < 2:
        return None
    first, last = snapshots[0], snapshots[-1]
    length = max(1, last.time_millis - first.time_millis)
    low = min(s.total_record_count for s in snapshots)
    low = 0 if low < max(s.total_record_count for s in snapshots) / 2 else low
    most = max(1, max(s.total_record_count for s in snapshots) - low)
    thin = snapshots[:: max(1, len(snapshots) // 240)]
    if thin[-1] is not last:
        thin = [*thin, last]
    points: list[str] = []
    before: float | None = None
    for snapshot in thin:
        x = width * (snapshot.time_millis - first.time_millis) / length
        y = height - 3 - (height - 6) * (snapshot.total_record_count - low) / most
        if before is not None:
            points.append(f"{x:.1f},{before:.1f}")
        points.append(f"{x:.1f},{y:.1f}")
        before = y
    summary = f"From {count(first.total_record_count)} to {plural(last.total_record_count, 'row')} in {len(snapshots)} snapshots"
    area = f"0,{height} {' '.join(points)} {width},{height}"
    return Line(line=" ".join(points), area=area, width=width, height=height, summary=summary, first=first, last=last)
