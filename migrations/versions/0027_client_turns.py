"""Let every server know how often a client lost, and whether reservations were used: behind a balancer each try comes to another one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0027", "0026"


def upgrade() -> None:
    op.create_table(
        "client_loss",
        sa.Column("table_id", sa.Uuid, nullable=False, comment="The table."),
        sa.Column("branch", sa.Text, nullable=False, comment="The branch."),
        sa.Column("writer", sa.Uuid, nullable=False, comment="A digest of the client's principal and commitUser, which may be long."),
        sa.Column("losses", sa.Integer, nullable=False, comment="Commits it lost in a row."),
        sa.Column(
            "snapshot_id",
            sa.BigInteger,
            nullable=False,
            comment="The branch's latest then; after it one of its own ends this.",
        ),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False, comment="When it heard of the last one."),
        sa.PrimaryKeyConstraint("table_id", "branch", "writer", name="client_loss_pkey"),
        comment="Clients that lost a commit within a minute.",
    )
    op.create_table(
        "client_reservation",
        sa.Column("principal", sa.Text, nullable=False, comment="Whose."),
        sa.Column("table_id", sa.Uuid, nullable=False, comment="The table."),
        sa.Column("branch", sa.Text, nullable=False, comment="The branch."),
        sa.Column("commit_user", sa.Text, nullable=False, comment="The client's commitUser."),
        sa.Column(
            "snapshot_id", sa.BigInteger, nullable=False, comment="The branch's latest then; one of its own after it used the reservation."
        ),
        sa.Column("reserved_until", sa.DateTime(timezone=True), nullable=False, comment="When it ended, where nobody used it."),
        sa.Column("seconds", sa.Double, nullable=False, comment="How long it was."),
        sa.Column("unused", sa.Integer, nullable=False, comment="Reservations in a row before it that nobody used."),
        sa.PrimaryKeyConstraint("principal", name="client_reservation_pkey"),
        comment="The last reservation of each principal's clients.",
    )


def downgrade() -> None:
    op.drop_table("client_reservation")
    op.drop_table("client_loss")
