"""The pages of `docs/internals` name functions that there are, which name what the pages say they call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))
CODE = re.compile(r"`((?:\w+/)+\w+\.py)` `([\w.]+)`")
CODE_COLUMN = "code"
CALLS_COLUMN = "calls"


def rows(page: Path) -> Iterator[dict[str, str]]:
    """The rows of a page's tables, by the names of their columns."""
    head: list[str] = []
    for line in page.read_text().splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip("|").replace("\\|", "\0").split("|")]
        if not head:
            head = cells
        elif set(line) - set("|-: "):
            yield dict(zip(head, cells, strict=True))


def function(file: str, name: str) -> ast.AST:
    """The function or method of a file."""
    inside: ast.AST = ast.parse((ROOT / file).read_text())
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        named = [node for node in ast.iter_child_nodes(inside) if isinstance(node, kinds) and node.name == part]
        assert named, f"{file} has no {name}"
        inside = named[0]
    return inside


def names(tree: ast.AST) -> set[str]:
    """All names and attributes in a function."""
    plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return plain | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_there_is_a_page_for_each_of_the_seven_paths() -> None:
    index = (ROOT / "docs" / "internals" / "README.md").read_text()
    linked = re.findall(r"^\| \[([\w-]+\.md)\]", index, re.MULTILINE)
    assert len(linked) == 7
    assert {page.name for page in PAGES} == {*linked, "README.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_code_that_there_is(page: Path) -> None:
    named = CODE.findall(page.read_text())
    assert named
    for file, name in named:
        function(file, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_step_calls_what_its_row_says(page: Path) -> None:
    steps = [row for row in rows(page) if CALLS_COLUMN in row]
    assert steps
    for row in steps:
        code = CODE.fullmatch(row[CODE_COLUMN])
        assert code, row[CODE_COLUMN]
        called = set(re.findall(r"`(\w+)`", row[CALLS_COLUMN]))
        missing = called - names(function(*code.groups()))
        assert not missing, f"{code[2]} in {code[1]} does not name {missing}"
