"""What `make test` has of a campaign, and what is left to `make torture`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import settings

WHOLE, SHORT = 100, 25
"""Examples of each property in `make torture`, and in `make test`."""


def short(values: Iterable[Any], chosen: Container[Any]) -> list[Any]:
    """Values of a parameter: the chosen ones in `make test`, all others in `make torture` only."""
    return [value if value in chosen else pytest.param(*_tuple(value), marks=pytest.mark.torture) for value in values]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """Values of a parameter: one in so many of them in `make test`, all others in `make torture` only."""
    return [value if at % count == 0 else pytest.param(*_tuple(value), marks=pytest.mark.torture) for at, value in enumerate(values)]


def diagonal(*axes: Iterable[Any]) -> list[Any]:
    """All combinations of some axes: `make test` has as many as its longest axis, with each value of each, `make torture` all others."""
    values = [list(axis) for axis in axes]
    longest = max(map(len, values))
    chosen = [tuple(axis[at % len(axis)] for axis in values) for at in range(longest)]
    return short(product(*values), chosen)


def share(examples: int) -> int:
    """How many examples a property of so many gets in this run."""
    return max(1, examples * settings().max_examples // WHOLE)


def is_whole() -> bool:
    """Whether this is `make torture`."""
    return settings().max_examples >= WHOLE
