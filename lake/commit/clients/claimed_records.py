"""What a client's manifest says of the files it adds, held to what all readers can decode and to names that are nobody else's.

We read around much that other readers stumble over: a row of statistics that is none, a version that they do not know. One entry like that,
which takes INSERT alone, would close the table to them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from model.errors import LakeError
from model.options.rules import FILE_FORMATS
from model.options.table import is_on
from model.schema.schema import Schema
from model.schema.types import BigIntType, DataType
from model.snapshot_numbers import CLOCK_SKEW_MILLIS
from table.format.formats import format_of
from table.format.manifests.codec import VERSION
from table.format.manifests.entries import DataFile, EntryKind, ManifestEntry, SimpleStats
from table.format.rows import binary_row
from table.format.rows.domain import END_DAY, FIRST_DAY
from table.format.rows.moments import FarDate, PaimonTime, epoch_micros
from table.format.store import TableFiles
from table.index.container import container_fault

_ZONES_MILLIS = 14 * 3_600_000
"""So far the clocks on walls are ahead of UTC's at most."""
_DAY_MICROS = 86_400_000_000
_UNKNOWN = -1
"""How many values of a column are NULL, where a Parquet file does not say so: Java passes it on."""
_SYSTEM = frozenset({"_ROW_ID", "_SEQUENCE_NUMBER"})
"""Columns of row tracking, which no schema has."""
_BESIDE = re.compile(r"(-[0-9a-f-]+)?\.index|\.row")
"""What follows a data file's name in that of an index beside it: Java's, pypaimon's and ours (`createNewFileIndexFilePath`); and of its
rows, where data evolution keeps some (`data-evolution.row-sidecar.enabled`)."""
_INDEX = "_EMBEDDED_FILE_INDEX"
_ENDED = re.compile(r"\.[A-Za-z0-9_]+$")


def name_fault(file: DataFile) -> str | None:
    """What is wrong with the names of a file that is added and of what lies beside it: expiry removes them with it.

    So they are its own: an index that is called as another's data file or index would take that away.
    """
    name = file.file_name
    stem, _, ending = name.rpartition(".")
    if ending == "index" or (ending == "row" and _is_of_data(stem)):
        return f"file {name[:80]} is called as what lies beside another."
    for extra in file.extra_files:
        beside = _BESIDE.fullmatch(extra, len(name)) if _ENDED.search(name) and extra.startswith(name) else None
        if beside is None or (beside[0] == ".row" and not _is_of_data(name)):
            return f"{extra[:80]}, beside file {name[:80]}, is not called as an index of it ({name[:80]}.index)."
    return None


def _is_of_data(name: str) -> bool:
    """Whether a name ends as one of a data file, and with ``.row`` behind it is no data file's of the format of that name."""
    return "." in name and format_of(name) in FILE_FORMATS


def time_fault(changes: Sequence[ManifestEntry]) -> str | None:
    """Which file that is added tells a time far ahead, by which its partition would never expire, and streams by time begin with it.

    Clients write the time of their own clock and zone. What is taken away may have told such a time already, and be written anew with it.
    """
    now = time.time_ns() // 1_000_000
    latest = max([now + _ZONES_MILLIS + CLOCK_SKEW_MILLIS, *(e.file.creation_time_millis for e in changes if e.kind is EntryKind.DELETE)])
    for entry in changes:
        made = entry.file.creation_time_millis
        if entry.kind is EntryKind.ADD and made > latest:
            return (
                f"file {entry.file.file_name[:80]} has the _CREATION_TIME {made}, {(made - now) // 3_600_000:,} hours ahead of this clock."
            )
    return None


def fault_of_records(records: Sequence[Mapping[str, Any]], files: TableFiles, schema: Schema, *, anew: bool = False) -> str | None:
    """What of the records of a manifest a reader could not decode as rows and numbers.

    A file that is taken away and added with the same words, as one that gets another index, is as it was, but for a new index; ``anew``
    looks at all of it.
    """
    again: dict[str, list[bytes | None]] = {}
    for record in records:
        if record["_KIND"] == EntryKind.DELETE and not anew:
            again.setdefault(_words(record), []).append(record["_FILE"].get(_INDEX))
    for record in records:
        problem = _entry_fault(record)
        if problem is None and record["_KIND"] == EntryKind.ADD:
            problem = _added_fault(record, again.get(_words(record)) if again else None, files, schema)
        if problem is not None:
            return problem
    return None


def _entry_fault(record: Mapping[str, Any]) -> str | None:
    if record["_VERSION"] != VERSION:
        return f"an entry is of version {record['_VERSION']}, which no reader knows."
    if record["_TOTAL_BUCKETS"] < -2:  # a table without buckets has -1, one with postponed buckets -2
        return f"an entry tells of {record['_TOTAL_BUCKETS']} buckets."
    return None


