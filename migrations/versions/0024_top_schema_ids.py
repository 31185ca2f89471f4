"""No version of a table's schema has the number of one that is gone: data files name the version they were written by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0024", "0023"


def upgrade() -> None:
    op.add_column("table_entry", sa.Column("top_schema_id", sa.BigInteger, nullable=False, server_default="-1"))


def downgrade() -> None:
    op.drop_column("table_entry", "top_schema_id")
