"""Only the authority for locations and what it guards joins, normalizes or opens paths of tables: held over the syntax trees.

Each module listed says in a word which paths it has; a new one belongs behind `TableFiles`, whose files are checked as they are used.
"""

from __future__ import annotations

import ast

import pytest

from tests.test_architecture import MAY_IMPORT, ROOT, files

OPENING = {
    "table/format/io/on_disk.py": "whether a file is still the one that was looked at: its path comes from the guard",
    "workers/memory.py": "/proc",
    "lake/reserve.py": "disks of the machine",
    "server/process/postgres_space.py": "the embedded Postgres",
    "table/scan/planning/column_cache.py": "the server's own cache",
    "table/format/io/directory.py": "a directory that is open, by plain names",
    "table/format/io/durability.py": "what the stores wrote",
    "table/format/io/file_io.py": "the store of local files",
    "table/format/io/object_store.py": "the store of objects",
    "table/format/io/reach.py": "the guard itself looks for links",
    "sql/connectors/filesystem.py": "import directories",
    "sql/spark/driver/class_archive.py": "the server's own archives of classes",
    "sql/spark/driver/jvm.py": "the JVM's own directory",
    "server/process/data_directory.py": "the data directory",
    "server/commands/doctor.py": "programs and disks of the machine",
    "server/process/postgres.py": "the embedded Postgres",
    "server/process/postgres_upgrade.py": "the embedded Postgres",
}
NORMALIZING = {
    "table/format/io/links.py": "follows links for the guard",
    "sql/connectors/filesystem.py": "import directories",
    "server/settings/settings.py": "the operator's own settings",
    "sql/spark/driver/class_archive.py": "which Java runs",
}
JOINING = {
    "table/format/layout.py": "the layout of a table",
    "table/format/io/reach.py": "the guard",
    "table/format/io/directory.py": "a directory that is open, by plain names",
    "table/format/io/durability.py": "directories of what was written",
    "table/format/io/file_io.py": "entries of a directory that is open",
    "table/index/build.py": "an index beside its data file",
    "table/index/checksum.py": "an index beside its data file, read through the guard",
    "table/index/skip.py": "an index beside its data file, read through the guard",
    "table/write/writer.py": "names this server gives to data files",
    "lake/register/restored/after_restore.py": "tables found in a warehouse's listing",
    "lake/commit/decided.py": "a probe of its own in a directory",
    "lake/rewrite/file_index.py": "an index beside its data file",
    "lake/register/copies.py": "copies of a backup, at the operator's place",
    "lake/register/standing.py": "the warehouse's mark",
    "lake/register/repair.py": "snapshots set aside",
    "sql/connectors/filesystem.py": "import directories",
    "gateway/health.py": "the server's own directory in the warehouse",
    "model/work/work_limits.py": "the server's own directory in the warehouse",
    "jobs/maker.py": "checkpoints of a job",
    "sql/spark/streaming/checkpoints.py": "checkpoints of a job",
    "sql/spark/connectors/datagen.py": "columns",
    "sql/spark/streaming/partitions.py": "a note among results",
    "sql/spark/write/writes.py": "the staging directory",
    "sql/execution/spool.py": "results",
    "sql/execution/held_results.py": "results that found no space in memory",
    "sql/statements/procedures/calls.py": "what a repair tells",
    "pyspark_sluice/catalog.py": "addresses of the REST catalog",
    "server/access/data_tokens.py": "patterns of a policy",
    "server/commands/doctor.py": "a probe of its own",
    "server/paimon/databases.py": "what the protocol calls a database's location",
}
_OPENS = frozenset(
    [
        "open",
        "unlink",
        "remove",
        "rename",
        "replace",
        "link",
        "symlink",
        "makedirs",
        "mkdir",
        "rmdir",
        "removedirs",
        "scandir",
        "listdir",
        "stat",
        "lstat",
        "walk",
        "truncate",
        "chmod",
    ]
)
_STORE = frozenset({"open_input_stream", "open_output_stream", "open_append_stream", "get_file_info", "delete_file", "delete_dir"})
_PATHS = frozenset(["join", "normpath", "realpath", "abspath", "relpath", "commonpath", "commonprefix"])
_CALLED = ("location", "path", "directory", "root", "prefix", "place", "warehouse", "folder", "dir")
"""What a variable is called that holds a directory."""


def dotted(node: ast.expr) -> str:
    """``os.path.join`` as it stands; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def opens(node: ast.AST) -> bool:
    """Whether it opens, lists, looks at or removes a file by its path."""
    if not isinstance(node, ast.Call):
        return False
    package, _, name = dotted(node.func).rpartition(".")
    if not package:
        return name == "open"
    return (package == "os" and name in _OPENS) or package in ("shutil", "glob") or name in _STORE


def normalizes(node: ast.AST) -> bool:
    """Whether it takes a path apart or puts one together by the rules of this machine."""
    if isinstance(node, ast.Call):
        package, _, name = dotted(node.func).rpartition(".")
        return package in ("os.path", "posixpath") and name in _PATHS
    return isinstance(node, ast.Import | ast.ImportFrom) and "posixpath" in ast.unparse(node)


def joins(node: ast.AST) -> bool:
    """Whether it is a text of a directory, a slash, and more."""
    if isinstance(node, ast.JoinedStr):
        pairs = zip(node.values, node.values[1:], strict=False)
        return any(
            isinstance(one, ast.FormattedValue)
            and isinstance(then, ast.Constant)
            and str(then.value).startswith("/")
            and _directory(one.value)
            for one, then in pairs
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        return isinstance(node.right.value, str) and node.right.value.startswith("/") and _directory(node.left)
    return False


def _directory(node: ast.expr) -> bool:
    names = [one.attr if isinstance(one, ast.Attribute) else one.id for one in ast.walk(node) if isinstance(one, ast.Attribute | ast.Name)]
    return any(word in name.lower() for name in names for word in _CALLED)


DOES = {"opens": opens, "normalizes": normalizes, "joins": joins}


def found(source: str) -> dict[str, list[str]]:
    """What a module does of each kind, with its lines."""
    nodes = list(ast.walk(ast.parse(source)))
    return {what: [f"{getattr(node, 'lineno', 0)}: {ast.unparse(node)}" for node in nodes if does(node)] for what, does in DOES.items()}


ALLOWED = {"opens": OPENING, "normalizes": NORMALIZING, "joins": JOINING}


def test_only_the_authority_for_locations_handles_paths_of_tables() -> None:
    packages = MAY_IMPORT.keys() - {"migrations"}
    all_ = {file.relative_to(ROOT).as_posix(): found(file.read_text()) for package in packages for file in files(package)}
    for what, allowed in ALLOWED.items():
        doing = {file: of[what] for file, of in all_.items() if of[what]}
        assert {file: where for file, where in doing.items() if file not in allowed} == {}
        assert set(allowed) - set(doing) == set(), "a module that does so no more leaves the list"


@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("joins", "f'{table.location}/{name}'"),
        ("joins", "f'x{self.directory.rstrip()}/schema/{n}'"),
        ("joins", "location + '/snapshot'"),
        ("normalizes", "os.path.join(a, b)"),
        ("normalizes", "from posixpath import join"),
        ("opens", "open(path)"),
        ("opens", "os.unlink(path)"),
        ("opens", "shutil.rmtree(path)"),
        ("opens", "self.fs.open_input_stream(path)"),
    ],
)
def test_what_the_rule_sees(what: str, source: str) -> None:
    assert found(source)[what]
