"""Whether partitions are marked as done: in the catalog, or by a marker that this server or a client left in the partition's directory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from lake.tables.handle import LakeTable
from model.partition import partition_name
from model.schema.schema import Schema
from table.format.io.patience import carried
from table.format.layout import escape, respelled

Spec = Mapping[str, str]
_THREADS = 16
"""So many partitions of a store are asked for at once."""


def done(table: LakeTable, specs: Sequence[Spec], marked: Collection[str]) -> list[bool]:
    """For each partition whether it is done; ``marked`` are the names of those that the catalog has marked."""

    def is_done(spec: Spec) -> bool:
        return any(name in marked for name in names(table.schema, spec)) or _has_marker(table, spec)

    with ThreadPoolExecutor(min(_THREADS, len(specs) or 1), thread_name_prefix="done") as threads:
        return list(threads.map(carried(is_done), specs))


def names(schema: Schema, spec: Spec) -> list[str]:
    """The names a partition may have in the catalog."""
    return [partition_name(spelled, schema.partition_keys) for spelled in spellings(schema, spec)]


def spellings(schema: Schema, spec: Spec) -> list[Spec]:
    """A partition as it is given, and as old and new names of directories have it (``19724``, ``2024-01-02``): clients use either."""
    old, new = (
        {field.name: respelled(field.type, spec[field.name], legacy=legacy) for field in schema.partition_fields}
        for legacy in (True, False)
    )
    distinct: list[Spec] = []
    for spelled in (spec, old, new):
        if spelled not in distinct:
            distinct.append(spelled)
    return distinct


def _has_marker(table: LakeTable, spec: Spec) -> bool:
    layout, keys = table.files.layout, table.schema.partition_keys
    directories = ("/".join(f"{escape(key)}={escape(spelled[key])}" for key in keys) for spelled in spellings(table.schema, spec))
    return any(table.files.io.file_exists(layout.success_file(table.schema, directory)) for directory in directories)
