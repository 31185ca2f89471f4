"""Whatever happens to a table, and whenever its process dies: rows, order, every kept snapshot and every live file stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from catalog import CatalogStore
from tests.lake.histories import MODES, History

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))


def live(catalog: CatalogStore, warehouse: Path, mode: str, seed: int, *, steps: int) -> None:
    """One history, checked at every step and wholly at its end."""
    print(f"{mode}, seed {seed}")
    history = History(catalog, warehouse, mode, seed)
    history.run(steps)
    history.check_all()
    history.check_nothing_left()
    history.check_all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", MODES)
def test_any_history(catalog: CatalogStore, warehouse: Path, mode: str, seed: int) -> None:
    live(catalog, warehouse, mode, SEED + seed, steps=50)


@pytest.mark.torture
@pytest.mark.parametrize("mode", MODES)
def test_many_histories(catalog: CatalogStore, warehouse: Path, mode: str) -> None:
    for seed in range(int(os.environ.get("SLUICE_TEST_HISTORIES", "300"))):
        live(catalog, warehouse, mode, SEED + 1000 + seed, steps=80)
