"""Which partitions a maintenance call is about: by values, by a condition, by how long nothing came."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lake import Lake, LakeTable
from lake.tables.done_marks import spellings
from model.errors import AnalysisError, InvalidOption
from model.options.option import Option, duration, optional
from model.schema.schema import Schema
from model.schema.types import DataType, Field
from model.text.whole_number import whole_number
from model.wall_clock import local_wall_millis
from sql.dialect import parse_one
from sql.local.conditions import Conditions
from sql.local.literals import NotLocal
from sql.parsing.size import check_words
from table.format.layout import default_partition_name, partition_text, unescape
from table.format.manifests.entries import ManifestEntry
from table.format.rows import binary_row
from table.write.bucket import as_column

Spec = Mapping[str, str]
_NEXT = re.compile(r"[;,/](?=[^;,/=]+=)")
"""Where a column of a partition, or another partition, begins: what parts them may be in values, too."""


def parse_specs(text: str, schema: Schema, table: str) -> list[dict[str, str]]:
    """``dt=1,h=2;dt=3`` as one mapping each, with the values as they are given (`readings`); raises `AnalysisError` for no column."""
    specs: list[dict[str, str]] = []
    parted = ";"
    at = 0
    for end in (*_NEXT.finditer(text), None):
        pair = text[at : end.start() if end else len(text)]
        if parted == ";":
            specs.append({})
        if pair.strip(" \t\n;"):
            specs[-1].update([_pair(pair, schema, table)])
        if end:
            parted, at = end.group(), end.end()
    specs = list(filter(None, specs))
    if not specs:
        raise AnalysisError(f"No partition of {table} is named; write 'column=value,…;…'.")
    return specs


def _pair(pair: str, schema: Schema, table: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    key = next((key for key in (name.strip(), unescape(name.strip())) if key in schema.partition_keys), None)
    if not equals or key is None:
        keys = ", ".join(schema.partition_keys) or "none"
        raise AnalysisError(
            f"'{pair.strip()}' names no partition of {table}: write column=value, with the columns {keys}.", fragment=pair.strip()
        )
    return key, value


def readings(spec: Spec) -> list[dict[str, str]]:
    """What a spec of `parse_specs` may mean, the likeliest first.

    The names that statements show escape what directories cannot be called; others write the bare value, perhaps in quotes, with blanks
    around it, or with a ``;`` behind the last.
    """
    ways = (unescape, lambda text: unescape(_bare(text)), _bare)
    means = [{key: way(text) for key, text in spec.items()} for way in ways]
    return [one for at, one in enumerate(means) if one not in means[:at]]


def _bare(text: str) -> str:
    text = text.strip(" \t\n;")
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def named(schema: Schema, partitions: Iterable[bytes], specs: Sequence[Spec]) -> set[bytes]:
    """The partitions that specs of `parse_specs` name."""
    values = _values(schema, partitions)
    return set().union(*(next(filter(None, (_matching(schema, values, meant) for meant in readings(spec))), set()) for spec in specs))


def matching(schema: Schema, partitions: Iterable[bytes], specs: Sequence[Mapping[str, str | bytes | None]]) -> set[bytes]:
    """The partitions any of the specs means; a value is written as in its directory or as SQL shows it, None is NULL and no empty text.

    Bytes are just these, where a text is that of all bytes that are shown so.
    """
    values = _values(schema, partitions)
    return set().union(*(_matching(schema, values, spec) for spec in specs))


Values = Mapping[bytes, Mapping[str, tuple[DataType, object]]]


def _values(schema: Schema, partitions: Iterable[bytes]) -> Values:
    types = [f.type for f in schema.partition_fields]
    keys = schema.partition_keys
    return {row: dict(zip(keys, zip(types, binary_row.decode(types, row), strict=True), strict=True)) for row in partitions}


def _matching(schema: Schema, partitions: Values, spec: Mapping[str, str | bytes | None]) -> set[bytes]:
    default = default_partition_name(schema)
    return {row for row, values in partitions.items() if all(_means(text, *values[name], default) for name, text in spec.items())}


def without_rows(lake: Lake, table: LakeTable, specs: Sequence[Spec]) -> dict[str, Spec]:
    """The partitions that were made by name, as these specs name them by all their columns, by the names they have in the catalog."""
    whole = [spec for spec in specs if set(spec) == set(table.schema.partition_keys)]
    spelled = [one for spec in whole for one in spellings(table.schema, spec)]
    return {row.name: row.spec for row in lake.partitions_named(table, spelled) if not row.file_count} if spelled else {}


def _means(text: str | bytes | None, type_: DataType, value: object, default: str) -> bool:
    if isinstance(text, bytes):
        return value == text
    if text is None or value is None:
        return value is None and text in (None, default)
    if isinstance(value, str) and not value.strip():
        return text in (value, default)
    return text in (partition_text(type_, value, legacy=True), partition_text(type_, value, legacy=False))


def where(schema: Schema, partitions: Collection[bytes], condition: str, table: str) -> set[bytes]:
    """The partitions for which a condition on partition columns is true; raises `AnalysisError` for any other condition."""
    check_words(condition)  # of the statement around it all this is one word
    tree = parse_one(f"SELECT * FROM t WHERE {condition}")  # noqa: S608 - only parsed, and every part of it checked
    node = tree.args.get("where")
    names = frozenset(schema.partition_keys)

    def column_of(column: exp.Column) -> Field:
        if column.name not in names:
            keys = ", ".join(schema.partition_keys) or "none"
            raise AnalysisError(f"The condition may speak of partition columns only ({keys}), not of {column.name}.", fragment=column.name)
        return schema.field(column.name)

    if not isinstance(tree, exp.Select) or node is None or len([v for v in tree.args.values() if v]) != 3:
        raise AnalysisError(f"'{condition}' is no condition on the partitions of {table}.", fragment=condition[:40])
    try:
        wanted = Conditions(column_of).translate(node.this)
    except NotLocal:
        raise AnalysisError(
            f"'{condition}' cannot be decided here: compare partition columns with literals, with AND, OR, NOT, IN, BETWEEN, IS NULL."
        ) from None
    types = [f.type for f in schema.partition_fields]
    ordered = list(partitions)
    rows = [binary_row.decode(types, partition) for partition in ordered]
    columns = {f.name: as_column(f.type, [row[i] for row in rows]) for i, f in enumerate(schema.partition_fields)}
    matching = pa.table({**columns, "__at": pa.array(range(len(ordered)), pa.int64())}).filter(wanted)
    return {ordered[at] for at in matching.column("__at").to_pylist()}


def idle(entries: Iterable[ManifestEntry], span: timedelta) -> set[bytes]:
    """The partitions to which no file came for so long."""
    last: dict[bytes, int] = {}
    for entry in entries:
        last[entry.partition] = max(last.get(entry.partition, 0), entry.file.creation_time_millis)
    limit = local_wall_millis() - int(span.total_seconds() * 1000)
    return {partition for partition, newest in last.items() if newest <= limit}


def chosen(table: LakeTable, entries: Sequence[ManifestEntry], arguments: Mapping[str, Any]) -> set[bytes]:
    """The partitions `partitions`, `where` and `partition_idle_time` leave."""
    schema, name = table.schema, str(table.identifier)
    partitions = {entry.partition for entry in entries}
    if "partitions" in arguments and "where" in arguments:
        raise AnalysisError("'partitions' and 'where' both choose partitions; give one of them.")
    if "partitions" in arguments:
        partitions = named(schema, partitions, parse_specs(arguments["partitions"], schema, name))
    if "where" in arguments:
        partitions = where(schema, partitions, arguments["where"], name)
    if "partition_idle_time" in arguments:
        partitions &= idle(entries, span("partition_idle_time", arguments["partition_idle_time"]))
    return partitions


def span(name: str, text: str) -> timedelta:
    """A span of time given to a call; raises `InvalidOption`."""
    length = Option(name, optional(duration()), None, "").parse(text)
    assert length is not None
    return length


MOST_BUCKETS = 1 << 16
"""No table has more buckets: a range is told apart number by number."""


def numbers(text: str) -> set[int]:
    """``0-99,200`` as numbers of buckets; raises `InvalidOption`."""
    numbers: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        first, last = whole_number(low, most=MOST_BUCKETS), whole_number(high if dash else low, most=MOST_BUCKETS)
        if first is None or last is None:
            raise InvalidOption(f"buckets => '{text}': numbers up to {MOST_BUCKETS:,} and ranges such as '0-99,200' are expected.")
        numbers.update(range(first, last + 1))
    return numbers
