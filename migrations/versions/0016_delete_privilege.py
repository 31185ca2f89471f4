"""Give DELETE to all who hold UPDATE: it covered both until taking rows and history away became a right of its own."""

from __future__ import annotations

from alembic import op

revision, down_revision = "0016", "0015"


def upgrade() -> None:
    op.execute(
        """
        INSERT INTO access_grant (resource_type, database, table_id, object, access, principal, columns, expires_at)
        SELECT resource_type, database, table_id, object, 'DELETE', principal, columns, expires_at FROM access_grant WHERE access = 'UPDATE'
        ON CONFLICT DO NOTHING
        """
    )


def downgrade() -> None:
    op.execute("DELETE FROM access_grant WHERE access = 'DELETE'")
