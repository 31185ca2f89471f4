"""Keep with each job where its tables begin.

The position was computed from the present table at every start. A job that was killed in its first batch then took its second start for its
first, and what the table had held was lost.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision, down_revision = "0013", "0012"


def upgrade() -> None:
    comment = "For each INSERT: where its tables begin, by mention."
    op.add_column("stream_job", sa.Column("starts", postgresql.JSONB, nullable=False, server_default="{}", comment=comment))


def downgrade() -> None:
    op.drop_column("stream_job", "starts")
