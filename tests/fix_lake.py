"""A whole lake in a temporary folder, on a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from tests.fix_rules import PASSED
from tests.interop.strict import check_warehouse
from tests.lake.fitting import check_fitting


@pytest.fixture
def catalog(dsn: str) -> Iterator[CatalogStore]:
    """The catalog's Postgres, migrated and empty."""
    store = CatalogStore(dsn)
    yield store
    store.close()


_PARSED = ("gateway", "jobs", "lake/commit", "lake/rewrite", "lake/tables", "maintenance", "sql/statements")
"""Folders of the tests whose warehouses are parsed when they have passed; the others' are damaged more often than not."""


@pytest.fixture
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where the tables lie; what a test of `_PARSED` leaves there the strictest of Paimon's readers takes, unless it `damages` files.

    It contradicts itself nowhere, either.
    """
    place = tmp_path / "warehouse"
    yield place
    folder = request.path.parent.relative_to(request.config.rootpath / "tests").as_posix()
    if folder in _PARSED and request.node.stash.get(PASSED, False) and request.node.get_closest_marker("damages") is None:
        check_warehouse(place)
        check_fitting(place)


@pytest.fixture(scope="module")
def module_lake(module_dsn: str, module_path: Path) -> Iterator[Lake]:
    """One that the tests of a module share: they change nothing that another one looks at."""
    catalog = CatalogStore(module_dsn)
    made = Lake(catalog, str(module_path / "warehouse"))
    yield made
    made.close()
    catalog.close()


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    """All tables of this test's catalog and warehouse."""
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()
