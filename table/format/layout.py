"""Where each kind of file of a table lies (`paimon-append.md` §1)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from model.errors import InvalidData
from model.identifier import MAIN_BRANCH
from model.location import MAX_KEY_BYTES, MAX_NAME_BYTES
from model.schema.schema import Schema
from model.schema.types import DataType, DateType, LocalZonedTimestampType, TimestampType, TimeType
from table.format.io.reach import Reach
from table.format.rows.moments import (
    FarDate,
    PaimonTime,
    Time,
    date_of,
    date_text,
    day_on_the_calendar,
    days_of,
    four_digits,
    nanos_of,
    on_the_calendar,
    parsed_date,
    parsed_time,
    year_text,
)

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"
EARLIEST, LATEST = "EARLIEST", "LATEST"
"""The hints beside the snapshots."""
_NO_BREAK = frozenset("\x85\xa0\u2007\u202f")
"""What Python takes for a space and Java's `Character.isWhitespace` does not: a partition of such a value has a directory of its own."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""What would be half of a character in UTF-8, also cut off: Java replaces it as one, Python each of its bytes."""
_ESCAPE = re.compile("%([0-7][0-9A-Fa-f])")
_ESCAPED = frozenset(chr(c) for c in range(0x20)) | frozenset("\"#%'*/:=?\\\x7f{}[]^")


def branch_of_snapshot(path: str) -> str | None:
    """The branch whose snapshot's file lies at a path below its table's directory; None where another kind of file lies there."""
    branch, _, rest = path.rpartition("snapshot/snapshot-")
    if not rest.isdecimal():
        return None
    return MAIN_BRANCH if not branch else branch.removeprefix("branch/branch-").rstrip("/")


def lies_in_branches(directory: str) -> bool:
    """Whether a directory may be a branch's: it lies where a table's branches lie."""
    return directory.rstrip("/").rpartition("/")[0].endswith("/branch")


class TableLayout:
    """The paths of one table's files, from its location; a branch has schemas, snapshots, tags and consumers of its own."""

    def __init__(self, location: str, branch: str = MAIN_BRANCH, *, reach: Reach | None = None) -> None:
        self.location = location.rstrip("/")
        self.branch = branch
        self.reach = reach or Reach(location)
        self.branch_dir = self.location if branch == MAIN_BRANCH else f"{self.branches_dir()}/branch-{branch}"

    def branches_dir(self) -> str:
        """Where the branches lie, each in a directory of its own."""
        return f"{self.location}/branch"

    def set_aside_root(self) -> str:
        """Where repairs put what they take out of the way, each in a directory of its own."""
        return f"{self.location}/_diverged"

    def set_aside_dir(self, name: str) -> str:
        """Where snapshots are put that a repair takes out of the way."""
        return self.reach.named(self.set_aside_root(), name)

    def undrop_file(self) -> str:
        """What tells of the last drop of the table that was taken back."""
        return f"{self.location}/_undropped"

    def below(self, path: str) -> str:
        """A file's path inside the table's directory, which may move before it is used; see `inside`."""
        return path.removeprefix(f"{self.location}/")

    def inside(self, path: str) -> str:
        """What `below` gave, where the table lies now."""
        return self.reach.inside(path)

    def schema_dir(self) -> str:
        return f"{self.branch_dir}/schema"

    def schema_file(self, schema_id: int) -> str:
        return f"{self.branch_dir}/schema/schema-{schema_id}"

    def snapshot_dir(self) -> str:
        return f"{self.branch_dir}/snapshot"

    @staticmethod
    def snapshot_name(snapshot_id: int) -> str:
        return f"snapshot-{snapshot_id}"

    def snapshot_file(self, snapshot_id: int) -> str:
        return f"{self.branch_dir}/snapshot/{self.snapshot_name(snapshot_id)}"

    def changelog_dir(self) -> str:
        return f"{self.branch_dir}/changelog"

    def changelog_file(self, snapshot_id: int) -> str:
        """What a client's expiry makes of a snapshot whose changes are kept longer."""
        return f"{self.branch_dir}/changelog/changelog-{snapshot_id}"

    def latest_hint(self) -> str:
        return f"{self.branch_dir}/snapshot/{LATEST}"

    def earliest_hint(self) -> str:
        return f"{self.branch_dir}/snapshot/{EARLIEST}"

    def consumer_dir(self) -> str:
        return f"{self.branch_dir}/consumer"

    def consumer_file(self, consumer: str) -> str:
        return self.reach.named(f"{self.branch_dir}/consumer", f"consumer-{consumer}")

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest: all lie in one directory."""
        return self.reach.named(f"{self.location}/manifest", name)

    def tag_dir(self) -> str:
        return f"{self.branch_dir}/tag"

    def tag_file(self, name: str) -> str:
        return self.reach.named(f"{self.branch_dir}/tag", f"tag-{name}")

    def manifest_dir(self) -> str:
        return f"{self.location}/manifest"

    def index_dir(self) -> str:
        return f"{self.location}/index"

    def statistics_dir(self) -> str:
        return f"{self.location}/statistics"

    def statistics_file(self, name: str) -> str:
        return self.reach.named(f"{self.location}/statistics", name)

    def index_file(self, name: str) -> str:
        """A file that an index manifest names."""
        return self.reach.named(f"{self.location}/index", name)

    def data_dir(self, schema: Schema) -> str:
        """Where the partitions' directories begin."""
        below = schema.options.get("data-file.path-directory", "")
        return self.reach.inside(below) if below else self.location

    def is_below_data_dir(self, schema: Schema, path: str) -> bool:
        """Whether a path lies where partitions and buckets do."""
        return path.startswith(f"{self.data_dir(schema)}/")

    def success_file(self, schema: Schema, partition: str) -> str:
        """The marker that says no more rows will come to a partition, by the partition's directory name."""
        return f"{self.data_dir(schema)}/{partition}/_SUCCESS"

    def staging_dir(self) -> str:
        """Where Spark writes files that have no final name yet."""
        return f"{self.location}/_staging"

    def bucket_dir(self, schema: Schema, partition: Sequence[object], bucket: int) -> str:
        """The directory of a partition's bucket; unbucketed tables use ``bucket-0``."""
        return "/".join([self.data_dir(schema), *_javas_dirs(schema, partition), f"bucket-{bucket}"])

    def new_bucket_dir(self, schema: Schema, partition: Sequence[object], bucket: int) -> str:
        """`bucket_dir` for files to be written; raises `InvalidData` for a value of which no directory can be called."""
        longest = MAX_NAME_BYTES if self.reach.is_local else MAX_KEY_BYTES
        for field, name in zip(schema.partition_fields, partition_dirs(schema, partition), strict=True):
            if (size := len(name.encode())) > longest:
                raise InvalidData(
                    f"Partition column {field.name}: the value makes a directory name of {size} bytes, {name[:40]}…;"
                    f" the store takes {longest}. Use a shorter value, or partition by another column."
                )
        return self.bucket_dir(schema, partition, bucket)

    def written_file(self, schema: Schema, partition: Sequence[object], bucket: int, name: str, exists: Callable[[str], bool]) -> str:
        """`data_file` of a file that was written: releases before December 2026 called the directories of some values otherwise."""
        path = self.data_file(schema, partition, bucket, name)
        if not has_two_directories(partition) or exists(path):
            return path
        return self.data_file(schema, [_named_before(value) for value in partition], bucket, name)

    def data_file(self, schema: Schema, partition: Sequence[object], bucket: int, name: str) -> str:
        """A data file of a partition's bucket, or one beside it."""
        return self.reach.named(self.bucket_dir(schema, partition, bucket), name)


