"""Partitions of bytes that are no text in UTF-8 are listed anew: for a surrogate the names had three U+FFFD, and have one, as Java's."""

from __future__ import annotations

from alembic import op

revision, down_revision = "0035", "0034"
# By its bytes: a database in another encoding than UTF-8 knows no U+FFFD.
_LISTED_ANEW = """
    UPDATE snapshot_pointer p SET listed = false
    FROM (
        SELECT DISTINCT table_id, branch FROM table_partition WHERE position(decode('efbfbd', 'hex') IN convert_to(name, 'UTF8')) > 0
    ) t
    WHERE t.table_id = p.table_id AND t.branch = p.branch
"""


def upgrade() -> None:
    op.execute(_LISTED_ANEW)


def downgrade() -> None:
    op.execute(_LISTED_ANEW)
