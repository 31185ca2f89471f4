"""A client's process in another environment: each line of its input asks, a line of its output says that it is done, or what is wrong."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any


def answer_lines(work: Callable[[Mapping[str, Any]], None]) -> None:
    """Do what each line asks, until there are none."""
    for line in sys.stdin:
        try:
            work(json.loads(line))
            answer: dict[str, int | str] = {"messages": 1}
        except Exception as problem:  # whatever it is, the test tells it
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


def shown(value: object) -> str:
    """A value as a text; a zone is left out, as all are in UTC."""
    return re.sub(r", tzinfo=.*\)$", ")", repr(value))
