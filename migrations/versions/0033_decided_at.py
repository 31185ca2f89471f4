"""When each snapshot was decided, by Postgres's clock.

Expiry went by the time that a snapshot says of itself, which is the clock of whoever committed it: where that was behind, snapshots were
old as soon as they were there, and another server let them go.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0033", "0032"


def upgrade() -> None:
    comment = "When this catalog decided it, by Postgres's clock; none where another did, whose files were taken over, or before 0033."
    op.add_column("table_snapshot", sa.Column("decided_at", sa.DateTime(timezone=True), comment=comment))


def downgrade() -> None:
    op.drop_column("table_snapshot", "decided_at")
