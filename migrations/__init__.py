"""How Postgres got here: alembic revisions, and the one function that applies them."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config

_HERE = Path(__file__).parent
_LOCK = 0x51_1C_E0_01
"""Two servers starting at once must not both migrate."""


def upgrade(dsn: str, revision: str = "head") -> None:
    """Bring the database at ``dsn`` to a revision; nothing happens where it is there already."""
    command.upgrade(_config(dsn), revision)


def downgrade(dsn: str, revision: str) -> None:
    """Take the database back to a revision."""
    command.downgrade(_config(dsn), revision)


def heads() -> list[str]:
    """The newest revisions; a healthy history has one."""
    from alembic.script import ScriptDirectory

    return list(ScriptDirectory.from_config(_config("")).get_heads())


def _config(dsn: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE))
    config.attributes["dsn"] = dsn
    config.attributes["lock"] = _LOCK
    return config
