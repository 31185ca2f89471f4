"""How Postgres got here: alembic revisions, and the one function that applies them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.config import Config

_HERE = Path(__file__).parent
_REVISION = re.compile(r'^revision, down_revision = "(\w+)", (?:"(\w+)"|None)$', re.MULTILINE)
_LOCK = 0x51_1C_E0_01
"""Two servers starting at once must not both migrate."""


class NewerSchema(Exception):
    """The database was brought to a revision this version does not know."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"The catalog's schema is {revision}, and this Sluice knows {newest()}: install the version that made it, or newer."
        )


def upgrade(dsn: str, revision: str = "head") -> None:
    """Bring the database at ``dsn`` to a revision; nothing happens where it is there already. Raises `NewerSchema`."""
    at = revision_of(dsn) if revision == "head" else None
    if at is not None and at == newest():
        return
    if at is not None and not knows(at):
        raise NewerSchema(at)
    from alembic import command  # takes most of a second, which a start with nothing to do can spare

    command.upgrade(_config(dsn), revision)


def downgrade(dsn: str, revision: str) -> None:
    """Take the database back to a revision."""
    from alembic import command

    command.downgrade(_config(dsn), revision)


def heads() -> list[str]:
    """The newest revisions; a healthy history has one."""
    from alembic.script import ScriptDirectory

    return list(ScriptDirectory.from_config(_config("")).get_heads())


def revision_of(dsn: str) -> str | None:
    """The revision a database is at; None where it has none yet, or several, or cannot be asked.

    As in all of this package the DSN says how long to wait for a machine that does not answer.
    """
    import psycopg

    try:
        with psycopg.connect(dsn.replace("postgresql+psycopg://", "postgresql://", 1)) as conn:
            rows = conn.execute("SELECT version_num FROM alembic_version").fetchall()
    except psycopg.Error:  # alembic tells what is wrong, or makes the table
        return None
    return str(rows[0][0]) if len(rows) == 1 else None


def newest() -> str:
    """The newest revision: the one no other follows."""
    followed = _followed()
    return next(revision for revision in followed if revision not in followed.values())


def knows(revision: str) -> bool:
    """Whether this version has a revision; one it does not have is of a newer version."""
    return revision in _followed()


def known_revisions() -> frozenset[str]:
    """The revisions this version has."""
    return frozenset(_followed())


def _followed() -> dict[str, str | None]:
    """Every revision with the one before it, read from the files: alembic takes most of a second to load."""
    columns = {}
    for file in sorted((_HERE / "versions").glob("[0-9]*.py")):
        names = _REVISION.search(file.read_text())
        assert names is not None, file
        columns[names[1]] = names[2]
    return columns


def _config(dsn: str) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_HERE))
    config.attributes["dsn"] = dsn
    config.attributes["lock"] = _LOCK
    return config
