"""Partitions that are too old, by what their values say or by when something last came (`paimon-append.md` §6.7)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lake.commit.claims import Claim
from lake.tables.handle import LakeTable
from lake.tables.partitions import Partition
from model.errors import InvalidOption
from model.options.table import TABLE_OPTIONS
from model.snapshot import CommitKind, Snapshot
from table.format.layout import partition_text
from table.format.rows import binary_row
from table.write.data_file import local_wall_millis
from table.write.snapshot_builder import CommitRequest

if TYPE_CHECKING:
    from lake.lake import Lake

_JAVA = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))
_DEFAULT_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y%m%d")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """When a table's partitions are too old."""

    after: dt.timedelta
    strategy: str
    pattern: str | None
    formatter: str | None
    at_most: int
    batch: int | None = None
    """Partitions that go in one commit; None for all."""

    @classmethod
    def times(cls, table: LakeTable) -> PartitionExpiry:
        """How a table's options read a partition's time, where nothing is to expire."""
        options = {**table.schema.options, "partition.expiration-time": "0 s"}
        expiry = cls.of(table, options)
        assert expiry is not None
        return expiry

    @classmethod
    def of(cls, table: LakeTable, given: Mapping[str, str]) -> PartitionExpiry | None:
        """What the table's options and those of a call over them say; None where partitions do not expire."""
        options = {**table.schema.options, **given}
        after = TABLE_OPTIONS.read(options, "partition.expiration-time")
        if after is None or not table.schema.partition_keys:
            return None
        return cls(
            after=after,
            strategy=TABLE_OPTIONS.read(options, "partition.expiration-strategy"),
            pattern=TABLE_OPTIONS.read(options, "partition.timestamp-pattern"),
            formatter=TABLE_OPTIONS.read(options, "partition.timestamp-formatter"),
            at_most=TABLE_OPTIONS.read(options, "partition.expiration-max-num"),
            batch=TABLE_OPTIONS.read(options, "partition.expiration-batch-size"),
        )


def expired_partitions(table: LakeTable, partitions: Sequence[Partition], rules: PartitionExpiry) -> list[Partition]:
    """The partitions that are too old, oldest first; one whose time cannot be read is kept."""
    now = local_wall_millis()
    limit = now - int(rules.after.total_seconds() * 1000)
    expired: list[tuple[int, Partition]] = []
    for partition in partitions:
        when = partition.last_file_millis if rules.strategy == "update-time" else time_of(table, partition.values, rules)
        if when is not None and when < limit:
            expired.append((when, partition))
    return [partition for _, partition in sorted(expired, key=lambda pair: (pair[0], pair[1].name))[: rules.at_most]]


def time_of(table: LakeTable, values: Sequence[object], rules: PartitionExpiry) -> int | None:
    """The time a partition's values stand for, in milliseconds of the local clock."""
    texts = {
        field.name: None if value is None else partition_text(field.type, value, legacy=False)
        for field, value in zip(table.schema.partition_fields, values, strict=True)
    }
    first = texts[table.schema.partition_keys[0]]
    text = first if rules.pattern is None else _filled(rules.pattern, texts)
    if text is None:
        return None
    for format_ in _DEFAULT_FORMATS if rules.formatter is None else (_python_format(rules.formatter),):
        try:
            moment = dt.datetime.strptime(text, format_)
        except ValueError:
            continue
        return int((moment - dt.datetime(1970, 1, 1)) / dt.timedelta(milliseconds=1))
    return None


def _filled(pattern: str, texts: Mapping[str, str | None]) -> str | None:
    """``$dt $hour:00:00`` with the values in place; None where one is NULL."""
    missing = False

    def value(match: re.Match[str]) -> str:
        nonlocal missing
        text = texts.get(match[1])
        missing |= text is None
        return text or ""

    names = "|".join(sorted(map(re.escape, texts), key=len, reverse=True))
    filled = re.sub(rf"\$({names})", value, pattern)
    return None if missing else filled


def _python_format(formatter: str) -> str:
    """Java's pattern as strptime's; raises `InvalidOption` for letters it does not know."""
    text = formatter.replace("'", "")
    for java, python in _JAVA:
        text = text.replace(java, python)
    if re.search(r"(?<!%)[A-SU-Za-z]", text):
        raise InvalidOption(f"Option 'partition.timestamp-formatter' = '{formatter}': only yyyy, MM, dd, HH, mm and ss are read here.")
    return text


def expire_partitions(lake: Lake, table: LakeTable, partitions: Sequence[Partition], rules: PartitionExpiry) -> None:
    """Remove partitions that are too old, in commits of `partition.expiration-batch-size` each."""
    size = rules.batch or max(1, len(partitions))
    for at in range(0, len(partitions), size):
        drop_partitions(lake, table, partitions[at : at + size])


def drop_partitions(lake: Lake, table: LakeTable, partitions: Sequence[Partition], *, claim: Claim | None = None) -> Snapshot | None:
    """Remove partitions with all their rows as one commit, once under a claim; earlier snapshots still hold them."""
    if not partitions:
        return None
    types = [f.type for f in table.schema.partition_fields]
    gone = frozenset(binary_row.encode_prefixed(types, partition.values) for partition in partitions)
    request: dict[str, Any] = {"kind": CommitKind.OVERWRITE, "overwrite": gone.__contains__, "commit_user": str(uuid4())}
    done = CommitRequest(**request, operation="DROP_PARTITION")
    return lake.commit(table, done, claim=claim, answer=lambda snapshot: {"ok": True})
