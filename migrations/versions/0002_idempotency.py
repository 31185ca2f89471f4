"""Repeatable writes: what each idempotency key did, so that a repeat gets the same answer, also after a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    op.create_table(
        "idempotency_key",
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("body_hash", sa.Text, nullable=False),
        sa.Column("owner", sa.Uuid, nullable=False, comment="The claim; only its holder may finish it."),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answer", JSONB, comment="NULL while the work is running."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("scope", "key", name="idempotency_key_pkey"),
    )
    op.create_index("idempotency_key_age", "idempotency_key", ["created_at"])


def downgrade() -> None:
    op.drop_table("idempotency_key")
