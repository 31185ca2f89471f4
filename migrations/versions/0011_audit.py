"""Who ran what, from where, and how it ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0011", "0008"


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False, comment="When it ended."),
        sa.Column("principal", sa.Text, nullable=False, comment="Empty where the server knew no principals."),
        sa.Column("door", sa.Text, nullable=False),
        sa.Column("address", sa.Text),
        sa.Column("request_id", sa.Text),
        sa.Column("session", sa.Text),
        sa.Column("statement_id", sa.Text),
        sa.Column("action", sa.Text, nullable=False, comment="The text that ran, without its secrets, or method and path."),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("error_class", sa.Text),
        sa.Column("millis", sa.BigInteger, nullable=False),
    )
    op.create_index("audit_log_time_idx", "audit_log", ["time"])


def downgrade() -> None:
    op.drop_table("audit_log")
