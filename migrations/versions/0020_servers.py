"""The servers of a catalog, which pass requests on to each other, and the key of the pages' cookies, which all of them read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0020", "0017"


def upgrade() -> None:
    op.execute("CREATE SEQUENCE server_number AS integer MINVALUE 1 MAXVALUE 65535 CYCLE")
    op.create_table(
        "server",
        sa.Column("number", sa.Integer, nullable=False, comment="Part of the handles of its sessions and statements."),
        sa.Column("name", sa.Text, nullable=False, comment="Host and process, for people."),
        sa.Column("url", sa.Text, comment="Where the others reach it; none before it serves, and after it has stopped."),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("number", name="server_pkey"),
    )
    op.create_table(
        "pages_key",
        sa.Column("one", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("key", sa.LargeBinary, nullable=False, comment="Signs the cookies of the pages; a backup has none."),
        sa.PrimaryKeyConstraint("one", name="pages_key_pkey"),
        sa.CheckConstraint("one", name="pages_key_one_row"),
    )


def downgrade() -> None:
    op.drop_table("pages_key")
    op.drop_table("server")
    op.execute("DROP SEQUENCE server_number")
