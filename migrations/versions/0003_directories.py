"""Directories still to be removed: a drop is decided first and its files go after, so a crash must not forget them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    op.create_table(
        "dropped_directory",
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("location", name="dropped_directory_pkey"),
    )


def downgrade() -> None:
    op.drop_table("dropped_directory")
