"""Each branch's last expired snapshot, by which a stream that goes on behind it is told from one that has read another of its id."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision, down_revision = "0026", "0025"


def upgrade() -> None:
    op.create_table(
        "expired_snapshot",
        sa.Column("table_id", sa.Uuid, nullable=False, comment="The table."),
        sa.Column("branch", sa.Text, nullable=False, comment="The branch."),
        sa.Column("snapshot_id", sa.BigInteger, nullable=False, comment="The id before that of the earliest snapshot there was then."),
        sa.Column("body", postgresql.JSONB, nullable=False, comment="The snapshot, as its file said it."),
        sa.PrimaryKeyConstraint("table_id", "branch", name="expired_snapshot_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["table_entry.table_id"], name="expired_snapshot_table_fkey", ondelete="CASCADE"),
        comment="The snapshot of each branch that expired last; none where none has since this is kept.",
        if_not_exists=True,  # revision 0025 made it for some days
    )


def downgrade() -> None:
    op.drop_table("expired_snapshot")