def has_two_directories(partition: Sequence[object]) -> bool:
    """Whether files of a partition may lie in two; see `TableLayout.written_file`."""
    return any(_named_before(value) is not value for value in partition)


def _named_before(value: object) -> object:
    """A value whose directory is called as earlier releases called that of this one, or the value itself."""
    if isinstance(value, str) and _is_no_break(value):
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) and _SURROGATE.search(value) else value


def partition_spec(schema: Schema, values: Sequence[object], *, legacy: bool | None = None) -> dict[str, str]:
    """A partition by its keys, in their order, with its values as text: as its directory spells them unless ``legacy`` says how."""
    default = default_partition_name(schema)
    texts = partition_texts(schema, values, legacy=legacy)
    return {
        key: default if text is None or not (text.strip() or _is_no_break(text)) else text
        for key, text in zip(schema.partition_keys, texts, strict=True)
    }


def partition_texts(schema: Schema, values: Sequence[object], *, legacy: bool | None = None) -> tuple[str | None, ...]:
    """The text of each of a partition's values, blank ones too, and None for NULL; ``legacy`` as of `partition_spec`."""
    if legacy is None:
        legacy = _has_legacy_names(schema)
    fields = schema.partition_fields
    return tuple(
        None if value is None else partition_text(field.type, value, legacy=legacy) for field, value in zip(fields, values, strict=True)
    )


def default_partition_name(schema: Schema) -> str:
    """What stands for NULL, and as a directory for blanks."""
    return schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)


def _has_legacy_names(schema: Schema) -> bool:
    return schema.options.get("partition.legacy-name", "true").lower() != "false"


def partition_dirs(schema: Schema, values: Sequence[object]) -> list[str]:
    """One ``name=value`` per partition key, in the keys' order, both sides escaped."""
    return [f"{escape(name)}={escape(text)}" for name, text in partition_spec(schema, values).items()]


