"""Who may do what: tokens, roles, grants, and what of a table's rows and columns a caller sees.

Grants and policies hang on what they are about, so that a rename carries them along and a drop takes them away.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    op.create_table(
        "access_token",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("principal", sa.Text(collation="C"), nullable=False),
        sa.Column("administrator", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("hash", sa.LargeBinary, nullable=False, comment="SHA-256 of the secret, which is random enough not to need more."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("name", name="access_token_pkey"),
        sa.UniqueConstraint("hash", name="access_token_hash_key"),
    )
    op.create_table(
        "access_role", sa.Column("name", sa.Text(collation="C"), nullable=False), sa.PrimaryKeyConstraint("name", name="access_role_pkey")
    )
    op.execute("INSERT INTO access_role (name) VALUES ('admin'), ('public')")
    op.create_table(
        "access_role_member",
        sa.Column("role", sa.Text(collation="C"), nullable=False),
        sa.Column("member", sa.Text(collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("role", "member", name="access_role_member_pkey"),
        sa.ForeignKeyConstraint(["role"], ["access_role.name"], name="access_role_member_role_fkey", ondelete="CASCADE"),
    )
    op.create_index("access_role_member_member", "access_role_member", ["member"])
    _grants()
    op.create_table(
        "table_policy",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("column_name", sa.Text, comment="The masked column; NULL for a row filter."),
        sa.Column("principals", ARRAY(sa.Text), nullable=False, comment="Whom it binds; nobody named means everyone."),
        sa.Column("sql", sa.Text, nullable=False),
        sa.Column("rule", JSONB, nullable=False, comment="The same as Paimon's clients read it."),
        sa.PrimaryKeyConstraint("table_id", "name", name="table_policy_pkey"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="table_policy_table_fkey", ondelete="CASCADE"),
    )


def _grants() -> None:
    op.create_table(
        "access_grant",
        sa.Column("grant_id", sa.BigInteger, sa.Identity(), nullable=False),
        sa.Column("resource_type", sa.Text, nullable=False),
        sa.Column("database", sa.Text(collation="C")),
        sa.Column("table_id", sa.Uuid),
        sa.Column("object", sa.Text(collation="C"), comment="Name of a view or function; a table is named by its id."),
        sa.Column("access", sa.Text, nullable=False),
        sa.Column("principal", sa.Text(collation="C"), nullable=False),
        sa.Column("columns", JSONB),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("grant_id", name="access_grant_pkey"),
        sa.ForeignKeyConstraint(["database"], ["sluice_database.name"], name="access_grant_database_fkey", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["table_id"], ["sluice_table.table_id"], name="access_grant_table_fkey", ondelete="CASCADE"),
    )
    op.execute(
        "ALTER TABLE access_grant ADD CONSTRAINT access_grant_key "
        "UNIQUE NULLS NOT DISTINCT (principal, resource_type, access, database, table_id, object)"
    )
    op.create_index("access_grant_database", "access_grant", ["database"])
    op.create_index("access_grant_table", "access_grant", ["table_id"])


def downgrade() -> None:
    for table in ("table_policy", "access_grant", "access_role_member", "access_role", "access_token"):
        op.drop_table(table)
