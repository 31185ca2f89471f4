"""No two modules import each other, however far around: relative, lazy and type-only imports count."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.test_architecture import LIES_IN, MAY_IMPORT, ROOT, files


def modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of a package by their full names."""
    top = (ROOT / LIES_IN.get(package, package)).parent
    for file in files(package):
        parts = file.relative_to(top).with_suffix("").parts
        tree = ast.parse(file.read_text())
        base = parts[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                node.module = ".".join((*base[: len(base) - node.level + 1], *([node.module] if node.module else [])))
        yield ".".join(base if parts[-1] == "__init__" else parts), tree


def imported(tree: ast.Module) -> Iterator[str]:
    """All that an import may name: a module, and the package around it, which runs first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other, by imports in both directions."""
    graph = _inner(graph)
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        reached[start] = seen
    parts = {frozenset({other for other in reached[name] if name in reached[other]}) for name in graph if name in reached[name]}
    return [set(part) for part in parts]


def _inner(graph: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """What is left without those that import nobody that is left: they are in no circle."""
    while inner := {name: there for name, others in graph.items() if (there := others & graph.keys())}:
        if len(inner) == len(graph):
            return inner
        graph = inner
    return {}


def test_no_modules_import_each_other_around() -> None:
    named = {name: {*imported(tree)} for package in MAY_IMPORT for name, tree in modules(package)}  # a tree is dropped once it is read
    graph = {name: (others & named.keys()) - {name} for name, others in named.items()}
    assert [sorted(circle) for circle in circles(graph)] == []


def test_a_circle_is_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles(graph) == [{"a", "b", "c"}]
