"""A reservation of each principal for each branch.

There was one for each principal: while one of its clients was to decide about a table, none of the others could be about another one,
and a client that did not come kept all of them from it, on every table.

The table of one for each principal stays: servers of before write it until they notice this revision.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0030", "0029"


def upgrade() -> None:
    op.create_table(
        "client_reservation_of_branch",
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
        sa.PrimaryKeyConstraint("principal", "table_id", "branch", name="client_reservation_of_branch_pkey"),
        comment="The last reservation of each principal's clients for each branch.",
    )


def downgrade() -> None:
    op.drop_table("client_reservation_of_branch")
