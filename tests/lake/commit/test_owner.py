"""Written files have one owner: nothing but the write context removes them, and what else deletes is on a list."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
DELETES = {
    "lake/commit/write_context.py": "files that no snapshot can name",
    "lake/commit/publish.py": "a snapshot file put where a dropped table lay",
    "lake/rewrite/garbage.py": "directories of dropped tables and branches",
    "lake/register/register.py": "the directory of a migration that was not decided",
    "lake/commit/decided.py": "its own probe",
    "lake/tables/history.py": "snapshot files a rollback takes back",
    "lake/rewrite/orphans.py": "orphans",
    "lake/inspect/checked.py": "its notes of tables that are gone",
    "lake/register/changed.py": "the hint of a snapshot that is set aside",
    "lake/register/upgrade.py": "schema files an earlier version put among rows",
    "lake/rewrite/expiry.py": "expired files",
    "lake/rewrite/store_clock.py": "its own probe",
    "lake/tables/stale.py": "tags",
    "gateway/health.py": "its own probe",
    "jobs/runner.py": "checkpoints of jobs that are gone",
    "sql/spark/streaming/checkpoints.py": "what of a job's checkpoint the catalog contradicts, or a power cut tore",
    "sql/spark/streaming/streaming_query.py": "the batches of a stream that is read through Spark",
    "sql/spark/write/writes.py": "its staging directory, and files of a write that failed before it gave any away",
    "sql/execution/spool.py": "results",
    "server/commands/doctor.py": "its own probe",
    "table/format/discard.py": "what its callers, which are on this list, clean up",
    "table/format/consumers.py": "consumers",
    "table/compaction/rewrite.py": "files merged before anybody was given them",
    "table/format/marked_file.py": "metadata files marked as stale",
    "table/format/store.py": "what its callers, which are on this list, name",
    "table/retention/empty_directories.py": "the markers of partitions without a file",
    "table/write/writer.py": "files of a write that failed before it gave any away",
}
"""Every module that deletes files of the warehouse, and which."""
SEAM = (
    "table/format/io/file_io.py",
    "table/format/io/object_store.py",
    "table/format/io/directory.py",
    "table/format/io/durability.py",
    "table/format/io/deleting.py",
    "table/format/io/guarded_io.py",
)
PACKAGES = ("lake", "sql", "jobs", "maintenance", "gateway", "server", "table")


def _deletes(tree: ast.AST) -> bool:
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if froms & {"table.format.discard", "table.format.io.deleting"}:
        return True
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = (func for func in calls if isinstance(func, ast.Attribute) and func.attr in ("delete", "delete_tree"))
    return any(ast.unparse(func.value).rpartition(".")[2] in ("io", "file_io", "_io", "place", "files") for func in named)


def test_who_deletes_files_is_on_the_list() -> None:
    found = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if _deletes(ast.parse(file.read_text()))
    }
    assert found - set(SEAM) == set(DELETES)


def test_nobody_decides_by_an_exception_whether_files_stay() -> None:
    """`except OutcomeUnknown` beside a clean-up was how sixteen places decided it, each by itself."""
    for package in ("lake", "sql", "jobs", "maintenance", "gateway"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Try) and any("OutcomeUnknown" in ast.unparse(h.type) for h in node.handlers if h.type):
                    cleaned = [ast.unparse(statement) for handler in node.handlers for statement in handler.body]
                    assert not any("discard(" in text or "io.delete(" in text for text in cleaned), file
