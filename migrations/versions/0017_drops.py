"""Keep what is dropped for a while: rows stay where they are and are marked, and the names are free at once.

The tables that hold databases, tables, views and functions are called ``…_entry`` now. Their old names are views that show what is
not dropped, so that nothing that reads or writes the catalog meets a dropped row by mistake. A dropped database has another name,
which nobody can type, until it is brought back: what is in it follows by its foreign keys.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0017", "0018"

_AUDIT = ("owner", "created_at", "created_by", "updated_at", "updated_by")
_ENTRIES = {
    "sluice_database": ("database_entry", ("name", "comment", "options", *_AUDIT)),
    "sluice_table": (
        "table_entry",
        (
            "table_id", "database", "name", "location", "schema_id", "published_schema_id", "moving_from", "diverged_at", "external",
            "allowed_locations", *_AUDIT,
        ),
    ),
    "catalog_view": ("view_entry", ("view_id", "database", "name", "body", *_AUDIT)),
    "catalog_function": ("function_entry", ("function_id", "database", "name", "body", *_AUDIT)),
}  # fmt: skip
"""Each view's table and columns."""
_IN_A_DATABASE = {
    "table_entry": ("sluice_table_database_fkey", None),
    "view_entry": ("catalog_view_database_fkey", None),
    "function_entry": ("catalog_function_database_fkey", None),
    "access_grant": ("access_grant_database_fkey", "CASCADE"),
}
"""The key by which each names its database, and what happens to it when that is removed."""


def upgrade() -> None:
    op.create_table(
        "drop_record",
        sa.Column("drop_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("database", sa.Text(collation="C"), comment="The name of a dropped database; NULL for a dropped table."),
        sa.Column("parent", sa.BigInteger, comment="The drop of the database a table went with."),
        sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("dropped_by", sa.Text),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment="When it is removed for good."),
        sa.PrimaryKeyConstraint("drop_id", name="drop_record_pkey"),
        sa.ForeignKeyConstraint(["parent"], ["drop_record.drop_id"], name="drop_record_parent_fkey", ondelete="SET NULL"),
    )
    op.create_index("drop_record_expires", "drop_record", ["expires_at"])
    op.create_index("drop_record_parent", "drop_record", ["parent"])
    for name, (entry, columns) in _ENTRIES.items():
        op.rename_table(name, entry)
        op.add_column(entry, sa.Column("drop_id", sa.BigInteger, comment="The drop it went with; NULL for what is there."))
        op.create_foreign_key(f"{entry}_drop_fkey", entry, "drop_record", ["drop_id"], ["drop_id"])
        dropped = sa.text("drop_id IS NOT NULL")
        op.create_index(f"{entry}_drop", entry, ["drop_id"], postgresql_where=dropped)
        op.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {entry} WHERE drop_id IS NULL")  # noqa: S608 - names of this module
    op.drop_constraint("sluice_table_name_key", "table_entry")
    op.create_index("sluice_table_name_key", "table_entry", ["database", "name"], unique=True, postgresql_where=sa.text("drop_id IS NULL"))
    op.create_index("table_entry_database", "table_entry", ["database"], postgresql_where=dropped)
    _refer_to_databases(onupdate="CASCADE")


def _refer_to_databases(*, onupdate: str | None) -> None:
    for table, (key, ondelete) in _IN_A_DATABASE.items():
        op.drop_constraint(key, table, type_="foreignkey")
        op.create_foreign_key(key, table, "database_entry", ["database"], ["name"], onupdate=onupdate, ondelete=ondelete)


def downgrade() -> None:
    """What is dropped has no place before: it is removed for good, its directories are garbage."""
    op.execute(
        "INSERT INTO dropped_directory (location) SELECT coalesce(moving_from, location) FROM table_entry "
        "WHERE drop_id IS NOT NULL AND NOT external ON CONFLICT DO NOTHING"
    )
    for entry in ("table_entry", "view_entry", "function_entry", "database_entry"):
        op.execute(f"DELETE FROM {entry} WHERE drop_id IS NOT NULL")  # noqa: S608 - names of this module
    _refer_to_databases(onupdate=None)
    op.drop_index("table_entry_database", "table_entry")
    op.drop_index("sluice_table_name_key", "table_entry")
    op.create_unique_constraint("sluice_table_name_key", "table_entry", ["database", "name"])
    for name, (entry, _) in _ENTRIES.items():
        op.execute(f"DROP VIEW {name}")
        op.drop_column(entry, "drop_id")
        op.rename_table(entry, name)
    op.drop_table("drop_record")
