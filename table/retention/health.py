"""What a table's own files say about how it is set up: the ways to hurt oneself with append tables, in numbers.

Paimon's guide for append tables has a rule of thumb for writes: with `N` partitions written at once, `B` buckets in each and
`P` writers, `(N · B) / P` stays below a hundred, or each writer keeps too many files open and leaves too many small ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from model.identifier import Identifier
from model.schema.schema import Schema
from model.text.sql_text import literal
from table.compaction.candidates import CompactionRules, by_bucket, choose
from table.format.manifests.entries import FileSource, ManifestEntry

_MOST_A_WRITER = 100
"""Partitions and buckets one writer should have open."""
_AT_ONCE_MILLIS = 600_000
"""Files made within so long of the newest count as written at once."""
_MANY_FILES = 100
"""Files of one partition from which planning and opening them costs more than reading."""
_TINY_PARTITION = 1 << 20
_MANY_PARTITIONS = 20
_CRUMB_BUCKET = 8 << 20
_SKEW = 4.0
_WORTH_A_LOOK = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing worth changing."""

    what: str
    why: str
    statement: str
    """What mends it."""


@dataclass(slots=True)
class _Part:
    files: int = 0
    size: int = 0
    rows: int = 0


def examine(schema: Schema, entries: Iterable[ManifestEntry], *, table: Identifier, write_only: bool, writers: int) -> list[Finding]:
    """What could be better, most costly first; nothing for a table in good shape.

    ``writers`` is how many tasks write at the same time.
    """
    live = list(entries)
    partitions: dict[bytes, _Part] = defaultdict(_Part)
    buckets: dict[tuple[bytes, int], _Part] = defaultdict(_Part)
    for entry in live:
        for part in (partitions[entry.partition], buckets[(entry.partition, entry.bucket)]):
            part.files += 1
            part.size += entry.file.file_size
            part.rows += entry.file.row_count
    rules = CompactionRules.of(schema)
    return [
        *_small_files(schema, live, rules, table, write_only=write_only),
        *_wide_writes(schema, live, partitions, writers, table),
        *_crowded(schema, partitions, table),
        *_too_many_buckets(schema, partitions, rules, table),
        *_too_few_buckets(schema, partitions, rules, table),
        *_skewed(schema, buckets, table),
        *_tiny_partitions(schema, partitions, table),
        *_other_bucket_numbers(schema, live, table),
    ]


