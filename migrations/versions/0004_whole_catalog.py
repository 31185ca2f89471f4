"""What a catalog for every client keeps besides tables: branches, views, functions, partitions, who made what, and files to be removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    for table in ("sluice_database", "sluice_table"):
        _audit(table)
    op.add_column(
        "sluice_table",
        sa.Column("external", sa.Boolean, nullable=False, server_default=sa.false(), comment="Its files are its maker's: never removed."),
    )
    _branches()
    op.add_column("snapshot_pointer", sa.Column("record_count", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("snapshot_pointer", sa.Column("file_size", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("snapshot_pointer", sa.Column("file_count", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("snapshot_pointer", sa.Column("last_file_millis", sa.BigInteger, nullable=False, server_default="0"))
    for column, comment in (("counted", "Whether the four numbers hold."), ("listed", "Whether the rows of table_partition hold.")):
        op.add_column("snapshot_pointer", sa.Column(column, sa.Boolean, nullable=False, server_default=sa.false(), comment=comment))
    _partitions()
    op.create_table(
        "stale_file",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("path", sa.Text, nullable=False, comment="Below the table's directory."),
        sa.Column("mark", JSONB, nullable=False, comment="What the file holds as long as it is the one to be removed."),
        sa.PrimaryKeyConstraint("table_id", "path", name="stale_file_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="stale_file_table_fkey", ondelete="CASCADE"),
    )
    _named("catalog_view", "view_id")
    _named("catalog_function", "function_id")


def _audit(table: str) -> None:
    op.add_column(table, sa.Column("owner", sa.Text))
    op.add_column(table, sa.Column("created_by", sa.Text))
    op.add_column(table, sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()))
    op.add_column(table, sa.Column("updated_by", sa.Text))


def _branch_column() -> sa.Column[str]:
    return sa.Column("branch", sa.Text(collation="C"), nullable=False, server_default="main")


def _branches() -> None:
    op.create_table(
        "table_branch",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("schema_id", sa.BigInteger, nullable=False),
        sa.Column("published_schema_id", sa.BigInteger, nullable=False, server_default="-1"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("table_id", "name", name="table_branch_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="table_branch_table_fkey", ondelete="CASCADE"),
    )
    op.add_column("table_schema", _branch_column())
    op.drop_constraint("table_schema_pkey", "table_schema")
    op.create_primary_key("table_schema_pkey", "table_schema", ["table_id", "branch", "schema_id"])
    op.drop_constraint("table_snapshot_uuid_key", "table_snapshot")
    op.create_unique_constraint("table_snapshot_uuid_key", "table_snapshot", ["table_id", "branch", "snapshot_uuid"])
    op.create_index("table_snapshot_commit", "table_snapshot", ["table_id", "branch", sa.text("(body ->> 'commitUser')")])
    op.add_column("table_tag", _branch_column())
    op.add_column("table_tag", sa.Column("created_millis", sa.BigInteger))
    op.add_column("table_tag", sa.Column("retained", sa.Text, comment="How long it is to be kept, as its maker wrote it."))
    op.add_column("table_tag", sa.Column("published", sa.Boolean, nullable=False, server_default=sa.true()))
    op.drop_constraint("table_tag_pkey", "table_tag")
    op.create_primary_key("table_tag_pkey", "table_tag", ["table_id", "branch", "name"])


def _partitions() -> None:
    op.create_table(
        "table_partition",
        sa.Column("table_id", sa.Uuid, nullable=False),
        _branch_column(),
        sa.Column("name", sa.Text(collation="C"), nullable=False, comment="a=1/b=2"),
        sa.Column("spec", JSONB, nullable=False),
        sa.Column("record_count", sa.BigInteger, nullable=False),
        sa.Column("file_size", sa.BigInteger, nullable=False),
        sa.Column("file_count", sa.BigInteger, nullable=False),
        sa.Column("last_file_millis", sa.BigInteger, nullable=False),
        sa.Column("total_buckets", sa.Integer, nullable=False),
        sa.Column("explicit", sa.Boolean, nullable=False, server_default=sa.false(), comment="Made by name: stays without files."),
        sa.Column("done", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("options", JSONB, nullable=False, server_default="{}"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("created_by", sa.Text),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("updated_by", sa.Text),
        sa.PrimaryKeyConstraint("table_id", "branch", "name", name="table_partition_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="table_partition_table_fkey", ondelete="CASCADE"),
    )


def _named(table: str, key: str) -> None:
    op.create_table(
        table,
        sa.Column(key, sa.Uuid, nullable=False),
        sa.Column("database", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("body", JSONB, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint(key, name=f"{table}_pkey"),
        sa.UniqueConstraint("database", "name", name=f"{table}_name_key"),
        sa.ForeignKeyConstraint(["database"], ["sluice_database.name"], name=f"{table}_database_fkey"),
    )
    _audit(table)


def downgrade() -> None:
    for table in ("catalog_function", "catalog_view", "stale_file", "table_partition"):
        op.drop_table(table)
    for column in ("listed", "counted", "last_file_millis", "file_count", "file_size", "record_count"):
        op.drop_column("snapshot_pointer", column)
    _unbranch()
    op.drop_column("sluice_table", "external")
    for table in ("sluice_database", "sluice_table"):
        for column in ("updated_by", "updated_at", "created_by", "owner"):
            op.drop_column(table, column)


def _unbranch() -> None:
    """Branches have no place before; what is on them goes."""
    for table in ("table_tag", "table_snapshot", "table_schema", "snapshot_pointer"):
        op.execute(f"DELETE FROM {table} WHERE branch <> 'main'")  # noqa: S608 - names of this module
    op.drop_constraint("table_tag_pkey", "table_tag")
    op.create_primary_key("table_tag_pkey", "table_tag", ["table_id", "name"])
    for column in ("published", "retained", "created_millis", "branch"):
        op.drop_column("table_tag", column)
    op.drop_index("table_snapshot_commit", "table_snapshot")
    op.drop_constraint("table_snapshot_uuid_key", "table_snapshot")
    op.create_unique_constraint("table_snapshot_uuid_key", "table_snapshot", ["table_id", "snapshot_uuid"])
    op.drop_constraint("table_schema_pkey", "table_schema")
    op.create_primary_key("table_schema_pkey", "table_schema", ["table_id", "schema_id"])
    op.drop_column("table_schema", "branch")
    op.drop_table("table_branch")
