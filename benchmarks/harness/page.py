"""docs/benchmarks.md: a section per part, written anew when its part was run and left as it stands otherwise."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_HEAD = """# Benchmarks

Written by `make bench`, a section by each part of it (`python -m benchmarks commits` measures that part alone and leaves the other
sections as they stand). Absolute times move with the machine; ratios are taken in one run, in turns: compare those.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a part has found: the heads of its columns, its rows, and what is to be said of them."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""

    def markdown(self) -> str:
        """The table, and the note behind it."""
        lines = [self.head, ("---",) * len(self.head), *self.rows]
        text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"{text}\n\n{self.note}" if self.note else text


def section(title: str, tables: Sequence[Table]) -> str:
    """A part's section, saying on what it was measured."""
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, Spark {version('pyspark')}."
    return "\n\n".join([f"## {title}", where, *(table.markdown() for table in tables)]) + "\n"


def put(page: str, sections: Mapping[str, str], order: Sequence[str]) -> str:
    """The page with these sections, by their titles, in place of those it had; sections of no title in ``order`` go."""
    present = {part.partition("\n")[0].strip(): f"## {part.strip()}\n" for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]}
    merged = present | dict(sections)
    return "\n".join([_HEAD, *(merged[title] for title in order if title in merged)])
