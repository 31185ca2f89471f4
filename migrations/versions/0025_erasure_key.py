"""The key of digests by which the audit log knows an erasure again: without it nobody can try what was erased."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0025", "0024"
_RANDOM = "sha256((gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text)::bytea)"


def upgrade() -> None:
    comment = "Keys the digests of erasures in the audit log."
    op.add_column(
        "catalog_state", sa.Column("erasure_key", sa.LargeBinary, nullable=False, server_default=sa.text(_RANDOM), comment=comment)
    )


def downgrade() -> None:
    op.drop_column("catalog_state", "erasure_key")
