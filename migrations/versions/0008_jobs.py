"""Jobs: streaming INSERTs that survive their server, each run by one server at a time.

The epoch grows with every server that takes a job over. A batch's commit changes the job's row in its own transaction, under the epoch
it began with: so a server that lost a job cannot commit for it, and a batch that was committed is known forever, also when its snapshot
has expired.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision, down_revision = "0008", "0007"


def upgrade() -> None:
    json = postgresql.JSONB
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "stream_job",
        sa.Column("job_id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("statement", sa.Text, nullable=False),
        sa.Column("database", sa.Text, nullable=False),
        sa.Column("settings", json, nullable=False),
        sa.Column("tables", json, nullable=False, comment="The session's temporary tables it mentions."),
        sa.Column("principal", sa.Text, nullable=False, comment="Whose grants count, at each start."),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("wish", sa.Text, comment="STOP, DRAIN or RESTART: what its server is asked to do."),
        sa.Column("owner", sa.Uuid, comment="The server's process; only it runs the job until lease_until."),
        sa.Column("server", sa.Text, comment="Where that process runs, for people."),
        sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lease_until", moment),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("restarts", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("next_start", moment, nullable=False, server_default=sa.func.now()),
        sa.Column("error", sa.Text),
        sa.Column("error_at", moment),
        sa.Column("batches", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("rows", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column(
            "applied", json, nullable=False, server_default="{}", comment="For each INSERT: its checkpoint and last committed batch."
        ),
        sa.Column("source", json, nullable=False, server_default="{}"),
        sa.Column("watermark", sa.BigInteger),
        sa.Column("lag", sa.Text),
        sa.Column("created_at", moment, nullable=False, server_default=sa.func.now()),
        sa.Column("started_at", moment),
        sa.Column("ended_at", moment),
        sa.Column("updated_at", moment, nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("job_id", name="stream_job_pkey"),
        sa.CheckConstraint("state IN ('CREATED', 'RUNNING', 'RESTARTING', 'FAILED', 'STOPPED', 'FINISHED')", name="stream_job_state_check"),
    )
    op.create_index("stream_job_owner", "stream_job", ["owner"])


def downgrade() -> None:
    op.drop_table("stream_job")
