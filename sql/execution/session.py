"""One session: where its unqualified names look, what it has SET, and its temporary tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from model.errors import AnalysisError
from model.identifier import DEFAULT_DATABASE, Identifier
from model.work.job import Job
from sql.connectors import ConnectorTable

CATALOG = "sluice"
"""The one catalog's name."""


class Session:
    """What one client's statements see; used by one statement at a time and read by others."""

    def __init__(self, handle: str, name: str | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self.handle = handle
        self.name = name
        self.current_database = DEFAULT_DATABASE
        self._opened = dict(settings or {})
        self._settings = dict(self._opened)
        self._temporary: dict[str, ConnectorTable] = {}
        self._lock = threading.Lock()

    @classmethod
    def of_job(cls, job: Job, handle: str) -> Session:
        """The session a job was made in, as far as the job keeps it."""
        session = cls(handle, job.name, settings=dict(job.settings))
        session.current_database = job.database
        for name, body in job.tables.items():
            session.add_temporary(ConnectorTable.from_json(name, body))
        return session

    @property
    def settings(self) -> dict[str, str]:
        """A copy of what is SET."""
        with self._lock:
            return dict(self._settings)

    def set(self, key: str, value: str) -> None:
        """Set one option for the session."""
        with self._lock:
            self._settings[key] = value

    def reset(self, key: str | None = None) -> None:
        """Undo what was SET, of one option or all: what the session was opened with holds again."""
        with self._lock:
            if key is None:
                self._settings = dict(self._opened)
            elif key in self._opened:
                self._settings[key] = self._opened[key]
            else:
                self._settings.pop(key, None)

    @property
    def temporary_tables(self) -> dict[str, ConnectorTable]:
        """A copy of the temporary tables by name."""
        with self._lock:
            return dict(self._temporary)

    def add_temporary(self, table: ConnectorTable, *, replace: bool = False) -> bool:
        """Add a temporary table; False when the name is taken."""
        with self._lock:
            if table.name in self._temporary and not replace:
                return False
            self._temporary[table.name] = table
            return True

    def drop_temporary(self, name: str) -> bool:
        """Remove a temporary table; False when there is none."""
        with self._lock:
            return self._temporary.pop(name, None) is not None

    def identifier(self, parts: tuple[str, ...]) -> Identifier:
        """The table a name means here: ``t``, ``d.t`` or ``sluice.d.t``, also ``t$branch_b``."""
        if len(parts) == 3 and parts[0] == CATALOG:
            parts = parts[1:]
        if len(parts) > 2:
            raise AnalysisError(f"There is no catalog {parts[0]}; the catalog is called {CATALOG}.", fragment=".".join(parts))
        database = parts[0] if len(parts) == 2 else self.current_database
        name, _, branch = parts[-1].partition("$branch_")
        return Identifier(database, name, branch) if branch else Identifier(database, parts[-1])  # `t$branch_` is no name of t

    def meant(self, parts: tuple[str, ...]) -> str | Identifier:
        """What a name stands for here: a temporary table, by its name, or a table of the catalog."""
        return parts[0] if len(parts) == 1 and parts[0] in self.temporary_tables else self.identifier(parts)
