"""Announce snapshots after they are committed, no longer in the deciding transaction.

A transaction that notifies holds a lock on the whole database while it is written to disk, so that commits to different tables
waited for each other's disk write, one by one.
"""

from __future__ import annotations

from alembic import op

revision, down_revision = "0012", "0011"


def upgrade() -> None:
    op.execute("DROP TRIGGER table_snapshot_announced ON table_snapshot")
    op.execute("DROP FUNCTION announce_snapshot()")


def downgrade() -> None:
    op.execute(
        """
        CREATE FUNCTION announce_snapshot() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('sluice_snapshot', NEW.table_id || ' ' || NEW.branch);
            RETURN NULL;
        END $$
        """
    )
    op.execute("CREATE TRIGGER table_snapshot_announced AFTER INSERT ON table_snapshot FOR EACH ROW EXECUTE FUNCTION announce_snapshot()")
