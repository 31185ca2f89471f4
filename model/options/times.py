"""Options that say how times are written."""

from __future__ import annotations

from model.options.option import Parser
from model.text.time_pattern import time_pattern


def time_format() -> Parser[str]:
    """A pattern of Java's, such as `yyyy-MM-dd HH:mm`; other clients read more letters."""

    def parse(raw: str) -> str:
        time_pattern(raw)
        return raw

    return Parser("time format", parse, everywhere=False, stored=str)
