"""The logins of browsers that were ended by logging out: a copy of the cookie is good on no server any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0022", "0021"


def upgrade() -> None:
    op.create_table(
        "ended_login",
        sa.Column("login", sa.Uuid, nullable=False, comment="The id that the cookie of the pages carries."),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment="When the cookie would have ended by itself."),
        sa.PrimaryKeyConstraint("login", name="ended_login_pkey"),
    )


def downgrade() -> None:
    op.drop_table("ended_login")
