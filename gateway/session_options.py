"""A session's catalog, database and settings as options with names: what Flight SQL's clients read and set."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.sessions import Sessions
from lake import EVERYBODY, Caller, Lake
from model.errors import AnalysisError
from model.options.masking import masked
from sql.execution.session import CATALOG
from sql.execution.session_settings import check_setting

CATALOG_OPTION = "catalog"
SCHEMA_OPTION = "schema"
OPTIONS = (CATALOG_OPTION, SCHEMA_OPTION)
"""Those that are no settings."""


class SessionOptions:
    """Reads and sets them; the session is known by its handle."""

    def __init__(self, lake: Lake, sessions: Sessions) -> None:
        self._lake = lake
        self._sessions = sessions

    def get(self, handle: str) -> dict[str, str]:
        """All of them; secrets are masked. Raises `SessionNotExist`."""
        session = self._sessions.get(handle).session
        settings = {key: masked(key, value) for key, value in session.settings.items()}
        return {CATALOG_OPTION: CATALOG, SCHEMA_OPTION: session.current_database, **settings}

    def set(self, handle: str, key: str, value: str | None, *, caller: Caller = EVERYBODY) -> None:
        """Set one, or forget it (None); raises `InvalidOption`, `AnalysisError`, `DatabaseNotExist`."""
        session = self._sessions.get(handle).session
        if key == CATALOG_OPTION:
            if value not in (None, "", CATALOG):
                raise AnalysisError(f"There is no catalog {value}; the catalog is called {CATALOG}.", fragment=value)
        elif key == SCHEMA_OPTION:
            session.current_database = self._lake.for_caller(caller).database(value or "default").name
        elif value is None:
            session.reset(key)
        else:
            check_setting(key, value)
            session.set(key, value)


def defaults() -> Mapping[str, str]:
    """What a client without a session has."""
    return {CATALOG_OPTION: CATALOG, SCHEMA_OPTION: "default"}
