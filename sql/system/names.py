"""Which system table a name means: ``t$files``, ``t$branch_b$files``, ``sys.tables``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from lake import Lake
from model.errors import TableNotExist, nearest
from model.options.scan_mode import SNAPSHOT_OPTIONS
from model.predicate import Predicate
from sql.execution.session import CATALOG, Session
from sql.system.base import REGISTRY, SystemScan, SystemTable
from sql.system.data import DATA_TABLES
from sql.system.overall import OVERALL

for _module in ("files", "metadata", "maintenance"):  # they register their tables
    import_module(f"sql.system.{_module}")


_ABOUT_ROWS = frozenset(
    {
        "files",
        "file_key_ranges",
        "partitions",
        "buckets",
        "manifests",
        "statistics",
        "compaction",
        "debt",
        "table_indexes",
        "file_indexes",
        *DATA_TABLES,
    }
)
"""What shows values of rows or of partitions, or counts them: only for who may read all of the table."""


def split_name(name: str) -> tuple[str, str] | None:
    """``t$files`` as ``("t", "files")``; None for a name without a system table in it."""
    base, dollar, kind = name.rpartition("$")
    return (base, kind.lower()) if dollar and base and not kind.startswith("branch_") else None


def is_system(parts: tuple[str, ...]) -> bool:
    """Whether a name means a system table."""
    parts = parts[1:] if len(parts) == 3 and parts[0] == CATALOG else parts
    return split_name(parts[-1]) is not None or (len(parts) == 2 and parts[0].lower() == "sys")


def find_system_table(
    lake: Lake,
    session: Session,
    parts: tuple[str, ...],
    *,
    options: Mapping[str, str] | None = None,
    predicate: Predicate | None = None,
    zone: str = "UTC",
) -> tuple[SystemTable, SystemScan] | None:
    """The system table a name means and a read of it; None for a plain table. Raises `TableNotExist` for an unknown one."""
    if not is_system(parts):
        return None
    named = split_name(parts[-1])
    if named is None:
        name = parts[-1].lower()
        if name not in OVERALL:
            raise _unknown(f"sys.{parts[-1]}", name, OVERALL, "sys.")
        return OVERALL[name], SystemScan(lake=lake, table=None, predicate=predicate, zone=zone)
    base, kind = named
    table = lake.open(session.identifier((*parts[:-1], base)))
    if kind in _ABOUT_ROWS:
        lake.require_whole(table, kind)
    if kind in DATA_TABLES and SNAPSHOT_OPTIONS & {*table.schema.options, *(options or {})}:
        table = table.at(lake.scan(table, options or {}, zone=zone).schema_id)
    scan = SystemScan(lake=lake, table=table, predicate=predicate, options=options or {}, zone=zone)
    if make := DATA_TABLES.get(kind):
        return make(table), scan
    if kind not in REGISTRY:
        raise _unknown(".".join(parts), kind, {**REGISTRY, **DATA_TABLES}, "$")
    return REGISTRY[kind], scan


def _unknown(written: str, name: str, known: Mapping[str, object], prefix: str) -> TableNotExist:
    near = nearest(name, known)
    problem = TableNotExist(written)
    problem.tell(f" Did you mean {prefix}{near}?" if near else f" There are: {', '.join(prefix + k for k in sorted(known))}.")
    return problem