def _added_fault(record: Mapping[str, Any], before: Collection[bytes | None] | None, files: TableFiles, schema: Schema) -> str | None:
    """Of a file that is added; ``before`` are the indexes that it was taken away with in the same words, None where it was not."""
    file = record["_FILE"]
    problem = _index_fault(file, before or ())
    if problem is None and before is None:
        if (far := _far_column(record["_PARTITION"], schema)) is not None:
            return f"a partition is of a year of column {far} before -32767 or after 32767, of which nobody here makes a text."
        try:
            written_by = files.read_schema(file["_SCHEMA_ID"])
        except LakeError:  # there is none of that version, which the judge tells
            return None
        problem = _fault(file, written_by, schema)
    return None if problem is None else f"of file {str(file['_FILE_NAME'])[:80]} it tells {problem}."


def _far_column(partition: bytes, schema: Schema) -> str | None:
    """The first column of a partition's days and times that lies so far."""
    fields = schema.partition_fields
    for field, value in zip(fields, binary_row.decode([field.type for field in fields], partition), strict=True):
        day = int(value) if isinstance(value, FarDate) else epoch_micros(value) // _DAY_MICROS if isinstance(value, PaimonTime) else 0
        if not FIRST_DAY <= day < END_DAY:
            return field.name
    return None


def _words(record: Mapping[str, Any]) -> str:
    file = record["_FILE"]
    fields = ("_FILE_NAME", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS", "_VALUE_STATS_COLS", "_WRITE_COLS")
    return repr([record["_PARTITION"], record["_BUCKET"], *(file.get(name) for name in (*fields, "_DELETE_ROW_COUNT", "_SCHEMA_ID"))])


def _index_fault(file: Mapping[str, Any], before: Collection[bytes | None]) -> str | None:
    index = file.get(_INDEX)
    problem = None if index is None or index in before else container_fault(index)
    return None if problem is None else f"{_INDEX}, which is none: {problem}"


def _fault(file: Mapping[str, Any], written_by: Schema, schema: Schema) -> str | None:
    rows, deleted = file["_ROW_COUNT"], file.get("_DELETE_ROW_COUNT")
    if not 0 <= (deleted or 0) <= rows:
        return f"{deleted:,} deleted of {rows:,} rows"
    names = set(written_by.field_names)
    written = file.get("_WRITE_COLS")
    if written is not None and not is_on(schema.options, "data-evolution.enabled") and (missing := names - set(written)):
        return f"only some columns, and not {min(missing)}"
    covered = file.get("_VALUE_STATS_COLS")
    if covered is not None and (unknown := set(covered) - names - _SYSTEM):
        return f"statistics of column {min(unknown)[:80]}, which there is not"
    for field in ("_MIN_KEY", "_MAX_KEY"):
        if (problem := binary_row.fault_of(file[field], None)) is not None:
            return f"{field}, which is no row: {problem}"
    if (problem := _record_fault(file["_KEY_STATS"], None, rows)) is not None:
        return f"_KEY_STATS, which are none: {problem}"
    tracked = is_on(schema.options, "row-tracking.enabled")
    possible = _types(written_by, covered, written, tracked=tracked)
    problems = [_record_fault(file["_VALUE_STATS"], types, rows) for types in possible]
    return None if None in problems else f"_VALUE_STATS, which are none: {problems[0]}"


def _types(schema: Schema, covered: Sequence[str] | None, written: Sequence[str] | None, *, tracked: bool) -> list[list[DataType] | None]:
    """The types that the columns may have of which a file has statistics; None where that is not to be known."""
    of = {field.name: field.type for field in schema.fields} | dict.fromkeys(_SYSTEM, BigIntType())
    if covered is not None:
        return [[of[name] for name in covered]]
    if written is not None:
        return [None]
    fields = [field.type for field in schema.fields]
    # Java's compaction up to 1.3 tells neither which columns it wrote nor of which there are statistics, where it wrote all and these two.
    return [fields, [*fields, *(BigIntType() for _ in _SYSTEM)]] if tracked else [fields]


def _record_fault(record: Mapping[str, Any], types: Sequence[DataType] | None, rows: int) -> str | None:
    stats = SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], record.get("_NULL_COUNTS") or ())
    return stats_fault(stats, types, rows=rows)


def stats_fault(stats: SimpleStats, types: Sequence[DataType] | None, *, rows: int | None = None) -> str | None:
    """What is wrong with statistics of columns of these types, where they are known, and of so many rows."""
    for row in (stats.min_values, stats.max_values):
        if (problem := binary_row.fault_of(row, types)) is not None:
            return problem
    known = [count for count in stats.null_counts if count not in (None, _UNKNOWN)]
    if any(count < 0 or (rows is not None and count > rows) for count in known):
        return f"counts of NULLs ({', '.join(map(str, known))[:80]}) that no {'file' if rows is None else f'{rows:,} rows'} can have"
    if types is not None and len(stats.null_counts) not in (0, len(types)):
        return f"{len(stats.null_counts)} counts of NULLs for {len(types)} columns"
    return None
