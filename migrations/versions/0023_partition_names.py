"""Partitions whose values hold a `/` or `%` get names of their own; two of them could share one row, which is counted anew."""

from __future__ import annotations

from itertools import permutations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0023", "0022"
_RENAMED = sa.text("UPDATE table_partition SET name = :name WHERE table_id = :table_id AND branch = :branch AND name = :former")
_COUNTED_ANEW = sa.text("UPDATE snapshot_pointer SET counted = false, listed = false WHERE table_id = :table_id AND branch = :branch")
_ODD = sa.text("SELECT table_id, branch, name, spec FROM table_partition WHERE spec::text ~ '[/%]'")


def upgrade() -> None:
    connection = op.get_bind()
    for row in connection.execute(_ODD).fetchall():
        keys = _in_order(row.name, row.spec)
        branch = {"table_id": row.table_id, "branch": row.branch}
        if keys is not None:
            name = "/".join(f"{_escaped(key)}={_escaped(row.spec[key])}" for key in keys)
            connection.execute(_RENAMED, {**branch, "former": row.name, "name": name})
        connection.execute(_COUNTED_ANEW, branch)


def downgrade() -> None:
    # Two rows whose former names are one cannot both stay; all are made anew from the files.
    op.execute("UPDATE snapshot_pointer AS p SET counted = false, listed = false FROM table_partition AS t "
               "WHERE t.table_id = p.table_id AND t.branch = p.branch AND t.spec::text ~ '[/%]'")  # fmt: skip
    op.execute("DELETE FROM table_partition WHERE spec::text ~ '[/%]' AND NOT explicit AND NOT done")


def _in_order(name: str, spec: dict[str, str]) -> tuple[str, ...] | None:
    """The keys in the table's order, which the name was made by."""
    orders = (keys for keys in permutations(spec) if "/".join(f"{key}={spec[key]}" for key in keys) == name)
    return next(orders, None)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")
