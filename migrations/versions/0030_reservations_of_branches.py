"""A reservation of each principal for each branch.

There was one for each principal: while one of its clients was to decide about a table, none of the others could be about another one,
and a client that did not come kept all of them from it, on every table.
"""

from __future__ import annotations

from alembic import op

revision, down_revision = "0030", "0029"


def upgrade() -> None:
    _key("principal", "table_id", "branch")


def downgrade() -> None:
    op.execute("DELETE FROM client_reservation")
    _key("principal")


def _key(*columns: str) -> None:
    op.drop_constraint("client_reservation_pkey", "client_reservation", type_="primary")
    op.create_primary_key("client_reservation_pkey", "client_reservation", list(columns))
