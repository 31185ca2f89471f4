"""The catalog: what databases and tables exist, every schema they had, and the snapshot each branch points at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision = "0001", None


def upgrade() -> None:
    op.create_table(
        "sluice_database",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("comment", sa.Text),
        sa.Column("options", JSONB, nullable=False, server_default="{}"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("name", name="sluice_database_pkey"),
    )
    op.create_table(
        "sluice_table",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("database", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("schema_id", sa.BigInteger, nullable=False),
        sa.Column("published_schema_id", sa.BigInteger, nullable=False, server_default="-1", comment="Newest version whose file exists."),
        sa.Column("moving_from", sa.Text, comment="Where the files still lie while a rename is not finished."),
        sa.Column("diverged_at", sa.Text, comment="The snapshot file that shows someone wrote past the catalog."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("table_id", name="sluice_table_pkey"),
        sa.UniqueConstraint("database", "name", name="sluice_table_name_key"),
        sa.ForeignKeyConstraint(["database"], ["sluice_database.name"], name="sluice_table_database_fkey"),
    )
    op.create_table(
        "table_schema",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("schema_id", sa.BigInteger, nullable=False),
        sa.Column("body", JSONB, nullable=False),
        sa.PrimaryKeyConstraint("table_id", "schema_id", name="table_schema_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="table_schema_table_fkey", ondelete="CASCADE"),
    )
    _snapshots()
    op.create_table(
        "table_tag",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("snapshot", JSONB, nullable=False),
        sa.PrimaryKeyConstraint("table_id", "name", name="table_tag_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="table_tag_table_fkey", ondelete="CASCADE"),
    )
    op.execute("INSERT INTO sluice_database (name) VALUES ('default')")


def _snapshots() -> None:
    op.create_table(
        "table_snapshot",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("branch", sa.Text(collation="C"), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger, nullable=False),
        sa.Column("snapshot_uuid", sa.Text, nullable=False),
        sa.Column("body", JSONB, nullable=False),
        sa.Column("published", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("table_id", "branch", "snapshot_id", name="table_snapshot_pkey"),
        sa.UniqueConstraint("table_id", "snapshot_uuid", name="table_snapshot_uuid_key"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="table_snapshot_table_fkey", ondelete="CASCADE"),
    )
    op.create_index("table_snapshot_unpublished", "table_snapshot", ["table_id"], postgresql_where=sa.text("NOT published"))
    op.create_table(
        "snapshot_pointer",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("branch", sa.Text(collation="C"), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger, nullable=False),
        sa.Column("snapshot_uuid", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("table_id", "branch", name="snapshot_pointer_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="snapshot_pointer_table_fkey", ondelete="CASCADE"),
    )


def downgrade() -> None:
    for table in ("table_tag", "snapshot_pointer", "table_snapshot", "table_schema", "sluice_table", "sluice_database"):
        op.drop_table(table)
