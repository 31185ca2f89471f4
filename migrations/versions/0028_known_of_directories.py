"""Remember with a directory that is to be removed what the catalog had of it: whose files lie there is told by them, and by no clock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision = "0028", "0027"


def upgrade() -> None:
    op.add_column(
        "dropped_directory",
        sa.Column("known", JSONB, comment="The table's or branch's schemas with their times, its snapshots, and paths of stale files."),
    )


def downgrade() -> None:
    op.drop_column("dropped_directory", "known")
