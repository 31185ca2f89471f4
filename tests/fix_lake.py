"""A whole lake in a temporary folder, on a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake


@pytest.fixture
def catalog(dsn: str) -> Iterator[CatalogStore]:
    """The catalog's Postgres, migrated and empty."""
    store = CatalogStore(dsn)
    yield store
    store.close()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Where the tables lie."""
    return tmp_path / "warehouse"


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    """All tables of this test's catalog and warehouse."""
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()
