"""A gateway that reaches Postgres through a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake
from tests.fix_gateway import NoSpark
from tests.fix_postgres_proxy import PostgresProxy


@pytest.fixture
def far(postgres_proxy: PostgresProxy, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway whose round trips are counted, and may be lost."""
    catalog = CatalogStore(postgres_proxy.dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"), drop_retention=timedelta(days=1))
    made = Gateway(lake, NoSpark())
    yield made
    postgres_proxy.back()
    made.close()
    lake.close()
    catalog.close()
