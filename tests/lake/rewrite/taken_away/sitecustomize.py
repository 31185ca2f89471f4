"""Takes one option away from every Python process that has this directory on its path: whoever reads it finds the default.

Not an ordinary module: Python runs it by its name when it starts, servers and workers of a test among them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from model.options.option import Option

_KEY = os.environ["SLUICE_TEST_WITHOUT"]
_read = Option.read


def _without(option: Option[Any], raw: Mapping[str, str]) -> Any:
    return option.default if option.key == _KEY else _read(option, raw)


Option.read = _without  # type: ignore[method-assign, assignment]
