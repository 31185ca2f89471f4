"""Tags made by themselves: one for each period of time, or one for each day's batch writes (`paimon-append.md` §10, tag.*)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lake.commit.steps import Steps
from lake.register.whole import require_newest_readable
from lake.rewrite import expiry as retention
from lake.rewrite.expiry import Tag, tags_of
from lake.tables.handle import LakeTable
from model.event_time import is_far_ahead
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from model.snapshot import CommitKind, Snapshot
from model.wall_clock import utc_of
from table.retention.tag_periods import TagPeriods

if TYPE_CHECKING:
    from lake.lake import Lake

_MOST_COMPLETED = 100
"""Missed periods made up for at once."""
_BATCH = "batch-write-"
"""What the names of tags that follow batch writes begin with."""
_PAGE = 500
"""Snapshots looked through at once."""


def _option(schema: Schema, key: str) -> object:
    return TABLE_OPTIONS.read(schema.options, key)


def create_automatic_tags(lake: Lake, table: LakeTable, *, now: dt.datetime | None = None, dry_run: bool = False) -> list[str]:
    """Make the tags that are due, and drop those beyond `tag.num-retained-max`; returns the names of the new ones."""
    schema = table.schema
    mode = _option(schema, "tag.automatic-creation")
    latest = table.latest()
    if mode == "none" or latest is None:
        return []
    retained = _option(schema, "tag.default-time-retained")
    keep = retained if isinstance(retained, dt.timedelta) else None
    tags = tags_of(lake, table)
    if mode == "batch":
        named = _batch(lake, table, latest, tags, keep, dry_run=dry_run)
        if named and not dry_run:
            _keep_newest(lake, table, lambda tag: tag.snapshot.id if tag.name.startswith(_BATCH) else None)
        return named
    periods = TagPeriods(schema)
    moments = [(latest, _now(lake, schema, now))] if mode == "process-time" else _past_periods(lake, table, latest, periods, tags)
    known = [begin for tag in tags if (begin := periods.parse(tag.name)) is not None]
    made = []
    for snapshot, clock in moments:
        for begin in _due(schema, periods, known, clock):
            retention.create_tag(lake, table, periods.name(begin), snapshot_id=snapshot.id, retained=keep, dry_run=dry_run)
            made.append(periods.name(begin))
            known.append(begin)
    if made and not dry_run:
        _keep_newest(lake, table, lambda tag: periods.parse(tag.name))
    return made


def _batch(
    lake: Lake, table: LakeTable, latest: Snapshot, tags: list[Tag], keep: dt.timedelta | None, *, dry_run: bool = False
) -> list[str]:
    """One tag a day that follows the last write."""
    custom = _option(table.schema, "tag.batch.customized-name")
    with lake.catalog.reading() as tx:
        row = tx.snapshots.by_uuid(table.table_id, latest.key, table.identifier.branch)
    written = utc_of(row.made_millis if row else latest.time_millis)  # by a clock that is behind it would take another day's tag
    name = str(custom) if custom else f"{_BATCH}{written.astimezone(_zone(table.schema)):%Y-%m-%d}"
    there = next((tag for tag in tags if tag.name == name), None)
    if latest.commit_kind is CommitKind.COMPACT or (there is not None and there.snapshot.id >= latest.id):
        return []
    keep_it = retention.create_tag if there is None else retention.replace_tag
    keep_it(lake, table, name, snapshot_id=latest.id, retained=keep, dry_run=dry_run)
    return [name]


def _now(lake: Lake, schema: Schema, now: dt.datetime | None) -> dt.datetime:
    """The wall clock of tags: Postgres's, as servers whose own differ would make tags of different periods in turns."""
    if now is not None:
        return now
    with lake.catalog.reading() as tx:
        millis = tx.state.now_millis()
    return utc_of(millis).astimezone(_zone(schema)).replace(tzinfo=None)


def _zone(schema: Schema) -> ZoneInfo | None:
    """The zone by whose clock tags are named; None for the server's."""
    zone = _option(schema, "sink.process-time-zone")
    return ZoneInfo(str(zone)) if zone else None


