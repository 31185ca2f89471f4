"""The key of digests by which the audit log knows an erasure again: without it nobody can try what was erased.

And the files of rolled-back snapshots that were removed lately, as a server that was held up may write one again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision, down_revision = "0025", "0024"
_RANDOM = "sha256((gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text)::bytea)"


def upgrade() -> None:
    comment = "Keys the digests of erasures in the audit log."
    op.add_column(
        "catalog_state", sa.Column("erasure_key", sa.LargeBinary, nullable=False, server_default=sa.text(_RANDOM), comment=comment)
    )

    op.create_table(
        "removed_file",
        sa.Column("table_id", sa.Uuid, nullable=False, comment="The table."),
        sa.Column("path", sa.Text, nullable=False, comment="Where the file lay, below the table's directory."),
        sa.Column("mark", postgresql.JSONB, nullable=False, comment="What tells it from another file of that name."),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now(), comment="When it went."),
        sa.PrimaryKeyConstraint("table_id", "path", name="removed_file_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["table_entry.table_id"], name="removed_file_table_fkey", ondelete="CASCADE"),
        comment="Files of what is no more that were removed within a day: whoever writes one again was held up, and takes it back.",
    )


def downgrade() -> None:
    op.drop_table("removed_file")
    op.drop_column("catalog_state", "erasure_key")
