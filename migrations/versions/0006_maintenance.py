"""Tables that look after themselves: which server does it for which table, and what was done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    op.create_table(
        "maintenance_lease",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("owner", sa.Uuid, nullable=False, comment="The server's process; only it works on the table until lease_until."),
        sa.Column("server", sa.Text, nullable=False, comment="Where that process runs, for people."),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="maintenance_lease_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="maintenance_lease_table_fkey", ondelete="CASCADE"),
    )
    op.create_index("maintenance_lease_owner", "maintenance_lease", ["owner"])
    op.create_table(
        "compaction_run",
        sa.Column("run_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False, comment="done, lost or failed"),
        sa.Column("message", sa.Text),
        sa.Column("snapshot_id", sa.BigInteger),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.Column("files_before", sa.BigInteger, nullable=False),
        sa.Column("files_after", sa.BigInteger, nullable=False),
        sa.Column("bytes_before", sa.BigInteger, nullable=False),
        sa.Column("bytes_after", sa.BigInteger, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="compaction_run_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="compaction_run_table_fkey", ondelete="CASCADE"),
    )
    op.create_index("compaction_run_table", "compaction_run", ["table_id", "run_id"])


def downgrade() -> None:
    op.drop_table("compaction_run")
    op.drop_table("maintenance_lease")