def _shown(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def _rescaled(table: Identifier, buckets: int | None = None) -> str:
    """Write partitions anew with the table's number of buckets, or another: keys keep their order, and streams see no row again."""
    rescale = f"CALL sys.rescale({literal(table.written())})"
    return rescale if buckets is None else f"ALTER TABLE {table.quoted()} SET ('bucket' = '{buckets}'); {rescale}"


def _small_files(
    schema: Schema, live: list[ManifestEntry], rules: CompactionRules, table: Identifier, *, write_only: bool
) -> Iterator[Finding]:
    tasks = choose(schema, live, rules, full=False)
    count = sum(len(task.inputs) for task in tasks)
    if count >= _MANY_FILES or (write_only and tasks):
        reason = "'write-only' switches the merging off" if write_only else "the merging has not caught up"
        yield Finding(
            what=f"{count} small files could be merged",
            why=f"{_shown(sum(task.input_bytes for task in tasks))} lie in files of a few kB each, and {reason}",
            statement=f"CALL sys.compact({literal(table.written())})",
        )


def before_write(schema: Schema, *, table: Identifier, writers: int, at_once: int | None) -> list[Finding]:
    """What a write would suffer from, before anything is written: the rule `(N · B) / P < 100`.

    ``at_once`` is to how many partitions it brings rows; None where that is not known before it runs: then how many are cheap is told.
    """
    if not schema.partition_keys:
        return []
    if at_once is not None:
        return list(_too_wide(schema, at_once, writers, table, of_this="would be"))
    buckets = max(schema.bucket, 1)
    most = max(1, (_MOST_A_WRITER * writers - 1) // buckets)
    return [
        Finding(
            what=f"up to {most} partitions of {buckets} bucket(s) are cheap to write at once",
            why=f"(N·B)/P = (N·{buckets})/{writers} is below {_MOST_A_WRITER} open files for each writer up to N = {most}; "
            "to how many partitions the query brings rows is not known before it runs",
            statement=f"INSERT INTO {table.quoted()} PARTITION (…) SELECT …, or WHERE a range of {', '.join(schema.partition_keys)}, "
            "where there are more",
        )
    ]


def _wide_writes(
    schema: Schema, live: list[ManifestEntry], partitions: dict[bytes, _Part], writers: int, table: Identifier
) -> Iterator[Finding]:
    """The rule `(N · B) / P < 100`, for what was written last."""
    written = [(entry.file.creation_time_millis, entry.partition) for entry in live if entry.file.file_source is not FileSource.COMPACT]
    if not written or not schema.partition_keys:
        return
    newest = max(millis for millis, _ in written)
    at_once = len({partition for millis, partition in written if newest - millis <= _AT_ONCE_MILLIS})
    average = f", and a file of {_shown(sum(part.size for part in partitions.values()) / len(live))} on average"
    yield from _too_wide(schema, at_once, writers, table, files=average)


def _too_wide(
    schema: Schema, at_once: int, writers: int, table: Identifier, *, files: str = "", of_this: str = "were"
) -> Iterator[Finding]:
    buckets = max(schema.bucket, 1)
    open_ = at_once * buckets / writers
    if open_ < _MOST_A_WRITER:
        return
    fitting = max(1, min(buckets - 1, (_MOST_A_WRITER - 1) * writers // at_once))
    coarser = f"CREATE TABLE … PARTITIONED BY a coarser column than ({', '.join(schema.partition_keys)})"
    yield Finding(
        what=f"{at_once} partitions of {buckets} bucket(s) {of_this} written at once",
        why=f"(N·B)/P = ({at_once}·{buckets})/{writers} = {open_:.0f} open files for each writer{files}; "
        f"below {_MOST_A_WRITER} it stays cheap",
        statement=_rescaled(table, fitting) if buckets > 1 else coarser,
    )


def _crowded(schema: Schema, partitions: dict[bytes, _Part], table: Identifier) -> Iterator[Finding]:
    if not partitions:
        return
    size = sum(part.size for part in partitions.values())
    files = sum(part.files for part in partitions.values())
    buckets = max(schema.bucket, 1)
    per_partition = files / len(partitions)
    if buckets > 1 and per_partition >= _MANY_FILES and size / files < _CRUMB_BUCKET:
        yield Finding(
            what=f"{per_partition:.0f} files in each of {len(partitions)} partition(s)",
            why=f"{files} files of {_shown(size / files)} over {buckets} buckets; below 100 files a partition reads stay quick",
            statement=f"CALL sys.compact(`table` => {literal(table.written())}, compact_strategy => 'full')",
        )


def _too_many_buckets(schema: Schema, partitions: dict[bytes, _Part], rules: CompactionRules, table: Identifier) -> Iterator[Finding]:
    if schema.bucket <= 1 or not partitions:
        return
    largest = max(part.size for part in partitions.values())
    per_bucket = largest / schema.bucket
    if per_bucket >= _CRUMB_BUCKET or largest < schema.bucket * 1024:
        return
    fitting = max(1, round(largest / rules.target_bytes))
    yield Finding(
        what=f"{schema.bucket} buckets are too many",
        why=f"the largest partition holds {_shown(largest)}, {_shown(per_bucket)} a bucket, where a file should reach "
        f"{_shown(rules.target_bytes)}",
        statement=_rescaled(table, fitting),
    )


def _too_few_buckets(schema: Schema, partitions: dict[bytes, _Part], rules: CompactionRules, table: Identifier) -> Iterator[Finding]:
    if schema.bucket != 1 or not partitions:
        return
    largest = max(part.size for part in partitions.values())
    if largest < 16 * rules.target_bytes:
        return
    fitting = max(2, min(256, round(largest / (4 * rules.target_bytes))))
    yield Finding(
        what="all rows of a partition stand in one queue",
        why=f"{_shown(largest)} in one bucket are written and read by one task; with a key that has many values, several can work",
        statement=f"CREATE TABLE … WITH ('bucket' = '{fitting}', 'bucket-key' = '<a column with many values>'), "
        "or 'bucket' = '-1' where order does not matter",
    )


def _skewed(schema: Schema, buckets: dict[tuple[bytes, int], _Part], table: Identifier) -> Iterator[Finding]:
    if schema.bucket <= 1 or len(buckets) < 2:
        return
    sizes = sorted(part.size for part in buckets.values())
    average = sum(sizes) / len(sizes)
    if sizes[-1] >= _WORTH_A_LOOK and sizes[-1] >= _SKEW * average:
        keys = ", ".join(schema.bucket_keys)
        yield Finding(
            what=f"one bucket holds {sizes[-1] / average:.1f} times the average",
            why=f"few values of the bucket key ({keys}) have most rows, so most tasks wait for one",
            statement="CREATE TABLE … with another 'bucket-key' and INSERT INTO it SELECT * FROM " + table.quoted(),  # noqa: S608 - told, not run
        )


def _tiny_partitions(schema: Schema, partitions: dict[bytes, _Part], table: Identifier) -> Iterator[Finding]:
    tiny = sum(part.size < _TINY_PARTITION for part in partitions.values())
    if len(partitions) >= _MANY_PARTITIONS and tiny > len(partitions) / 2:
        size = sum(part.size for part in partitions.values()) / len(partitions)
        yield Finding(
            what=f"{tiny} of {len(partitions)} partitions are smaller than 1 MB",
            why=f"a partition holds {_shown(size)} on average, and its files cannot be merged with those of another",
            statement=f"CREATE TABLE … PARTITIONED BY a coarser column than ({', '.join(schema.partition_keys)})",
        )


def _other_bucket_numbers(schema: Schema, live: list[ManifestEntry], table: Identifier) -> Iterator[Finding]:
    file_count = sum(len(files) for files in by_bucket(schema, live).values())
    if file_count < len(live):
        yield Finding(
            what=f"{len(live) - file_count} files were written with another number of buckets",
            why="such partitions are not merged, and nothing more can be inserted into them",
            statement=_rescaled(table) if schema.bucket > 0 else f"INSERT OVERWRITE {table.quoted()} SELECT * FROM {table.quoted()}",  # noqa: S608
        )