def _past_periods(
    lake: Lake, table: LakeTable, latest: Snapshot, periods: TagPeriods, tags: list[Tag]
) -> Iterator[tuple[Snapshot, dt.datetime]]:
    """The snapshots after the last automatic tag's whose watermark went into another period, oldest first.

    A tag is to keep the first snapshot behind its period (`TagAutoCreation`): the newest may hold rows of many later ones.
    """
    automatic = [(begin, tag.snapshot.id) for tag in tags if (begin := periods.parse(tag.name)) is not None]
    reached = _watermark(table.schema, latest)
    if reached is None or not _due(table.schema, periods, [begin for begin, _ in automatic], reached):
        return
    at = min(max(automatic)[1], latest.id - 1) + 1 if automatic else 0
    before = None
    while at <= latest.id:
        with lake.catalog.reading() as tx:
            rows = tx.snapshots.since(table.table_id, table.identifier.branch, at, limit=_PAGE)
        if not rows:
            return
        for snapshot in (Snapshot.from_json(row.body) for row in rows):
            clock = _watermark(table.schema, snapshot)
            if clock is not None and clock != before and snapshot.id <= latest.id:
                before = clock
                yield snapshot, clock
        at = rows[-1].snapshot_id + 1


def _watermark(schema: Schema, snapshot: Snapshot) -> dt.datetime | None:
    """What time it is by a snapshot's rows; none where that is far ahead, as its tags would be the newest for ever."""
    if snapshot.watermark is None or is_far_ahead(snapshot.watermark):
        return None
    zone = ZoneInfo(str(_option(schema, "sink.watermark-time-zone")))
    try:
        return dt.datetime.fromtimestamp(snapshot.watermark / 1000, zone).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):  # Flink's writers say by the least number that there is none yet
        return None


def _due(schema: Schema, periods: TagPeriods, known: Sequence[dt.datetime], clock: dt.datetime) -> list[dt.datetime]:
    """The periods that have ended, the delay included, and have no tag; all missed ones only with `tag.automatic-completion`."""
    delay = _option(schema, "tag.creation-delay")
    assert isinstance(delay, dt.timedelta)
    newest = periods.begin(clock - delay) - periods.length
    if newest in known or (known and newest < max(known)):
        return []
    if not known or not _option(schema, "tag.automatic-completion"):
        return [newest]
    first = max(known) + periods.length
    missed = (newest - first) // periods.length + 1
    return [first + number * periods.length for number in range(max(0, missed - _MOST_COMPLETED), missed)]


def _keep_newest(lake: Lake, table: LakeTable, age_of: Callable[[Tag], Any]) -> None:
    """Drop the oldest of the tags that have an age, which those made by themselves have, beyond `tag.num-retained-max`."""
    most = _option(table.schema, "tag.num-retained-max")
    if not isinstance(most, int):
        return
    automatic = sorted((age, tag.name) for tag in tags_of(lake, table) if (age := age_of(tag)) is not None)
    branched = _branched(lake, table)
    too_many = [tag for tag in automatic[: max(0, len(automatic) - most)] if tag[1] not in branched]
    if too_many:
        require_newest_readable(table)
    for _, name in too_many:
        retention.delete_tag(lake, table, name)


def _branched(lake: Lake, table: LakeTable) -> set[str]:
    """Tags that a branch was made of: Paimon's clients, when they expire snapshots of main, look at its tags and at no branch."""
    with lake.catalog.reading() as tx:
        return tx.tags.branched(table.table_id, table.identifier.branch)


def expire_tags(lake: Lake, table: LakeTable, *, older_than: dt.datetime | None = None, dry_run: bool = False) -> list[Tag]:
    """Drop the tags whose time is over; with ``older_than``, which has a zone, also all made before that.

    But not those that a branch was made of, as long as that is there.
    """
    with lake.catalog.reading() as tx:
        now = tx.state.now_millis()  # as that by which tags are made
    limit = None if older_than is None else older_than.timestamp() * 1000
    gone: list[Tag] = []
    with Steps("The expiry of tags"):
        branched = _branched(lake, table)
        for tag in tags_of(lake, table):
            if tag.name in branched:
                continue
            if tag.expired(now) or (limit is not None and tag.created_millis is not None and tag.created_millis < limit):
                if not gone:
                    require_newest_readable(table)
                gone.append(tag)
                if not dry_run:
                    retention.delete_tag(lake, table, tag.name)
    return gone
