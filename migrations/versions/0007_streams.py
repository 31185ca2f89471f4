"""Streams: every decided snapshot announces itself to whoever listens, and consumers' progress has a row.

The announcement is a trigger, so that no way of committing can forget it, and it is delivered only if the deciding transaction commits.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0007", "0006"


def upgrade() -> None:
    op.create_table(
        "stream_consumer",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("owner", sa.Uuid, nullable=False, comment="The stream that reads under this name; a newer one takes it over."),
        sa.Column("next_snapshot", sa.BigInteger, comment="NULL until the first progress."),
        sa.Column("written", sa.BigInteger, comment="What this server last put into the consumer's file."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("table_id", "branch", "name", name="stream_consumer_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="stream_consumer_table_fkey", ondelete="CASCADE"),
    )
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


def downgrade() -> None:
    op.execute("DROP TRIGGER table_snapshot_announced ON table_snapshot")
    op.execute("DROP FUNCTION announce_snapshot()")
    op.drop_table("stream_consumer")
