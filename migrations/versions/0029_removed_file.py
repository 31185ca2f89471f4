"""The files that were removed lately, for a catalog that revision 0025 was brought to in its first hour, before it made their table.

Servers find such a catalog up to date, and each rollback and expiry on it fails.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision, down_revision = "0029", "0028"


def upgrade() -> None:
    op.create_table(
        "removed_file",
        sa.Column("table_id", sa.Uuid, nullable=False, comment="The table."),
        sa.Column("path", sa.Text, nullable=False, comment="Where the file lay, below the table's directory."),
        sa.Column("mark", postgresql.JSONB, nullable=False, comment="What tells it from another file of that name."),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now(), comment="When it went."),
        sa.PrimaryKeyConstraint("table_id", "path", name="removed_file_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["table_entry.table_id"], name="removed_file_table_fkey", ondelete="CASCADE"),
        comment="Files of what is no more that were removed within a day: whoever writes one again was held up, and takes it back.",
        if_not_exists=True,  # most catalogs have it of 0025
    )


def downgrade() -> None:
    """Nothing: the table is revision 0025's."""
