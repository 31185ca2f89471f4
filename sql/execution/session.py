"""One session: where its unqualified names look, what it has SET, and its temporary tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from model.errors import AnalysisError
from model.identifier import DEFAULT_DATABASE, Identifier
from model.work.job import Job
from sql.connectors import ConnectorTable
from sql.execution.session_memory import SessionMemory, text_bytes

CATALOG = "sluice"
"""The one catalog's name."""


class Session:
    """What one client's statements see; used by one statement at a time and read by others."""

    def __init__(
        self,
        handle: str,
        name: str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        memory: SessionMemory | None = None,
    ) -> None:
        """``memory`` counts what it keeps; raises `TooManyStatements` where that has no space for the settings."""
        self.handle = handle
        self.name = name
        self.current_database = DEFAULT_DATABASE
        self._opened = dict(settings or {})
        self._settings = dict(self._opened)
        self._temporary: dict[str, ConnectorTable] = {}
        self._lock = threading.Lock()
        self._memory = memory
        self._keep(0, text_bytes(name or "") + sum(text_bytes(*item) for item in self._opened.items()))

    def _keep(self, before: int, now: int) -> None:
        if self._memory is not None:
            self._memory.change(now - before)

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
        """Set one option for the session; raises `TooManyStatements` where it is too large."""
        with self._lock:
            opened = self._opened.get(key)
            self._put(key, opened if value == opened else value)

    def reset(self, key: str | None = None) -> None:
        """Undo what was SET, of one option or all: what the session was opened with holds again."""
        with self._lock:
            for one in list(self._settings.keys() | self._opened.keys()) if key is None else [key]:
                self._put(one, self._opened.get(one))

    def _put(self, key: str, value: str | None) -> None:
        self._keep(self._size(key, self._settings.get(key)), self._size(key, value))
        if value is None:
            self._settings.pop(key, None)
        else:
            self._settings[key] = value

    def _size(self, key: str, value: str | None) -> int:
        """What it takes beside what the session was opened with, which counts until the session ends: going back to that takes nothing."""
        return 0 if value is None or value == self._opened.get(key) else text_bytes(key, value)

    @property
    def temporary_tables(self) -> dict[str, ConnectorTable]:
        """A copy of the temporary tables by name."""
        with self._lock:
            return dict(self._temporary)

    def add_temporary(self, table: ConnectorTable, *, replace: bool = False) -> bool:
        """Add a temporary table; False when the name is taken. Raises `TooManyStatements` where it is too large."""
        with self._lock:
            before = self._temporary.get(table.name)
            if before is not None and not replace:
                return False
            self._keep(0 if before is None else _table_bytes(before), _table_bytes(table))
            self._temporary[table.name] = table
            return True

    def drop_temporary(self, name: str) -> bool:
        """Remove a temporary table; False when there is none."""
        with self._lock:
            table = self._temporary.pop(name, None)
            if table is not None:
                self._keep(_table_bytes(table), 0)
            return table is not None

    def end(self) -> None:
        """It is closed: what it keeps counts no more."""
        if self._memory is not None:
            self._memory.end()

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


def _table_bytes(table: ConnectorTable) -> int:
    return text_bytes(table.name, json.dumps(table.to_json()))
