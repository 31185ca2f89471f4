"""The docs and pages use one word for each thing (`docs/glossary.md`): what a word replaced does not come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPLACED = {
    r"upkeep|housekeeping|keeping house|looking after": "maintenance",
    r"small-file debt|merge debt|crumbs": "compaction backlog",
    r"doors?": "endpoint or protocol",
    r"rooms? (?:imports?|may import)|of this room": "package",
    r"wishes|surroundings": "statement options, execution context",
    r"trash": "dropped table",
    r"borrowers?|lent": "delegated token",
    r"noter|keeper": "notifier, maintenance runner",
    r"dice": "rng",
}
FORMER = "compatibility.md"
"""The page that lists the public names there were."""


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    others = ("benchmarks.md", FORMER)  # that page is written by `make bench`
    yield from (page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in others)
    yield from sorted((ROOT / "server" / "pages" / "templates").rglob("*.html"))


def replaced_words(text: str) -> list[str]:
    """Each line with a word that the glossary replaces, and what to say."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        lines += [f"{number}: {match[0]}: say {say}" for old, say in REPLACED.items() for match in re.finditer(rf"(?i)\b(?:{old})\b", line)]
    return lines


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_the_word_of_the_glossary(page: Path) -> None:
    assert replaced_words(page.read_text()) == []


def test_a_replaced_word_is_seen() -> None:
    assert replaced_words("Rows come\nby every door, and its Upkeep") == ["2: Upkeep: say maintenance", "2: door: say endpoint or protocol"]


def test_no_word_is_explained_twice() -> None:
    words = re.findall(r"(?m)^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text())
    names = [name.strip() for entry in words for name in entry.split(",") if entry not in ("word", "---")]
    assert len(names) == len(set(names)) > 40
