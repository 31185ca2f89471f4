"""All that a catalog and its warehouse hold, to be compared before and after what is to change nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import psycopg

_OTHERWISE = {"maintenance_lease", "quota_usage", "server", "idempotency_key", "audit_log"}
"""What coordinates servers, and what tells of statements that did nothing as well."""


def everything(dsn: str, warehouse: Path) -> dict[str, object]:
    """Every row of the catalog and every file there is, by table and by path."""
    found: dict[str, object] = {}
    with psycopg.connect(dsn) as conn:
        names = [name for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        for name in sorted(set(names) - _OTHERWISE):
            # Whether a snapshot's file is known to be there is noted some time after its commit, and the time once a minute.
            found[name] = sorted(str(row) for row in conn.execute(f"SELECT to_jsonb(t) - 'published' - 'clock_seen_at' FROM {name} t"))
    for path in warehouse.rglob("*"):
        if path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
