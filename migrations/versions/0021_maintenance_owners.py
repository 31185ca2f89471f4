"""One lease a server instead of one a table, and what each table was last looked at for: idle tables cost nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0021", "0020"


def upgrade() -> None:
    op.create_table(
        "maintenance_owner",
        sa.Column("owner", sa.Uuid, nullable=False, comment="A server's process; it works on its tables until lease_until."),
        sa.Column("server", sa.Text, nullable=False, comment="Where that process runs, for people."),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="maintenance_owner_pkey"),
    )
    op.drop_table("maintenance_lease")
    _leases()
    op.create_foreign_key(
        "maintenance_lease_owner_fkey", "maintenance_lease", "maintenance_owner", ["owner"], ["owner"], ondelete="CASCADE"
    )
    op.create_table(
        "maintenance_mark",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("snapshot_uuid", sa.Text, nullable=False, comment="As of this snapshot nothing was to be done."),
        sa.Column("schema_id", sa.BigInteger, nullable=False, comment="By the options of this schema."),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, comment="When it is to be looked at though nothing was committed."),
        sa.PrimaryKeyConstraint("table_id", name="maintenance_mark_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["table_entry.table_id"], name="maintenance_mark_table_fkey", ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_table("maintenance_mark")
    op.drop_table("maintenance_lease")
    op.drop_table("maintenance_owner")
    _leases(sa.Column("server", sa.Text, nullable=False), sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False))


def _leases(*more: sa.Column[object]) -> None:
    """Leases last for seconds: no row of the table's former shape is worth keeping."""
    op.create_table(
        "maintenance_lease",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("owner", sa.Uuid, nullable=False),
        *more,
        sa.PrimaryKeyConstraint("table_id", name="maintenance_lease_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["table_entry.table_id"], name="maintenance_lease_table_fkey", ondelete="CASCADE"),
    )
    op.create_index("maintenance_lease_owner", "maintenance_lease", ["owner"])
