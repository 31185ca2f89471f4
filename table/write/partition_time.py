"""The time a partition stands for, by the values of its columns (`paimon-append.md` §6.7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from model.errors import InvalidData
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from model.text.time_pattern import default_millis, time_pattern
from table.format.layout import partition_dirs, partition_text
from table.format.rows import binary_row


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTime:
    """How a table's partitions tell their time."""

    pattern: str | None = None
    formatter: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> PartitionTime:
        """What a table's options say."""
        return cls(
            pattern=TABLE_OPTIONS.read(options, "partition.timestamp-pattern"),
            formatter=TABLE_OPTIONS.read(options, "partition.timestamp-formatter"),
        )

    def millis(self, schema: Schema, values: Sequence[object]) -> int | None:
        """The time, in milliseconds of the local clock; None where the values are none, or name no day: such a partition is kept.

        A DATE or TIMESTAMP is the time it says, however the partition's directory spells it.
        """
        texts = {
            field.name: None if value is None else partition_text(field.type, value, legacy=False)
            for field, value in zip(schema.partition_fields, values, strict=True)
        }
        text = texts[schema.partition_keys[0]] if self.pattern is None else _filled(self.pattern, texts)
        if text is None:
            return None
        return default_millis(text) if self.formatter is None else time_pattern(self.formatter).millis(text)


def check_partition_times(schema: Schema, partitions: Collection[bytes]) -> None:
    """Raise `InvalidData` for a partition without a time where `partition.timestamp-format.strict` is on.

    As Paimon's writers, it asks for one only where a format or pattern says how it is told.
    """
    if not partitions or not schema.partition_keys or not TABLE_OPTIONS.read(schema.options, "partition.timestamp-format.strict"):
        return
    time = PartitionTime.of(schema.options)
    if time.pattern is None and time.formatter is None:
        return
    types = [field.type for field in schema.partition_fields]
    for partition in sorted(partitions):
        values = binary_row.decode(types, partition)
        if time.millis(schema, values) is None:
            raise InvalidData(
                f"Partition {'/'.join(partition_dirs(schema, values))} has no time that 'partition.timestamp-pattern' and "
                "'partition.timestamp-formatter' can read, and 'partition.timestamp-format.strict' is on. Nothing was committed."
            )


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
