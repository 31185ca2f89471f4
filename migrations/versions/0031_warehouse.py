"""The warehouse of the catalog.

Where it holds no tables nothing else tells a mistyped warehouse, or one whose disk is not mounted, from the catalog's own.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0031", "0030"


def upgrade() -> None:
    comment = "The warehouse that bears the catalog's mark, as the server spelled it that wrote the mark; none before the first did."
    op.add_column("catalog_state", sa.Column("warehouse", sa.Text, comment=comment))


def downgrade() -> None:
    op.drop_column("catalog_state", "warehouse")
