"""When a branch came to its snapshots otherwise than by commits.

Partitions that are first listed afterwards, or changed by it, count as changed then for their expiry, and not when somebody first looked.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0032", "0031"


def upgrade() -> None:
    comment = "When it was last set by anything but a commit, as a registration, a rollback or a repair; none where it was not since 0032."
    op.add_column("snapshot_pointer", sa.Column("pointed_at", sa.DateTime(timezone=True), comment=comment))


def downgrade() -> None:
    op.drop_column("snapshot_pointer", "pointed_at")
