"""The loop of a background thread survives whatever a round of it runs into: nobody would start the thread again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_PACKAGES = ("catalog", "table", "lake", "workers", "sql", "jobs", "maintenance", "gateway", "server")
_OF_WAITING = {"wait", "wait_for", "set", "clear", "is_set", "notify", "notify_all", "sleep", "acquire", "release", "monotonic", "locked"}
_OF_COLLECTIONS = {"list", "len", "dict", "tuple", "min", "max", "float", "items", "popleft", "pop", "append", "add", "any", "all"}
_OF_LOGS = {"exception", "error", "warning", "info", "debug", "log", "isinstance", "type", "partial", "total_seconds"}
_OF_OUR_QUEUES = {"next_work", "let_go", "take_back", "done", "push", "Thread"}
_HARMLESS = _OF_WAITING | _OF_COLLECTIONS | _OF_LOGS | _OF_OUR_QUEUES
_Function = ast.FunctionDef


def _functions(tree: ast.Module) -> dict[str, list[_Function]]:
    found: dict[str, list[_Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            found.setdefault(node.name, []).append(node)
    return found


def _name(call: ast.expr) -> str:
    return call.attr if isinstance(call, ast.Attribute) else call.id if isinstance(call, ast.Name) else ast.unparse(call)


def _catches_all(node: ast.AST) -> bool:
    return isinstance(node, ast.Try) and any(
        handler.type is None or "Exception" in {_name(one) for one in ast.walk(handler.type) if isinstance(one, ast.expr)}
        for handler in node.handlers
    )


def _unguarded(node: ast.AST, functions: dict[str, list[_Function]], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The calls below a node that may raise and that nothing around them catches; those of functions of the same file are looked into."""
    if isinstance(node, ast.Lambda | _Function):
        return
    if _catches_all(node):
        assert isinstance(node, ast.Try)
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            yield from _unguarded(part, functions, seen)
        return
    if isinstance(node, ast.Call) and (name := _name(node.func)) not in _HARMLESS and name not in seen:
        if name not in functions:
            yield name
        for function in functions.get(name, ()):
            for part in function.body:
                yield from _unguarded(part, functions, seen | {name})
    for part in ast.iter_child_nodes(node):
        yield from _unguarded(part, functions, seen)


def _loops() -> Iterator[tuple[str, str, list[str]]]:
    for package in _PACKAGES:
        for file in sorted((_ROOT / package).rglob("*.py")):
            if "Thread(" not in (text := file.read_text()):
                continue
            tree = ast.parse(text)
            functions = _functions(tree)
            targets = {
                _name(word.value)
                for call in ast.walk(tree)
                if isinstance(call, ast.Call) and _name(call.func) == "Thread"
                for word in call.keywords
                if word.arg == "target"
            }
            for target in sorted(targets & functions.keys()):
                for function in functions[target]:
                    for loop in (node for node in ast.walk(function) if isinstance(node, ast.While)):
                        yield str(file.relative_to(_ROOT)), target, sorted({*_unguarded(loop, functions)})


_MAY_RAISE = {
    ("catalog/commits/reservations.py", "keep"): "one turn's, whose holder looks at what it found",
    ("lake/recovery.py", "_run"): "ends with its work",
    ("sql/spark/driver/class_archive.py", "_make_when_calm"): "ends with its work",
    ("sql/spark/driver/jvm.py", "give_up"): "one launch's",
    ("sql/spark/session/pool.py", "_start_and_warm"): "one start's",
    ("server/http/serial.py", "_run"): "who starts another thread catches RuntimeError",
    ("server/process/memory.py", "_run"): "one call of the C library",
    ("server/process/process.py", "_listen"): "reads its own pipe",
    ("sql/execution/bounded_calls.py", "_run"): "gives what a call raises to whoever asked",
    ("sql/spark/driver/watch.py", "_run"): "asks the JVM's own process alone, without which there is nothing to watch",
}
_LOOPS = [loop for loop in _loops() if loop[:2] not in _MAY_RAISE]


def test_all_loops_are_found() -> None:
    assert {(at, name) for at, name, _ in _loops()} > set(_MAY_RAISE), "what is left out is there"
    assert len(_LOOPS) > 20


@pytest.mark.parametrize(("at", "name", "calls"), _LOOPS, ids=[f"{at}:{name}" for at, name, _ in _LOOPS])
def test_a_round_that_fails_does_not_end_the_thread(at: str, name: str, calls: list[str]) -> None:
    assert calls == [], f"what these raise ends the thread of {name} in {at} for good: catch Exception around them, tell it, and go on"
