"""A prose linter reads the docs, the README and the pages: its rules, and which of them do not count here, are in `.proselintrc.json`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from proselint.checks import __register__ as checks
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).parents[2]
RULES = json.loads((ROOT / ".proselintrc.json").read_text())
"""The first that fits a check counts: what is finer stands first."""
_HEADING = re.compile(r"(?m)^(#+ .*\w)$")
_CODE = re.compile(
    r"(?ms)^ *```.*?^ *```|`[^`\n]+`|\{[%#{].*?[%#}]\}|<script.*?</script>|<style.*?</style>|<[^>]+>|\]\([^)\s]*\)|\bhttps?://\S+|\||\b\d[\d.,–]*"
)


def texts() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
    yield from (page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "benchmarks.md")  # which `make bench` writes
    yield from sorted((ROOT / "server" / "pages" / "templates").rglob("*.html"))


def prose(text: str) -> str:
    """The text with its lines, and a word that nobody else says in the place of code, tags, numbers and addresses."""
    numbers = itertools.count()

    def word(match: re.Match[str]) -> str:
        name = "".join("bcdfghjklm"[int(digit)] for digit in str(next(numbers)))
        return f"kx{name}" + "\n" * match[0].count("\n")

    return _HEADING.sub(r"\1.", _CODE.sub(word, text))


def findings(text: str) -> list[str]:
    """Each place with the rule it breaks."""
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(checks)
    return [
        f"{result.pos[0]}:{result.pos[1]} {result.check_result.check_path}: {result.check_result.message}"
        for result in LintFile("text", content=prose(text)).lint(RULES)
    ]


@pytest.mark.parametrize("page", list(texts()), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_reads_well(page: Path) -> None:
    assert findings(page.read_text()) == []


def test_a_bad_sentence_is_seen_and_code_is_not() -> None:
    assert [line.split(": ")[0] for line in findings("Rows are very very safe for ever.\n")] != []
    assert findings("Run `very very` and\n\n```sql\nSELECT 'for ever' very very\n```\n") == []
