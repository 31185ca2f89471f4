"""Let a writer that lost the race for a branch's next snapshot reserve it for a moment.

Two servers that commit to one table, or a server beside clients of the REST catalog, starved each other: who had just won began
again at once, and who had lost slept. The reservation stands in the row that decides, so that all servers respect it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0014", "0013"


def upgrade() -> None:
    op.add_column("snapshot_pointer", sa.Column("reserved_by", sa.Text, comment="The writer the next decision belongs to."))
    until = sa.Column("reserved_until", sa.DateTime(timezone=True), comment="When that ends; it stays where it was not used.")
    op.add_column("snapshot_pointer", until)


def downgrade() -> None:
    op.drop_column("snapshot_pointer", "reserved_until")
    op.drop_column("snapshot_pointer", "reserved_by")