def _javas_dirs(schema: Schema, values: Sequence[object]) -> list[str]:
    """The directories where Java's clients write and look: those of `partition_dirs`, but for years that Paimon writes in four digits.

    They are shared then with another year's, whose files have other names.
    """
    dirs = partition_dirs(schema, values)
    if _has_legacy_names(schema):
        return dirs
    for at, (field, value) in enumerate(zip(schema.partition_fields, values, strict=True)):
        if isinstance(value, FarDate | PaimonTime):
            year, _ = day_on_the_calendar(value) if isinstance(value, FarDate) else on_the_calendar(value)
            _, _, rest = partition_text(field.type, value, legacy=False).lstrip("+-").partition("-")
            dirs[at] = f"{escape(field.name)}={escape(f'{four_digits(year)}-{rest}')}"
    return dirs


def partition_shown(schema: Schema, values: Sequence[object]) -> str:
    """A partition as people read it: ``dt=2024-01-02`` where its directory may be ``dt=19724``."""
    return "/".join(f"{escape(name)}={escape(text)}" for name, text in partition_spec(schema, values, legacy=False).items())


def escape(text: str) -> str:
    """Percent-escape what Paimon escapes in directory names; spaces and non-ASCII letters stay."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def unescape(text: str) -> str:
    """What `escape` made of a text, as it was."""
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


def _is_no_break(text: str) -> bool:
    return not text.strip() and not _NO_BREAK.isdisjoint(text)


def partition_text(type_: DataType, value: object, *, legacy: bool) -> str:
    """A partition value as directory text: Java's toString of the stored value, or the SQL cast.

    Java's toString of bytes is another text each time, so that none of its clients finds them: here they are the text they are in UTF-8.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value, single=type_.root == "FLOAT")
        case Decimal():
            return f"{value:f}"
        case bytes():
            return (value if legacy else _SURROGATE.sub(b"\xff", value)).decode("utf-8", "replace")
        case dt.datetime() | PaimonTime():
            return _timestamp_text(type_, value, legacy=legacy)
        case dt.date():
            return str(days_of(value)) if legacy else date_text(value)
        case int() if isinstance(type_, TimeType) and not legacy:
            return _time_text(value, type_.precision)
        case int() if isinstance(type_, DateType) and not legacy:
            return date_text(date_of(value))
    return str(value)


def respelled(type_: DataType, text: str, *, legacy: bool) -> str:
    """A partition's text as old (``legacy``) or new names of directories have it; text that is no value of the type stays."""
    try:
        return partition_text(type_, _read_back(type_, text), legacy=legacy)
    except (ValueError, OverflowError):
        return text


def _read_back(type_: DataType, text: str) -> object:
    """The value of a text of which there are two spellings, else the text."""
    is_number = text.removeprefix("-").isdecimal()
    match type_:
        case DateType():
            if is_number and not -(1 << 31) <= int(text) < 1 << 31:
                raise ValueError(text)
            return date_of(int(text)) if is_number else parsed_date(text)
        case TimeType():
            return int(text) if is_number else _millis_of(dt.time.fromisoformat(text))
        case TimestampType() | LocalZonedTimestampType():
            return parsed_time(text)
    return text


def _millis_of(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1000 + time.microsecond // 1000


def _time_text(millis: int, precision: int) -> str:
    seconds, fraction = divmod(millis, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + ("." + f"{fraction:03d}"[: min(precision, 3)] if precision else "")


def _timestamp_text(type_: DataType, value: Time, *, legacy: bool) -> str:
    year, naive = on_the_calendar(value)
    if legacy:
        return _java_local_date_time(year, naive, nanos_of(value))
    assert isinstance(type_, TimestampType | LocalZonedTimestampType)
    fraction = f"{naive.microsecond:06d}{nanos_of(value):03d}"
    while len(fraction) > type_.precision and fraction.endswith("0"):
        fraction = fraction[:-1]
    return f"{year_text(year)}-{naive:%m-%d %H:%M:%S}" + (f".{fraction}" if fraction else "")


def _java_local_date_time(year: int, value: dt.datetime, nanos: int) -> str:
    """``LocalDateTime.toString``: no seconds when zero, fractions in groups of three digits."""
    text = f"{year_text(year)}-{value:%m-%dT%H:%M}"
    fraction = f"{value.microsecond:06d}{nanos:03d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    if value.second or fraction:
        text += f":{value.second:02d}"
    return text + (f".{fraction}" if fraction else "")


def java_double(value: float, *, single: bool) -> str:
    """``Double.toString`` or ``Float.toString``: plain between 1e-3 and 1e7, else with an exponent."""
    import numpy as np

    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if single else np.float64(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(np.format_float_positional(number, unique=True, trim="0"))
    mantissa, exponent = np.format_float_scientific(number, unique=True, trim="0").split("e")
    return f"{mantissa}E{int(exponent)}"
