"""What somebody who misspelt a name may have meant."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.listing import Slice
from lake import Lake
from model.errors import DatabaseNotExist, LakeError, TableNotExist, nearest

_LOOKED_THROUGH = Slice(limit=1000)
"""The answer is still an error, and must not cost more than a statement."""


def hinted(error: LakeError, lake: Lake) -> None:
    """Name the table, view or database that the caller sees and whose name is closest, where the error says just that one is missing."""
    if not isinstance(error, TableNotExist | DatabaseNotExist) or error.advised:
        return
    database, _, name = error.resource_name.rpartition(".")
    near = nearest(name, _known(lake, database if isinstance(error, TableNotExist) else None))
    if near is not None and near != name:
        error.tell(f" Did you mean {f'{database}.{near}' if database else near}?")


def _known(lake: Lake, database: str | None) -> Sequence[str]:
    try:
        if database is None:
            return lake.list_databases(_LOOKED_THROUGH)
        return [*lake.list_tables(database, _LOOKED_THROUGH), *lake.views.names(database, _LOOKED_THROUGH)]
    except LakeError:  # not even the database is there, or Postgres is away by now: the error says enough
        return ()
