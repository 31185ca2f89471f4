"""Only the modules of the storage seam touch files of the warehouse, so that no bare OSError leaves them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("table", "lake", "sql", "pyspark_sluice")
SEAM = {"table/format/io/file_io.py", "table/format/io/directory.py", "table/format/io/durability.py", "table/format/io/object_store.py"}
SEAM |= {"table/format/io/on_disk.py"}
"""Where the operating system is asked about files of the warehouse."""
ELSEWHERE = {
    "table/scan/planning/column_cache.py": "the process's own cache",
    "table/write/spill.py": "buffers on the local disk",
    "table/format/io/links.py": "follows links, and opens nothing",
    "table/format/io/reach.py": "looks for links, and translates what fails",
    "lake/reserve.py": "asks how much package a disk has",
    "lake/access/allowed_locations.py": "follows links of directories to import from",
    "gateway/append.py": "a body held aside",
    "lake/process_name.py": "reads the name of its own package of process ids",
    "gateway/retained_results.py": "results held aside",
    "sql/connectors/filesystem.py": "files to import",
    "sql/spark/driver/class_archive.py": "archives of classes of Spark's JVM",
    "sql/spark/driver/jvm.py": "Spark's scratch package",
}
PURE = {"path.join", "path.split", "path.basename", "path.dirname", "path.normpath", "path.isabs", "fspath", "pathsep.join"}
PURE |= {"getpid", "kill", "strerror", "environ.get", "environ.setdefault", "cpu_count", "sched_getaffinity", "register_at_fork"}
OPENING = {"open_input_file", "open_input_stream", "open_output_stream", "open_append_stream", "open_input", "open_output"}
HANDS_ON = SEAM | {"table/format/io/guarded_io.py"}
"""Where ``open_input`` and ``open_output`` are: who calls them translates."""
READS_BY_ITSELF = {"table/scan/read.py", "table/retention/check.py"}
"""Tell a store that fails from a file that is damaged."""


def named(function: ast.expr) -> str:
    """A call's function as it is written, or nothing for what is no plain name."""
    return ast.unparse(function) if isinstance(function, ast.Name | ast.Attribute) else ""


def calls(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Call, bool]]:
    """Every call, and whether it stands where errors of the store are translated."""
    if isinstance(tree, ast.With):
        translated = inside
        for item in tree.items:
            yield from calls(item.context_expr, translated)
            translated = translated or "translating(" in ast.unparse(item.context_expr)
        for statement in tree.body:
            yield from calls(statement, translated)
        return
    if isinstance(tree, ast.Call):
        yield tree, inside
    for child in ast.iter_child_nodes(tree):
        yield from calls(child, inside)


def touching_files(tree: ast.AST) -> Iterator[str]:
    for call, _ in calls(tree):
        name = named(call.func)
        module, _, rest = name.partition(".")
        if name in ("open", "io.open") or (module in ("os", "shutil", "tempfile") and rest not in PURE):
            yield f"{call.lineno}: {name}"


def opened_without_care(tree: ast.AST) -> Iterator[str]:
    for call, translated in calls(tree):
        if isinstance(call.func, ast.Attribute) and call.func.attr in OPENING and not translated:
            yield f"{call.lineno}: {call.func.attr}"


def trees() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())


def test_only_the_seam_asks_about_files_and_what_arrow_opens_is_opened_where_its_errors_are_translated() -> None:
    asking: dict[str, list[str]] = {}
    opening: dict[str, list[str]] = {}
    for name, tree in trees():
        if name not in SEAM | set(ELSEWHERE):
            asking[name] = list(touching_files(tree))
        if name not in READS_BY_ITSELF | HANDS_ON:
            opening[name] = list(opened_without_care(tree))
    assert {name: lines for name, lines in asking.items() if lines} == {}
    assert {name: lines for name, lines in opening.items() if lines} == {}


def test_both_rules_see_what_they_forbid() -> None:
    tree = ast.parse("with open(p) as f:\n    os.unlink(p)\n    os.path.join(p, q)\nsink = fs.open_output_stream(p)\n")
    assert list(touching_files(tree)) == ["1: open", "2: os.unlink"]
    assert list(opened_without_care(tree)) == ["4: open_output_stream"]
    assert list(opened_without_care(ast.parse("with translating(p), fs.open_input_file(p) as f:\n    f.read()"))) == []
