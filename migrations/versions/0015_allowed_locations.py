"""Record outside which places no file of a table may lie: its own directory and the prefixes it was registered or migrated with.

Tables that may hold such files from before (registered ones, and those with a migration in their history) keep NULL: the server's
import directories are theirs, as they were when the files were taken over. All others have no place but their own.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0015", "0014"


def upgrade() -> None:
    op.add_column(
        "sluice_table", sa.Column("allowed_locations", sa.ARRAY(sa.Text), comment="Besides its own; NULL: all import directories.")
    )
    op.execute(
        """
        UPDATE sluice_table t SET allowed_locations = '{}'
        WHERE NOT t.external
          AND NOT EXISTS (
            SELECT 1 FROM table_snapshot s
            WHERE s.table_id = t.table_id AND 'MIGRATE' IN (s.body ->> 'operation', s.body -> 'properties' ->> 'sluice.operation')
          )
          AND NOT EXISTS (SELECT 1 FROM snapshot_pointer p WHERE p.table_id = t.table_id AND NOT EXISTS (
            SELECT 1 FROM table_snapshot s WHERE s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = 1
          ))
        """
    )
    op.execute("ALTER TABLE sluice_table ALTER COLUMN allowed_locations SET DEFAULT '{}'")


def downgrade() -> None:
    op.drop_column("sluice_table", "allowed_locations")
