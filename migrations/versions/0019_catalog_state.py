"""The catalog's identity, which its warehouse knows too, and the time as its last run of expiry saw it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0019", "0016"


def upgrade() -> None:
    op.create_table(
        "catalog_state",
        sa.Column("one", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("catalog_id", sa.Uuid, nullable=False, server_default=sa.text("gen_random_uuid()")),
        sa.Column("clock_seen_at", sa.DateTime(timezone=True), comment="When expiry last ran by a clock that was right."),
        sa.Column("clock_confirmed_at", sa.DateTime(timezone=True), comment="When somebody last said that the clock is right."),
        sa.PrimaryKeyConstraint("one", name="catalog_state_pkey"),
        sa.CheckConstraint("one", name="catalog_state_one_row"),
    )
    op.execute("INSERT INTO catalog_state DEFAULT VALUES")


def downgrade() -> None:
    op.drop_table("catalog_state")
