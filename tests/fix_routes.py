"""Most tests ask one or two of a hundred endpoints, and hardly ever for an address: what builds it is compiled when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from werkzeug.routing import Rule

Builder = Callable[..., tuple[str, str]]


@pytest.fixture(scope="session", autouse=True)
def _addresses_when_asked_for() -> Iterator[None]:
    """Apps are made by the thousand in a run, and this was three quarters of what making one costs."""
    compiled = Rule._compile_builder

    def later(rule: Rule, append_unknown: bool = True) -> Builder:
        made = cache(lambda: compiled(rule, append_unknown))
        return lambda _, **values: made()(rule, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "_compile_builder", later)
        yield
