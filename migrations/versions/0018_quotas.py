"""Quotas of users and roles, and what the users of each server take of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0018", "0019"


def upgrade() -> None:
    op.create_table(
        "quota",
        sa.Column("holder", sa.Text, nullable=False, comment="USER or ROLE."),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False, comment="A count, bytes or seconds."),
        sa.PrimaryKeyConstraint("holder", "principal", "name", name="quota_pkey"),
    )
    op.create_table(
        "quota_usage",
        sa.Column("server", sa.Uuid, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False, comment="What is older than seconds counts no more."),
        sa.PrimaryKeyConstraint("server", "principal", "name", name="quota_usage_pkey"),
    )


def downgrade() -> None:
    op.drop_table("quota_usage")
    op.drop_table("quota")
