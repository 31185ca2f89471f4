"""Snapshots that a server of before commits beside newer ones have Postgres's time, too: it does not know of the column.

As old as its own clock says they went at once, by the expiry of a newer server, where that clock was behind.
"""

from __future__ import annotations

from alembic import op

revision, down_revision = "0034", "0033"


def upgrade() -> None:
    op.execute("ALTER TABLE table_snapshot ALTER COLUMN decided_at SET DEFAULT clock_timestamp()")


def downgrade() -> None:
    op.execute("ALTER TABLE table_snapshot ALTER COLUMN decided_at DROP DEFAULT")
